"""Comparing models: evaluate and report."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from forecaster.choices import GraphKind, PositionKind, TrialEngine, Weather
from forecaster.cli import terminal
from forecaster.cli.models.train import print_departures
from forecaster.cli.options import (
    Horizon,
    Json,
    Mlflow,
    PanelFolder,
    RecipeData,
    Settings,
    open_record,
    read_choices,
    read_days,
    read_integers,
    read_numbers,
    split_commas,
    with_horizon,
    with_settings,
)
from forecaster.errors import ConfigError, RunError, need_extra

if TYPE_CHECKING:
    from forecaster.config import Range
    from forecaster.evaluation.comparison import Comparison
    from forecaster.evaluation.model_specs import ModelSpec
    from forecaster.panel.panel import Panel
    from forecaster.pipeline.experiment import Experiment
    from forecaster.pipeline.mlflow_record import MlflowRecord
    from forecaster.recipe import Recipe

RECIPE = "recipe.toml"

Jobs = Annotated[int, typer.Option(min=1, help="Number of parallel training processes.")]
Seeds = Annotated[
    int | None, typer.Option(min=1, help="Number of seeds for each model with random weights.")
]
Models = Annotated[
    str | None, typer.Option(help="Comma-separated names. Default: the recipe's models.")
]
Weathers = Annotated[
    str | None,
    typer.Option(help=f"Weather ahead in the tests: {','.join(get_args(Weather))}."),
]


def evaluate(  # noqa: PLR0913, PLR0917 (one option each)
    recipe_file: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="Recipe that all models share.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the comparison. An existing one resumes.")],
    models: Models = None,
    seeds: Seeds = None,
    data: RecipeData = None,
    panel: PanelFolder = None,
    jobs: Jobs = 1,
    engine: Annotated[
        TrialEngine,
        typer.Option(
            help="What runs trainings in parallel: processes of this machine, or Ray "
            "(on the cluster of RAY_ADDRESS, else on this machine)."
        ),
    ] = "processes",
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Tune dropout and learning rate of every network, and the width of "
            "Transformer-best.",
        ),
    ] = False,
    widths: Annotated[
        str | None,
        typer.Option(help="Candidate widths of Transformer-best. Default: 64 to 4096."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="Candidate graph thresholds, chosen by validation: 0.05,0.1,0.2"),
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help=f"Ablation of the graph: {','.join(get_args(GraphKind))}")
    ] = None,
    lags: Annotated[
        str | None, typer.Option(help="Ablation of the lags: recent,daily,weekly")
    ] = None,
    neurons: Annotated[
        str | None, typer.Option(help="Ablation of the neurons per location: 8,16")
    ] = None,
    positions: Annotated[
        str | None, typer.Option(help="Ablation of the positional encoding: literal")
    ] = None,
    weather: Weathers = None,
    test: Annotated[
        str | None, typer.Option(help="Test days in place of the recipe's, FROM:TO.")
    ] = None,
    refit: Annotated[
        str | None,
        typer.Option(
            help="Also test every model as a service uses it: fitted anew every 7d, 28d or so, to "
            "what is known by then. The table shows what that is worth and costs."
        ),
    ] = None,
    horizon: Horizon = None,
    settings: Settings = None,
    mlflow: Mlflow = None,
    as_json: Json = False,
) -> None:
    """Compare models on the same test windows. The same command resumes an interrupted one."""
    from forecaster.evaluation.model_specs import Ablations, LagSubset, TuningOptions, list_models
    from forecaster.evaluation.refits import read_interval
    from forecaster.recipe import read_recipe

    overrides = evaluation_settings(models, seeds, weather, widths)
    recipe = with_settings(read_recipe(recipe_file), [*(settings or []), *overrides])
    recipe = with_horizon(recipe, horizon, panel)
    tuning = TuningOptions(thresholds=read_numbers(threshold, "--threshold"), tune=tune)
    ablations = Ablations(
        graph=read_choices(graph, get_args(GraphKind), "--graph"),
        lags=read_choices(lags, get_args(LagSubset), "--lags"),
        neurons=read_integers(neurons, "--neurons"),
        positions=read_choices(positions, get_args(PositionKind), "--positions"),
    )

    def list_entries(recipe: "Recipe") -> "list[ModelSpec]":
        return list_models(recipe, recipe.evaluation.models, tuning=tuning, ablations=ablations)

    options = {"models": models, "weather": weather, "widths": widths, "threshold": threshold}
    options |= {"graph": graph, "lags": lags, "neurons": neurons, "positions": positions}
    options |= {"test": test, "refit": refit, "seeds": None if seeds is None else str(seeds)}
    arguments = [word for name, text in options.items() if text for word in (f"--{name}", text)]
    arguments += ["--tune"] if tune else []
    days = read_days(test, "--test")
    refit_days = None if refit is None else read_interval(refit)
    inputs = Inputs(recipe_file, data, panel, jobs, days, tuple(arguments), refit_days, engine)
    record = open_record(mlflow)
    compared = compare(recipe, list_entries, out, inputs)
    if record is not None:
        _record(record, compared, out)
    print_comparison(compared, out, as_json)


def report(
    comparison: Annotated[
        Path, typer.Argument(help="Folder of `evaluate` or `run`, or one of its table.json files.")
    ],
    panel: Annotated[
        Path | None, typer.Option(help="Folder of the panel. Default: COMPARISON/panel.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures. Default: COMPARISON/figures.")
    ] = None,
) -> None:
    """Write an HTML report of a comparison, and its figures as PNG and SVG."""
    print(write_report(comparison, panel, figures))


def write_report(comparison: Path, panel: Path | None = None, figures: Path | None = None) -> Path:
    """Write the report and the figures of a comparison; return the path of the report."""
    for module in ("jinja2", "matplotlib"):  # a missing extra is reported before any work
        need_extra(module, extra="report")
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.remaining import track
    from forecaster.report.comparison import make_sections, render_comparison
    from forecaster.report.data import read_report_data

    with terminal.stages() as (say, _):
        say("reading the comparison")
        material = read_report_data(comparison, panel)
        sections = make_sections(material, say)
        say("drawing")
        folder = figures or material.folder / f"figures{material.suffix}"
        pictures = [picture for section in sections for picture in section.pictures]
        for picture in track(pictures, "picture", say):
            replace_file(folder / f"{picture.name}.svg", bytes_writer(picture.svg))
            replace_file(folder / f"{picture.name}.png", bytes_writer(picture.png))
        page = material.folder / f"report{material.suffix}.html"
        replace_file(page, bytes_writer(render_comparison(material, sections).encode()))
    terminal.say(f"figures: {folder}")
    return page


@dataclass(frozen=True)
class Inputs:
    """The inputs of a comparison apart from its recipe, from the command line."""

    recipe_file: Path | None
    data: Path | None
    panel: Path | None
    jobs: int = 1
    test_days: "tuple[Range, ...]" = ()
    options: tuple[str, ...] = ()  # further options, repeated in the saved command
    refit_days: int | None = None  # between refits on the way; None: models stay as fitted
    engine: TrialEngine = "processes"  # that runs `jobs` trainings at a time


@dataclass(frozen=True)
class Compared:
    """A finished comparison."""

    comparison: "Comparison"
    study: "Experiment"

    @property
    def panel(self) -> "Panel":
        """The panel of the comparison."""
        return self.study.panel


def compare(
    recipe: "Recipe",
    list_entries: "Callable[[Recipe], Sequence[ModelSpec]]",
    out: Path,
    inputs: Inputs,
) -> Compared:
    """Train and test all models, and write the tables."""
    from forecaster.estimators.match import explain_lags, with_lags
    from forecaster.panel.panel import Panel
    from forecaster.pipeline.evaluate import evaluate_models
    from forecaster.pipeline.experiment import Experiment, make_panel
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.splits import explain_short

    _check_output(out, inputs.recipe_file, recipe)
    for entry in list_entries(recipe):  # faults are told before any work
        if entry.of is None:
            print_departures(entry.name, entry.recipe)
    with terminal.training() as (say, on_progress):
        panel = inputs.panel or make_panel(out, recipe, inputs.data, say)
        if not _is_same_file(inputs.recipe_file, out / RECIPE):
            # Only explicit values: an entry with another preset takes that preset's defaults.
            replace_file(out / RECIPE, bytes_writer(to_toml(recipe).encode()))
        built = Panel.open(panel, verify=False)
        say(f"lags: {explain_lags(recipe, built)}")
        suited = with_lags(recipe, built)
        weathers, refit_days = recipe.evaluation.weather, inputs.refit_days
        study = Experiment(out, panel, suited, weathers, inputs.test_days, refit_days=refit_days)
        if explain_short(built, suited.lags):
            _check_length(study)
        words = ["forecaster", "evaluate", out / RECIPE, "--out", out, "--panel", panel]
        command = shlex.join([*map(str, words), *inputs.options])
        replace_file(out / f"command{study.suffix}.txt", bytes_writer(f"{command}\n".encode()))
        entries = list_entries(suited)
        comparison = evaluate_models(entries, study, inputs.jobs, say, on_progress, inputs.engine)
    return Compared(comparison, study)


def _record(record: "MlflowRecord", compared: Compared, out: Path) -> None:
    """Record a comparison: its errors, tables and verdict."""
    import hashlib

    from forecaster.pipeline.evaluate import table_paths
    from forecaster.pipeline.mlflow_record import MlflowEntry

    content = compared.comparison.to_dict()
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    entry = MlflowEntry(out.name, digest, compared.study.recipe)
    entry.files = table_paths(compared.study)
    entry.add_comparison(content)
    record.write(entry)


def print_comparison(compared: Compared, out: Path, as_json: bool) -> None:
    """Print the scores, the files and how to go on; a comparison without a model is an error."""
    from forecaster.pipeline.evaluate import table_paths

    comparison, study = compared.comparison, compared.study
    if as_json:
        print(json.dumps(comparison.to_dict()), end="")
    else:
        terminal.print_scores(comparison.to_dict())
    names = ", ".join(path.name for path in table_paths(study))
    terminal.say(f"\n{out}: {names} have each step ahead, intervals, bias and costs")
    best = comparison.recommended
    if best is None:
        _check_length(study)
        raise RunError(f"no model could be tested; {out / 'table.md'} gives the reasons")
    if best.runs:
        run = out / next(iter(best.runs.values()))
        panel = study.panel_folder
        terminal.say(f"to forecast with {best.name}:")
        terminal.say_command(
            shlex.join(["forecaster", "forecast", str(run), "--panel", str(panel)])
        )


def _check_length(study: "Experiment") -> None:
    """Raise a data error where the panel is too short for every model."""
    from forecaster.estimators.intervals.calibration import refuse_few
    from forecaster.splits import cut_windows, explain_short

    windows = cut_windows(study.panel, study.splits, study.recipe.lags)
    levels = study.recipe.intervals.quantiles
    advice = explain_short(study.panel, study.recipe.lags)
    refuse_few(len(windows.validation), levels, advice)


def _check_output(out: Path, recipe_file: Path | None, recipe: "Recipe") -> None:
    """Refuse an output folder that holds something else, or that would overwrite the recipe."""
    from forecaster.recipe import read_recipe

    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: a file; a comparison needs a folder; choose another --out")
    occupied = out.is_dir() and any(out.iterdir()) and not (out / RECIPE).exists()
    if occupied and not (out / "panel.json").exists():
        raise ConfigError(f"{out}: not empty and not a comparison; choose an empty or new folder")
    same_file = _is_same_file(recipe_file, out / RECIPE)
    if same_file and read_recipe(out / RECIPE).digest() != recipe.digest():
        message = f"{out / RECIPE} is the recipe itself, and --set would change it"
        raise ConfigError(f"{message}; choose another --out")


def _is_same_file(path: Path | None, target: Path) -> bool:
    return path is not None and path.exists() and target.exists() and path.samefile(target)


def to_toml(recipe: "Recipe") -> str:
    """Return the values of a recipe that were set, without defaults."""
    import tomli_w

    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def evaluation_settings(
    models: str | None, seeds: int | None, weather: str | None, widths: str | None
) -> list[str]:
    """Return options as settings of the recipe's section [evaluation]."""
    values: dict[str, Any] = {
        "seeds": seeds,
        "widths": read_integers(widths, "--widths"),
        "models": split_commas(models),
        "weather": split_commas(weather),
    }
    return [f"evaluation.{name} = {json.dumps(value)}" for name, value in values.items() if value]
