"""Comparing models: evaluate, run and report."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json, PanelFolder, RecipeData, Settings
from forecaster.cli.train import tell_departures, with_settings
from forecaster.errors import ConfigError, RunError, need_extra

if TYPE_CHECKING:
    from forecaster.config import Range
    from forecaster.evaluation.model_specs import Entry
    from forecaster.pipeline.experiment import Study
    from forecaster.recipe import Recipe

T = TypeVar("T")
TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")
RECIPE = "recipe.toml"

Jobs = Annotated[int, typer.Option(min=1, help="Trainings at a time, each in its own process.")]
Seeds = Annotated[
    int | None, typer.Option(min=1, help="Trainings of each model that begins by chance.")
]
Models = Annotated[str | None, typer.Option(help="Names, with commas; else the recipe's.")]
Weathers = Annotated[
    str | None, typer.Option(help="For coming weather: observed,persist,climatology,none.")
]


def evaluate(  # noqa: PLR0913, PLR0917 (one option each)
    recipe: Annotated[Path, typer.Argument(help="What all models share.")],
    out: Annotated[Path, typer.Option(help="Folder of the comparison; the same one goes on.")],
    models: Models = None,
    seeds: Seeds = None,
    data: RecipeData = None,
    panel: PanelFolder = None,
    jobs: Jobs = 1,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose dropout and learning rate of every network, and the size of best.",
        ),
    ] = False,
    widths: Annotated[
        str | None, typer.Option(help="Of Transformer-best, to choose from; else 64 … 4096.")
    ] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Of the graph, to choose from by validation: 0.05,0.1,0.2")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(help="Ablation: own,complete,random,pearson,distance,inverse,lasso"),
    ] = None,
    lags: Annotated[str | None, typer.Option(help="Ablation: recent,daily,weekly")] = None,
    neurons: Annotated[str | None, typer.Option(help="Ablation, per location: 8,16")] = None,
    positions: Annotated[str | None, typer.Option(help="Ablation: literal")] = None,
    weather: Weathers = None,
    test: Annotated[
        str | None, typer.Option(help="Test on other days than the recipe's, FROM:TO.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Compare models on the same test windows; stopped, the same command goes on."""
    from forecaster.choices import GraphKind, PositionKind
    from forecaster.evaluation.model_specs import Ablations, Choices, Lags, list_entries
    from forecaster.recipe import read_recipe

    rules = with_settings(
        read_recipe(recipe), [*(settings or []), *_asked(models, seeds, weather, widths)]
    )
    entries = list_entries(
        rules,
        rules.evaluation.models,
        choices=Choices(
            thresholds=[_number(text, "--threshold") for text in _words(threshold)],
            tune=tune,
        ),
        ablations=Ablations(
            graph=_known(graph, get_args(GraphKind), "--graph"),
            lags=_known(lags, get_args(Lags), "--lags"),
            neurons=_whole(neurons, "--neurons"),
            positions=_known(positions, get_args(PositionKind), "--positions"),
        ),
    )
    further = {"models": models, "weather": weather, "widths": widths, "threshold": threshold}
    further |= {"graph": graph, "lags": lags, "neurons": neurons, "positions": positions}
    further |= {"test": test, "seeds": None if seeds is None else str(seeds)}
    words = [word for name, text in further.items() if text for word in (f"--{name}", text)]
    words += ["--tune"] if tune else []
    place = _Place(recipe, data, panel, jobs, _days(test), tuple(words))
    _compare(rules, entries, out, place, as_json)


def run(  # noqa: PLR0913, PLR0917 (one option each)
    what: Annotated[Path, typer.Argument(help="A recipe, or a table: my.csv or my.parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for all of it; else WHAT's name.")
    ] = None,
    data: RecipeData = None,
    jobs: Jobs = 1,
    timezone: Annotated[
        str | None, typer.Option(help="Of a table's times without an offset; else UTC.")
    ] = None,
    country: Annotated[
        str | None, typer.Option(help="Whose holidays a table follows: US.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Do it all: panel, graph, training, comparison, report. What is there is not done again."""
    from forecaster.evaluation.model_specs import list_entries
    from forecaster.recipe import read_recipe

    is_table = what.name.lower().endswith(TABLE_SUFFIXES)
    if is_table:
        rules, data = _guess(what, timezone, country), what.parent
    else:
        _refuse_table_options(what, timezone, country)
        rules, data = read_recipe(what), data or what.parent
    rules = with_settings(rules, settings or [])
    if is_table:
        terminal.say(f"the recipe guessed for {what}:\n\n{_short(rules)}")
    place = out or Path(what.stem)
    _compare(
        rules,
        list_entries(rules, rules.evaluation.models),
        place,
        _Place(None if is_table else what, data, None, jobs),
        as_json,
    )
    _report(place)


def report(
    comparison: Annotated[
        Path, typer.Argument(help="The folder of `evaluate` or `run`, or one of its table.json.")
    ],
    panel: Annotated[
        Path | None, typer.Option(help="The folder of its panel; else COMPARISON/panel.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures; else COMPARISON/figures.")
    ] = None,
) -> None:
    """Write one page about a comparison, and its figures as PNG and SVG."""
    print(write_report(comparison, panel, figures))


def write_report(comparison: Path, panel: Path | None = None, figures: Path | None = None) -> Path:
    """Write the page and the figures of a comparison; return the path of the page."""
    for module in ("jinja2", "matplotlib"):  # what is lacking is said before anything is done
        need_extra(module, extra="report")
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.comparison import make_sections, render_comparison
    from forecaster.report.data import read_report_data

    with terminal.stages() as (say, _):
        say("reading the comparison")
        material = read_report_data(comparison, panel)
        sections = make_sections(material, say)
        say("writing the page and the figures")
        folder = figures or material.folder / f"figures{material.suffix}"
        for picture in (one for section in sections for one in section.pictures):
            replace_file(folder / f"{picture.name}.svg", bytes_writer(picture.svg))
            replace_file(folder / f"{picture.name}.png", bytes_writer(picture.png))
        page = material.folder / f"report{material.suffix}.html"
        replace_file(page, bytes_writer(render_comparison(material, sections).encode()))
    terminal.say(f"figures: {folder}")
    return page


def _report(folder: Path) -> None:
    """Write the page about a comparison; without the extra say in one line what is lacking."""
    try:
        terminal.say(f"report: {write_report(folder)}")
    except ConfigError as lacking:
        terminal.say(f"no report: {lacking}")


@dataclass(frozen=True)
class _Place:
    """Where a comparison finds its data, how many trainings it runs at a time, what it tests."""

    recipe: Path | None  # as the user wrote it
    data: Path | None
    panel: Path | None
    jobs: int
    tested: "tuple[Range, ...]" = ()
    options: tuple[str, ...] = ()  # what was asked for beside the recipe


def _compare(
    rules: "Recipe", entries: "Sequence[Entry]", out: Path, place: _Place, as_json: bool
) -> None:
    """Run every cell, and print the table."""
    from forecaster.pipeline.evaluate import evaluate_entries, table_paths
    from forecaster.pipeline.experiment import Study, make_panel
    from forecaster.publish.writing import bytes_writer, replace_file

    _refuse_place(out, place.recipe, rules)
    for entry in entries:
        if entry.of is None:
            tell_departures(entry.name, entry.recipe)
    with terminal.training() as (say, watch):
        folder = place.panel or make_panel(out, rules, place.data, say)
        if not _is_same(place.recipe, out / RECIPE):
            # As it was given: a row of another preset fills in what is left out.
            replace_file(out / RECIPE, bytes_writer(_short(rules).encode()))
        study = Study(out, folder, rules, rules.evaluation.weather, place.tested)
        words = ["forecaster", "evaluate", out / RECIPE, "--out", out, "--panel", folder]
        again = shlex.join([*map(str, words), *place.options])
        replace_file(out / f"command{study.suffix}.txt", bytes_writer(f"{again}\n".encode()))
        comparison = evaluate_entries(entries, study, place.jobs, say, watch)
    print(json.dumps(comparison.to_dict()) if as_json else comparison.to_markdown(), end="")
    terminal.say(f"\n{out}: {', '.join(path.name for path in table_paths(study))}")
    best = comparison.recommended
    if best is None:
        _refuse_short(study)
        raise RunError(f"no model could be tested; {out / 'table.md'} says why")
    if best.runs:
        run = out / next(iter(best.runs.values()))
        terminal.say(
            f"`forecaster forecast {run} --panel {folder} --at …` forecasts with {best.name}"
        )


def _refuse_short(study: "Study") -> None:
    """Blame the data, where it was too short for every model."""
    from forecaster.estimators.intervals.calibration import refuse_few
    from forecaster.splits import cut_windows

    windows = cut_windows(study.panel, study.splits, study.recipe.lags)
    refuse_few(len(windows.validation), study.recipe.intervals.quantiles)


def _refuse_place(out: Path, recipe: Path | None, rules: "Recipe") -> None:
    """Refuse a folder of somebody else, and to write over a recipe that says something else."""
    from forecaster.recipe import read_recipe

    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: a file, and a comparison is a folder; choose another name")
    foreign = out.is_dir() and any(out.iterdir()) and not (out / RECIPE).exists()
    if foreign and not (out / "panel.json").exists():
        raise ConfigError(f"{out}: not empty and not a comparison; choose an empty or new folder")
    if _is_same(recipe, out / RECIPE) and read_recipe(out / RECIPE).digest() != rules.digest():
        message = f"{out / RECIPE} is the recipe itself, and --set makes another of it"
        raise ConfigError(f"{message}; choose another --out")


def _is_same(one: Path | None, other: Path) -> bool:
    return one is not None and one.exists() and other.exists() and one.samefile(other)


def _guess(path: Path, timezone: str | None, country: str | None) -> "Recipe":
    from forecaster.ingest.guess import guess_recipe

    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; give a recipe or a table")
    if timezone is None:
        terminal.say("no --timezone: times without an offset are taken to be UTC")
    recipe = guess_recipe(path, timezone, country)
    if timezone not in (None, recipe.panel.timezone):
        terminal.say(f"steps of days and no offsets: taken to be of UTC, not of {timezone}")
    return recipe


def _refuse_table_options(what: Path, timezone: str | None, country: str | None) -> None:
    if timezone is not None or country is not None:
        raise ConfigError(f"{what}: a recipe says its own timezone and country; leave them out")


def _short(recipe: "Recipe") -> str:
    """Return what a recipe says beyond the defaults."""
    import tomli_w

    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _asked(
    models: str | None, seeds: int | None, weather: str | None, widths: str | None
) -> list[str]:
    """Return options as settings of a recipe's [evaluation]."""
    wanted: dict[str, Any] = {"seeds": seeds, "widths": _whole(widths, "--widths") or None}
    wanted |= {
        name: _words(text) or None for name, text in (("models", models), ("weather", weather))
    }
    return [f"evaluation.{n} = {json.dumps(v)}" for n, v in wanted.items() if v is not None]


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _days(text: str | None) -> "tuple[Range, ...]":
    """Return the ranges of `FROM:TO,FROM:TO`."""
    pairs = [tuple(word.split(":")) for word in _words(text)]
    try:
        days = [[date.fromisoformat(day).isoformat() for day in pair] for pair in pairs]
        return tuple((first, last) for first, last in days)
    except ValueError as error:
        form = "give days, as in 2020-03-01:2020-12-31"
        raise ConfigError(f"--test: {text!r}; {form}") from error


def _known(text: str | None, known: Sequence[T], option: str) -> list[T]:
    """Return the given words, all of which must be known."""
    words = _words(text)
    wrong = [word for word in words if word not in known]
    if wrong:
        named = ", ".join(map(str, known))
        raise ConfigError(f"{option}: {', '.join(wrong)}; there are {named}")
    return [one for word in words for one in known if one == word]


def _whole(text: str | None, option: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError as error:
        message = f"{option}: {text!r} are not whole numbers; give some with commas"
        raise ConfigError(message) from error


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {text!r} is not a number; give some with commas") from error
