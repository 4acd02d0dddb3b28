"""Serving forecasts: serve."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli import terminal
from forecaster.cli.options import open_panel
from forecaster.errors import ArtifactError, ConfigError, need_extra

if TYPE_CHECKING:
    from forecaster.serve.forecasting.engine import Engine

REPLAYED_SHARE = 0.1  # of a panel's steps, its last ones


def serve(  # noqa: PLR0913, PLR0917 (one option each)
    run: Annotated[Path | None, typer.Argument(help="The folder of a saved estimator.")] = None,
    panel: Annotated[Path | None, typer.Option(help="The folder of a panel.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8000,
    store: Annotated[
        Path | None, typer.Option(help="File for live observations; else PANEL.sqlite.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that allows writing.")
    ] = None,
    replay: Annotated[
        float | None,
        typer.Option(help="Show the panel's last tenth, a step in so many seconds.", min=0.01),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a built-in city.")] = False,
) -> None:
    """Serve forecasts over HTTP, with a page to look at them."""
    for module in ("fastapi", "uvicorn"):
        need_extra(module, extra="serve")
    from forecaster.serve.http.server import Address
    from forecaster.serve.http.server import serve as serve_forever
    from forecaster.serve.service import read_token

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    token = read_token(token_file) if token_file is not None else None
    if demo:
        engine = _demo(replay)
    elif run is None or panel is None:
        raise ConfigError("serve what? Give RUN and --panel PANEL, or --demo")
    elif not run.is_dir():  # a damaged one is waited for; this is a slip of the pen
        raise ArtifactError(f"{run}: no such folder; give that of a saved estimator")
    elif replay is not None:
        engine = _replay(run, panel, replay)
    else:
        engine = _live(run, panel, store, writes=token is not None)
    serve_forever(engine, Address(host, port), token, _say_where)


def _say_where(url: str) -> None:
    print(f"{url}  (Ctrl-C ends it)", flush=True)


def _live(run: Path, panel: Path, store: Path | None, *, writes: bool) -> "Engine":
    from forecaster.serve.service import open_engine

    beside = panel.with_name(f"{panel.name}.sqlite")
    if store is None and (writes or beside.exists()):
        store = beside
    engine = open_engine(run, open_panel(panel), store)
    fault = engine.data.freshness().fault
    if fault is not None:
        ways = "--replay 5 shows the panel's last tenth as if it were now, a step in 5 seconds"
        feed = "send newer observations" if writes else "--token-file allows newer observations"
        terminal.say(f"{fault}; {ways}; {feed}")
    return engine


def _replay(run: Path, panel: Path, seconds: float) -> "Engine":
    from forecaster.serve.data.replay import Replay
    from forecaster.serve.service import open_replay

    past = open_panel(panel)
    shown = round(len(past.values) * (1 - REPLAYED_SHARE))
    return open_replay(run, Replay(past, shown, seconds))


def _demo(seconds: float | None) -> "Engine":
    from forecaster.serve.data.replay import Replay
    from forecaster.serve.demo import STEP_SECONDS, prepare_demo
    from forecaster.serve.service import open_replay

    with terminal.stages() as (say, _):
        run, panel, shown = prepare_demo(say)
    return open_replay(run, Replay(panel, shown, seconds or STEP_SECONDS))
