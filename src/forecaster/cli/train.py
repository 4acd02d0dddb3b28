"""Training a run: train."""

import json
import sys
import tomllib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json, PanelFolder, RecipeData, Settings, open_panel
from forecaster.errors import ConfigError, count_of

if TYPE_CHECKING:
    from forecaster.estimators.base import Estimator
    from forecaster.recipe import Recipe
    from forecaster.training.progress import ProgressCallback, ProgressUpdate

Model = Literal["Forecaster", "Transformer", "DCRNN"]
CURVES = "curves.png"


def train(  # noqa: PLR0913, PLR0917 (one option each)
    recipe: Annotated[Path, typer.Argument(help="Everything that decides the run.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; the same one goes on with it.")],
    data: RecipeData = None,
    panel: PanelFolder = None,
    graph: Annotated[
        Path | None, typer.Option(help="The folder of a graph; else it is learned into OUT.")
    ] = None,
    model: Annotated[Model, typer.Option(help="Which network.")] = "Forecaster",
    settings: Settings = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's events, if you have it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a network; killed or interrupted, the same command goes on where it ended."""
    from forecaster.graph.storage import open_graph
    from forecaster.pipeline.train import Ground, train_run
    from forecaster.recipe import read_recipe
    from forecaster.training.distributed import is_first_process

    terminal.MODE.quiet |= not is_first_process()
    rules = with_settings(read_recipe(recipe), settings or [])
    tell_departures(model, rules)
    ground = Ground(
        panel=open_panel(panel) if panel is not None else None,
        graph=open_graph(graph) if graph is not None else None,
        data=data,
    )
    with ExitStack() as shown:
        say, bar = shown.enter_context(terminal.training())
        watch = bar if tensorboard is None else _with_board(bar, tensorboard, shown)
        trained = train_run(model, rules, out, ground, say, watch)
    if not is_first_process():
        return
    known = _describe(trained.estimator, out)
    if trained.already:
        terminal.say(f"{out}: trained already; nothing is left to do")
    if not trained.already or not (out / CURVES).exists():
        _write_curves(known["epochs"], out / CURVES)
    if as_json:
        print(json.dumps(known))
    else:
        _print_run(known)


def tell_departures(name: str, recipe: "Recipe") -> None:
    """Say where Forecaster is not quite its preset, since the recipe's own keys win."""
    own = recipe.departures()
    if own and name.startswith("Forecaster"):
        message = f"{name}: preset {recipe.preset}, but for what the recipe says itself"
        terminal.say(f"{message}: {', '.join(own)}; leave that out for the preset's")


def with_settings(recipe: "Recipe", settings: list[str]) -> "Recipe":
    """Return the recipe with some values replaced, each given as `training.epochs=3`."""
    from forecaster.recipe import change

    values = [_read_setting(text) for text in settings]
    return change(recipe, *values, source="the recipe with --set") if values else recipe


def _read_setting(text: str) -> dict[str, Any]:
    """Return what TOML says; a value that is none is text, since a shell takes quotes away."""
    key, equals, value = text.partition("=")
    for line in (text, f"{key}{equals}{json.dumps(value.strip(), ensure_ascii=False)}"):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(line)
    form = "give section.key=value, as in training.epochs=3 or graph.kind=own"
    raise ConfigError(f"--set {text}: no key and value; {form}")


def _with_board(bar: "ProgressCallback", folder: Path, shown: ExitStack) -> "ProgressCallback":
    """Return a watcher that tells TensorBoard too."""
    from forecaster.training.progress import TensorBoard

    board = TensorBoard(folder)
    shown.callback(board.close)

    def both(moment: "ProgressUpdate") -> None:
        bar(moment)
        board(moment)

    return both


def _describe(estimator: "Estimator", out: Path) -> dict[str, Any]:
    """Return what there is to know of a trained run."""
    from forecaster.artifact import load_run

    run = estimator.run or load_run(out)
    return {
        "run": str(out),
        "hash": run.digest,
        "estimator": run.estimator,
        "parents": dict(run.parents),
        "windows": run.about["windows"],
        **run.about["training"],
    }


def _print_run(known: dict[str, Any]) -> None:
    windows, epochs, out = known["windows"], known["epochs"], known["run"]
    best = min(epochs, key=lambda epoch: epoch["validation_loss"])
    mape = "n/a" if best["mape"] is None else f"{100 * best['mape']:.2f} %"
    terms = count_of(best["validation_terms"], "term")
    lines = {
        "run": f"{known['estimator']}, trained on {count_of(windows['train'], 'window')}, "
        f"chosen on {windows['validation']:,}",
        "best": f"epoch {best['epoch']} of {len(epochs)}: validation loss "
        f"{best['validation_loss']:.4g}, RMSE {best['rmse']:.4g}, MAPE {mape} ({terms})",
        "stopped": known["why"],
    }
    for name, text in lines.items():
        print(f"{name:14} {text}")
    use = f"`forecaster forecast {out} --panel …` forecasts with it"
    print(f"{out}: run {known['hash'][:12]}; {use}")


def _write_curves(epochs: list[dict[str, Any]], path: Path) -> None:
    """Draw the learning curves; without the extra say in one line what is lacking."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.sections.learning_curves import draw_training

    try:
        picture = draw_training(epochs)
    except ConfigError as lacking:
        print(f"no picture: {lacking}", file=sys.stderr)
        return
    replace_file(path, bytes_writer(picture))
    terminal.say(f"learning curves: {path}")
