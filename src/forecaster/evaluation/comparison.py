"""Models on the same test windows: figures over trainings, differences, and what follows."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int64

from forecaster.choices import Weather
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import FORMS, Assessment, Form, assess
from forecaster.evaluation.bootstrap import Difference, compare_errors
from forecaster.evaluation.tables import csv_text, markdown_text
from forecaster.evaluation.verdict import Standing, give_verdict, recommend, say_how_sure
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows

FIGURES = ("rmse", "mape", "mae", "wape")
INTERVAL_FIGURES = ("coverage", "width", "pinball")
REFERENCE = "Forecaster"  # what the others are compared with, if it is there


@dataclass(frozen=True)
class Spread:
    """A figure over some trainings; None where no target counts."""

    mean: float | None
    deviation: float | None = None  # of the sample; None for one training

    @staticmethod
    def of(values: Sequence[float | None]) -> "Spread":
        """Return mean and deviation."""
        known = [value for value in values if value is not None]
        if not known:
            return Spread(None)
        return Spread(statistics.fmean(known), statistics.stdev(known) if known[1:] else None)


@dataclass(frozen=True, eq=False)
class Row:
    """A model, and what became of each of its trainings."""

    name: str
    estimator: str
    found: Mapping[int, Assessment]  # by seed
    failures: Mapping[str, str] = field(default_factory=dict)  # why, by what: seed 2, width 4096
    chosen: Mapping[str, str] = field(default_factory=dict)  # on validation: width → 256
    of: str | None = None  # the row that it is an ablation of
    runs: Mapping[int, str] = field(default_factory=dict)  # folders, by seed

    @property
    def first(self) -> Assessment:
        """What the first training did."""
        return next(iter(self.found.values()))

    def spread(self, figure: str, weather: Weather) -> list[Spread]:
        """Return a figure over the trainings: of all steps ahead, then of each."""
        reports = [found.errors[weather].report() for found in self.found.values()]
        columns = zip(*((report.average, *report.steps) for report in reports), strict=True)
        return [Spread.of([getattr(s, figure).value for s in column]) for column in columns]

    def interval_spread(self, figure: str, form: Form) -> list[Spread]:
        """Return a figure of the intervals: of all steps ahead, then of each; empty without."""
        known = [found.sureness for found in self.found.values() if found.sureness is not None]
        columns = zip(*(sureness.windows[form].report() for sureness in known), strict=True)
        return [Spread.of([getattr(s, figure).value for s in column]) for column in columns]

    def costs(self) -> dict[str, float | int | None]:
        """Return what the model took: numbers, seconds of training, milliseconds of a forecast."""
        each = self.found.values()
        seconds = [found.seconds for found in each]
        return {
            "parameters": self.first.parameters,
            "seconds": Spread.of(seconds).mean,
            "milliseconds": statistics.median(found.milliseconds for found in each),
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """The rows of a table; all of them were tested on the same windows."""

    rows: Sequence[Row]
    mape_cut: float
    about: Mapping[str, Any]  # the panel, and what else it was made from

    def __post_init__(self) -> None:
        origins = [found.origins.tolist() for row in self.rows for found in row.found.values()]
        if any(other != origins[0] for other in origins[1:]):
            raise DataError("models were tested on different windows; they cannot be compared")
        if len(self._all_levels) > 1:
            raise DataError("models forecast different quantiles; they cannot be compared")

    @property
    def tested(self) -> list[Row]:
        """The rows that have a result."""
        return [row for row in self.rows if row.found]

    @property
    def weathers(self) -> list[Weather]:
        """What was taken for the coming weather; the first is what the table is about."""
        return list(self.tested[0].first.errors) if self.tested else []

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles that were forecast; none in runs that were saved without."""
        return next(iter(self._all_levels), ())

    @property
    def _all_levels(self) -> set[tuple[float, ...]]:
        each = [found.sureness for row in self.rows for found in row.found.values()]
        return {sureness.levels for sureness in each if sureness is not None}

    @cached_property
    def reference(self) -> Row | None:
        """The row that the others are compared with: Forecaster, or the best."""
        named = [row for row in self.tested if row.name == REFERENCE]
        return next(iter(named or sorted(self.tested, key=lambda r: self._mean(r, "rmse"))), None)

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """How much larger the errors of each other row are than the reference's."""
        reference = self.reference
        others = [row for row in self.tested if row is not reference]
        return {row.name: self.compare(row, reference) for row in others if reference is not None}

    @cached_property
    def verdict(self) -> list[str]:
        """Say in plain words which model to use."""
        rows = {row.name: row for row in self.tested}
        return give_verdict(self._standings, lambda one, two: self.compare(rows[one], rows[two]))

    @property
    def sureness(self) -> str | None:
        """Say in plain words how often the intervals of the recommended model held."""
        row = self.recommended
        if row is None or row.first.sureness is None:
            return None
        static, online = (row.interval_spread("coverage", form)[0].mean for form in FORMS)
        if static is None or online is None:
            return None
        return say_how_sure(row.name, row.first.sureness.wanted, static, online)

    @property
    def recommended(self) -> Row | None:
        """The row to use: the simplest within reach of the best."""
        name = recommend(self._standings)
        return next((row for row in self.tested if row.name == name), None)

    @cached_property
    def _standings(self) -> list[Standing]:
        return [
            Standing(r.name, r.estimator, self._mean(r, "rmse"), self._mean(r, "mape"), r.of)
            for r in self.tested
        ]

    def compare(self, row: Row, other: Row) -> Difference:
        """Return how much larger the errors of a row are than those of another."""
        weather = self.weathers[0]
        ours, theirs = ([f.errors[weather] for f in r.found.values()] for r in (row, other))
        return compare_errors(ours, theirs, row.first.days)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        windows = self.tested[0].first if self.tested else None
        return {
            **self.about,
            "windows": len(windows.origins) if windows else 0,
            "days": len(set(windows.days.tolist())) if windows else 0,
            "mape_cut": self.mape_cut,
            "quantiles": list(self.levels),
            "verdict": self.verdict,
            "sureness": self.sureness,
            "rows": [self._record(row) for row in self.rows],
            "against": self.reference.name if self.reference else None,
            "differences": {name: asdict(found) for name, found in self.differences.items()},
        }

    def to_json(self) -> str:
        """Return everything for programs."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_csv(self) -> str:
        """Return a line for each model and weather."""
        return csv_text(self.to_dict())

    def to_markdown(self) -> str:
        """Return the verdict and the tables for people."""
        return markdown_text(self.to_dict())

    def _record(self, row: Row) -> dict[str, Any]:
        record = {
            "model": row.name,
            "estimator": row.estimator,
            "ablation_of": row.of,
            "chosen": dict(row.chosen),
            "failures": dict(row.failures),
            "seeds": list(row.found),
            "runs": {str(seed): folder for seed, folder in row.runs.items()},
        }
        if not row.found:
            return record
        tests = {
            w: {f: [asdict(s) for s in row.spread(f, w)] for f in FIGURES} for w in self.weathers
        }
        sure = {
            form: {f: [asdict(s) for s in row.interval_spread(f, form)] for f in INTERVAL_FIGURES}
            for form in FORMS
            if row.first.sureness is not None
        }
        scores = row.first.errors[self.weathers[0]].scores()
        terms = {"terms": scores.rmse.terms, "mape_terms": scores.mape.terms}
        return {**record, **terms, **row.costs(), "weather": tests, "intervals": sure}

    def _mean(self, row: Row, figure: str) -> float:
        mean = row.spread(figure, self.weathers[0])[0].mean
        return math.inf if mean is None else mean


def evaluate(
    models: Sequence[Estimator],
    panel: Panel,
    splits: Splits,
    *,
    weather: Sequence[Weather] = ("observed",),
) -> Comparison:
    """Compare estimators on the test windows that all of them can be asked about.

    Args:
        models: fitted ones are tested as they are, others are fitted first. Those that differ in
            nothing but `training.seed` share a row: mean ± deviation over them.
        panel: what was observed.
        splits: which steps are for what; only test steps are scored.
        weather: what to take for covariates ahead; the first is what the verdict is about.
    """
    if not models:
        raise ConfigError("no model to evaluate; give some, as in evaluate([SeasonalNaive()], …)")
    cuts = {model.recipe.metrics.mape_cut for model in models}
    if len(cuts) > 1:
        raise ConfigError(f"models differ in metrics.mape_cut ({sorted(cuts)}); give all the same")
    levels = {_levels(model) for model in models} - {()}
    if len(levels) > 1:
        named = f"models differ in intervals.quantiles ({sorted(levels)})"
        raise ConfigError(f"{named}; give all the same")
    origins = common_windows(panel, splits, [model.recipe for model in models])
    rows: dict[tuple[str, str], dict[int, Assessment]] = {}
    for model in models:
        if model.run is None:
            model.fit(panel, splits)
        seed = model.recipe.training.seed if model.seeded else 0
        row = rows.setdefault((type(model).__name__, _key(model)), {})
        if seed in row:
            raise ConfigError(f"{type(model).__name__} with seed {seed} is there twice")
        row[seed] = assess(model, panel, origins, given_weather(panel, weather))
    names = _name([name for name, _ in rows])
    found = [Row(n, k[0], row) for n, (k, row) in zip(names, rows.items(), strict=True)]
    return Comparison(found, cuts.pop(), describe_panel(panel))


def describe_panel(panel: Panel) -> dict[str, Any]:
    """Return what a comparison says of its panel."""
    names = [*panel.covariates.names, *panel.local_covariates.names]
    return {"panel": panel.digest, "locations": len(panel.locations), "covariates": names}


def common_windows(
    panel: Panel, splits: Splits, recipes: Sequence[Recipe]
) -> Int64[np.ndarray, " B"]:
    """Return the test windows that all recipes' lags have in common."""
    horizons = {recipe.lags.horizon for recipe in recipes}
    if len(horizons) > 1:
        raise ConfigError(f"models forecast {sorted(horizons)} steps ahead; give all the same")
    unlike = {recipe.lags.model_dump_json(): recipe.lags for recipe in recipes}
    windows = [set(cut_windows(panel, splits, lags).test.tolist()) for lags in unlike.values()]
    common = sorted(set.intersection(*windows))
    if not common:
        raise DataError("models have no test window in common; test on a longer span")
    return np.array(common, dtype=np.int64)


def given_weather(panel: Panel, weather: Sequence[Weather]) -> list[Weather]:
    """Return what can be taken for the coming weather: without any there is no difference."""
    wanted = list(dict.fromkeys(weather))
    if not wanted:
        raise ConfigError("weather: none given; observed, persist, climatology or none is needed")
    has_any = panel.covariates.names or panel.local_covariates.names
    return wanted if has_any else wanted[:1]


def _levels(model: Estimator) -> tuple[float, ...]:
    """Return the quantiles of a model; none if it was saved before there were any."""
    return model.levels if model.run is not None else model.recipe.intervals.quantiles


def _key(model: Estimator) -> str:
    """Return what models of one row share: all of the recipe but the seed, and the graph."""
    recipe = change(model.recipe, {"training": {"seed": 0}}, source="the recipe")
    graph = model.run.parents.get("graph", "") if model.run is not None else ""
    return recipe.digest() + graph


def _name(names: list[str]) -> list[str]:
    """Return names that are told apart: the second Forecaster is `Forecaster 2`."""
    numbered = []
    for index, name in enumerate(names):
        count = names[: index + 1].count(name)
        numbered.append(name if count == 1 else f"{name} {count}")
    return numbered
