"""The data of a comparison report, read and verified from the folder of a comparison."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from forecaster.artifact import FOREIGN, load_run
from forecaster.artifact import FORMAT as RUN_FORMAT
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.base import Estimator
from forecaster.estimators.graph_arrays import DELAYS, PAIRS, STRENGTHS
from forecaster.estimators.match import with_lags
from forecaster.estimators.registry import find_estimator, load_estimator
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.comparison import REFERENCES, Comparison, ModelResult
from forecaster.evaluation.storage import load_backtest, test_name
from forecaster.graph.dependency import About, DependencyGraph, bare
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST, Manifest, read_manifest
from forecaster.recipe import Recipe, check_stage, read_recipe
from forecaster.report.formatting import rate

TABLE, RECIPE, COMMAND, PANEL = "table", "recipe.toml", "command", "panel"
# Columns that do not name what is counted.
PLAIN_NAMES = (
    "value",
    "values",
    "y",
    "target",
    "count",
    "counts",
    "n",
    "number",
    "total",
    "amount",
)
NOT_PLURAL = ("ss", "us", "is")  # endings
DERIVED = (  # entries of the table that are computed from the rows
    "windows", "days", "mape_cut", "quantiles", "verdict", "sureness", "rows", "against",
    "differences", "step_groups", "freshness",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ReportData:
    """A comparison with its panel and recipe."""

    folder: Path
    panel: Panel
    recipe: Recipe
    comparison: Comparison
    command: str | None  # that made the comparison
    suffix: str = ""  # of the table's name, for tests on other days than the recipe's

    @property
    def best(self) -> ModelResult | None:
        """The recommended model."""
        return self.comparison.recommended

    @cached_property
    def rival(self) -> ModelResult | None:
        """The strongest simple model besides the recommended one, if any was tested."""
        return self.comparison.strongest_simple

    @cached_property
    def subject(self) -> str | None:
        """What is counted or measured, such as `trips` or `speed`; None: nobody told."""
        return _name_values(self.recipe)

    @property
    def values_name(self) -> str:
        """What the values are, as far as it is known: `trips`, `counts`, `units of speed`."""
        if self.panel.kind == "count":
            return self.subject or "counts"
        return f"units of {self.subject or 'the data'}"

    @property
    def unit(self) -> str:
        """The unit of the values, as far as it is known: `trips per hour`, `units of speed`."""
        if self.panel.kind != "count":
            return self.values_name
        return f"{self.values_name} {rate(self.panel.clock.step_minutes)}"

    def in_unit(self, text: str) -> str:
        """Add the unit to a number: `5.1 trips per hour`, `5.1 (speed)`; alone, if unknown."""
        if _is_plural(self.values_name) and self.panel.kind == "count":
            return f"{text} {self.unit}"
        if self.subject is None:
            return text
        return f"{text} ({self.unit.removeprefix('units of ')})"

    def expected(self, text: str, total: bool = False) -> str:
        """Begin a sentence on a number: `5 trips are expected`, `A speed of 5 is expected`."""
        subject = self.subject
        if subject is not None and self.panel.kind == "count" and _is_plural(subject):
            single = f"1 {subject[:-1]} is expected"
            return single if text == "1" else f"{text} {subject} are expected"
        parts = ["total"] * total + ([subject] if subject is not None else []) or ["value"]
        article = "An" if parts[0][0].lower() in "aeio" else "A"
        return f"{article} {' '.join(parts)} of {text} is expected"

    @cached_property
    def drawn(self) -> list[ModelResult]:
        """The models in figures: recommended, strongest simple, Forecaster, the best other one."""
        models = [row for row in self.comparison.tested if row.of is None]
        reference = [row for name in REFERENCES for row in models if row.name == name]
        first = [row for row in (self.best, self.rival, *reference) if row is not None]
        remaining = [row for row in models if row not in first]
        ranked = sorted(remaining, key=lambda row: mean_rmse(row, self.comparison))
        return list(dict.fromkeys([*first, *ranked[:1]]))

    @cached_property
    def graph(self) -> DependencyGraph | None:
        """The dependency graph stored in the first run with one; None without such a run."""
        rows = [r for r in self.comparison.tested if find_estimator(r.estimator).takes_graph]
        runs = (load_run(self.folder / _first_run(row)) for row in rows)
        run = next((run for run in runs if "graph" in run.parents), None)
        if run is None:
            return None
        try:
            about = check_stage(About, run.about["graph"], source="its graph")
            edges = run.arrays[PAIRS], run.arrays[STRENGTHS]
            locations = bare(self.panel.select(tuple(run.about["ids"])).locations)
            delays = run.arrays.get(DELAYS)
            return DependencyGraph(locations, *edges, about, run.parents["graph"], delays)
        except (*FOREIGN, DataError) as error:
            raise ArtifactError(
                f"{self.folder}: the run of {run.estimator} has no graph ({error})"
            ) from error

    def manifests(self, row: ModelResult) -> dict[int, Manifest]:
        """Return the manifests of a row's runs, by seed."""
        runs = row.runs.items()
        return {seed: read_manifest(self.folder / path, "run") for seed, path in runs}

    def estimator_of(self, row: ModelResult) -> Estimator:
        """Load the first trained model of a row, verified."""
        return load_estimator(self.folder / _first_run(row))


def _name_values(recipe: Recipe) -> str | None:
    """The name of what is counted or measured; None: the recipe does not tell."""
    if recipe.trips is not None:
        return "trips"
    columns = (recipe.table.columns if recipe.table is not None else None) or ""
    named = (part.partition("=") for part in columns.split(","))
    name = next((column.strip() for role, _, column in named if role.strip() == "value"), "")
    return None if name.lower() in ("", *PLAIN_NAMES) else name.replace("_", " ")


def _is_plural(name: str) -> bool:
    """Whether a name is that of many things, as `trips` is; others are read as one quantity."""
    return name.isascii() and name.islower() and name.endswith("s") and name[-2:] not in NOT_PLURAL


def _first_run(row: ModelResult) -> str:
    return next(iter(row.runs.values()))


def mean_rmse(row: ModelResult, comparison: Comparison) -> float:
    """Return the mean RMSE over the trainings of a row; infinite without any target."""
    mean = row.seed_means("rmse", comparison.weathers[0])[0].mean
    return float("inf") if mean is None else mean


def read_report_data(source: Path, panel_folder: Path | None = None) -> ReportData:
    """Read the data of a report from the folder of a comparison.

    Args:
        source: the folder that `forecaster evaluate` or `forecaster run` wrote, or a table in it.
        panel_folder: the panel's folder; None: `panel` inside that folder.
    """
    path = source if source.suffix == ".json" else source / f"{TABLE}.json"
    folder, suffix = path.parent, path.stem.removeprefix(TABLE)
    table = _read_table(path)
    recipe = read_recipe(folder / RECIPE)
    panel = _open_panel(folder, panel_folder)
    if table.get("recipe") != recipe.digest():  # not one of a version without a rule for lags
        recipe = with_lags(recipe, panel)
    for part, expected, actual in (
        ("panel", table.get("panel"), panel.digest),
        ("recipe", table.get("recipe"), recipe.digest()),
    ):
        if expected != actual:
            message = f"{path}: made with {part} {str(expected)[:12]}, found {str(actual)[:12]}"
            raise ArtifactError(f"{message}; give that {part}, or run `forecaster evaluate` again")
    try:
        about = {name: value for name, value in table.items() if name not in DERIVED}
        records = [r for r in table["rows"] if not r.get("without_fallback")]
        rows = [_read_row(folder, suffix, record) for record in records]
        comparison = Comparison(rows, float(table["mape_cut"]), about)
    except FOREIGN as error:
        raise ArtifactError(f"{path}: not a comparison table ({error})") from error
    command = _read_command(folder / f"{COMMAND}{suffix}.txt")
    return ReportData(folder, panel, recipe, comparison, command, suffix)


def _read_table(path: Path) -> dict[str, Any]:
    if not path.is_file():
        message = f"{path.parent}: no comparison ({path.name} is missing)"
        command = f"`forecaster evaluate RECIPE --out {path.parent}`"
        raise ConfigError(f"{message}; make one with {command}")
    try:
        table = json.loads(path.read_bytes())
        if not isinstance(table, dict):
            raise ValueError(f"{type(table).__name__} instead of an object")
    except (OSError, ValueError, RecursionError) as error:
        message = f"{path}: damaged or not a comparison table ({error})"
        raise ArtifactError(f"{message}; run `forecaster evaluate` again") from error
    return table


def _open_panel(folder: Path, panel_folder: Path | None) -> Panel:
    if panel_folder is None and not (folder / PANEL / MANIFEST).exists():
        raise ConfigError(
            f"{folder}: its panel is not inside it; give the panel's folder with --panel"
        )
    return Panel.open(panel_folder or folder / PANEL)


def _read_row(folder: Path, suffix: str, record: Mapping[str, Any]) -> ModelResult:
    """Read a row of the table with the assessments of its runs."""
    assessments: dict[int, BacktestResult] = {}
    refit_days = record.get("refit_days")
    for seed, path in record["runs"].items():
        run = read_manifest(folder / path, kind="run", reads=RUN_FORMAT).digest
        tested = load_backtest(folder / path / test_name(suffix, refit_days), run)
        if tested is None:
            message = f"{folder / path}: not tested since it was trained"
            raise ArtifactError(f"{message}; run `forecaster evaluate` again")
        assessments[int(seed)] = tested.under(record["weather"])
    return ModelResult(
        name=str(record["model"]),
        estimator=str(record["estimator"]),
        results=assessments,
        failures=dict(record["failures"]),
        chosen=dict(record["chosen"]),
        of=record["ablation_of"],
        runs={int(seed): str(path) for seed, path in record["runs"].items()},
        refit_days=refit_days,
    )


def _read_command(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None
