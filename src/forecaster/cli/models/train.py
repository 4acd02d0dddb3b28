"""Training a network: train."""

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forecaster.cli import terminal
from forecaster.cli.options import (
    Horizon,
    Json,
    Mlflow,
    PanelFolder,
    RecipeData,
    Settings,
    open_panel,
    open_record,
    with_horizon,
    with_settings,
)
from forecaster.errors import ConfigError, count_of

if TYPE_CHECKING:
    from forecaster.estimators.base import Estimator
    from forecaster.recipe import Recipe
    from forecaster.training.progress import ProgressCallback, ProgressUpdate

Model = Literal[
    "Forecaster", "Ensemble", "Transformer", "DCRNN", "STID", "GraphWaveNet", "STAEformer"
]
CURVES = "curves.png"


def train(  # noqa: PLR0913, PLR0917 (one option each)
    recipe_file: Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe of the run.")],
    out: Annotated[Path, typer.Option(help="Folder of the run. An unfinished run is resumed.")],
    data: RecipeData = None,
    panel: PanelFolder = None,
    graph: Annotated[
        Path | None, typer.Option(help="Folder of the graph. Default: learn it into OUT.")
    ] = None,
    model: Annotated[
        Model | None,
        typer.Option(
            help="Model to train. Default: Ensemble with the preset best, else Forecaster."
        ),
    ] = None,
    horizon: Horizon = None,
    settings: Settings = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(help="Folder for TensorBoard events; needs the package tensorboard."),
    ] = None,
    mlflow: Mlflow = None,
    as_json: Json = False,
) -> None:
    """Train a network, or an ensemble. The same command resumes an interrupted training."""
    from forecaster.graph.storage import open_graph
    from forecaster.pipeline.train import RunInputs, train_run
    from forecaster.recipe import read_recipe
    from forecaster.training.distributed import is_first_process

    terminal.MODE.quiet |= not is_first_process()
    recipe = with_settings(read_recipe(recipe_file), settings or [])
    recipe = with_horizon(recipe, horizon, panel)
    name = model or _default_model(recipe, out)
    print_departures(name, recipe)
    record = open_record(mlflow) if is_first_process() else None
    ground = RunInputs(
        panel=open_panel(panel) if panel is not None else None,
        graph=open_graph(graph) if graph is not None else None,
        data=data,
    )
    with ExitStack() as stack:
        say, on_progress = stack.enter_context(terminal.training())
        if tensorboard is not None:
            on_progress = _with_tensorboard(on_progress, tensorboard, stack)
        trained = train_run(name, recipe, out, ground, say, on_progress)
    if not is_first_process():
        return
    summary = _summarise(trained.estimator, out)
    if trained.was_finished:
        terminal.say(f"{out}: already trained; nothing to do")
    if "epochs" in summary and (not trained.was_finished or not (out / CURVES).exists()):
        _write_curves(summary["epochs"], out / CURVES)
    if record is not None:
        from forecaster.pipeline.mlflow_record import MlflowEntry

        entry = MlflowEntry(out.name, summary["hash"], trained.estimator.recipe)
        entry.files = [out / CURVES, out / "manifest.json"]
        entry.add_epochs(summary.get("epochs", ()))
        record.write(entry)
    if as_json:
        print(json.dumps(summary))
    else:
        _print_run(summary)


def _default_model(recipe: "Recipe", out: Path) -> str:
    """Return the estimator of the preset, or that of a run which the folder already holds.

    What was begun by an earlier version, where the preset best was one network, goes on as that.
    """
    from forecaster.publish.manifest import MANIFEST, read_manifest

    begun = None
    if (out / MANIFEST).exists():
        begun = read_manifest(out, kind="run").about.get("estimator")
    return begun if begun == "Forecaster" else recipe.estimator


def print_departures(name: str, recipe: "Recipe") -> None:
    """Print the recipe values that override the preset of Forecaster, or of an Ensemble."""
    overrides = recipe.departures()
    if overrides and name.startswith(("Forecaster", "Ensemble", "quick", "best")):
        message = f"{name}: preset {recipe.preset}, overridden by the recipe"
        terminal.say(f"{message}: {', '.join(overrides)}; remove them to use the preset's values")


def _with_tensorboard(
    on_progress: "ProgressCallback", folder: Path, stack: ExitStack
) -> "ProgressCallback":
    """Return a callback that also writes TensorBoard events, until the stack closes."""
    from forecaster.training.progress import TensorBoard

    board = TensorBoard(folder)
    stack.callback(board.close)

    def both(update: "ProgressUpdate") -> None:
        on_progress(update)
        board(update)

    return both


def _summarise(estimator: "Estimator", out: Path) -> dict[str, Any]:
    """Return hashes, windows and epochs of a trained run."""
    from forecaster.artifact import load_run

    run = estimator.run or load_run(out)
    return {
        "run": str(out),
        "hash": run.digest,
        "estimator": run.estimator,
        "parents": dict(run.parents),
        "windows": run.about["windows"],
        **({"fallback": run.about["fallback"]} if "fallback" in run.about else {}),
        **{name: run.about[name] for name in ("ensemble", "members") if name in run.about},
        **run.about.get("training", {}),
    }


def _print_run(summary: dict[str, Any]) -> None:
    from forecaster.estimators.fallback.served import describe_fallback

    windows, out = summary["windows"], summary["run"]
    lines = {
        "run": f"{summary['estimator']}, trained on {count_of(windows['train'], 'window')}, "
        f"chosen on {windows['validation']:,}",
        **(_describe_epochs(summary) if "epochs" in summary else _describe_ensemble(summary)),
    }
    fallback = describe_fallback(summary)
    if fallback is not None:
        lines["falls back"] = fallback
    lines["saved"] = f"run {summary['hash'][:12]} in {out}"
    lines["to forecast"] = f"forecaster forecast {shlex.quote(out)} --panel PANEL"
    terminal.show_facts(lines)


def _describe_epochs(summary: dict[str, Any]) -> dict[str, str]:
    """The epoch of a network with the lowest validation loss, and why its training stopped."""
    epochs = summary["epochs"]
    best = min(epochs, key=lambda epoch: epoch["validation_loss"])
    mape = "n/a" if best["mape"] is None else f"{100 * best['mape']:.2f} %"
    terms = count_of(best["validation_terms"], "term")
    return {
        "best": f"epoch {best['epoch']} of {len(epochs)}: validation loss "
        f"{best['validation_loss']:.4g}, RMSE {best['rmse']:.4g}, MAPE {mape} ({terms})",
        "stopped": summary["why"],
    }


def _describe_ensemble(summary: dict[str, Any]) -> dict[str, str]:
    """The members of an ensemble, each with its weights and what it adds."""
    from forecaster.estimators.ensemble.described import describe_errors, describe_members

    lines = {"validation": describe_errors(summary["ensemble"])}
    for number, text in enumerate(describe_members(summary["ensemble"]), start=1):
        lines[f"member {number}"] = text
    return lines


def _write_curves(epochs: list[dict[str, Any]], path: Path) -> None:
    """Draw the learning curves; without the extra `report` only print a message."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.sections.learning_curves import draw_training

    try:
        picture = draw_training(epochs)
    except ConfigError as missing_extra:
        print(f"no figure: {missing_extra}", file=sys.stderr)
        return
    replace_file(path, bytes_writer(picture))
    terminal.say(f"learning curves: {path}")
