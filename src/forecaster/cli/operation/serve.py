"""Serving forecasts: serve."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from forecaster.cli import terminal
from forecaster.cli.options import open_panel
from forecaster.errors import ArtifactError, ConfigError, need_extra

if TYPE_CHECKING:
    from forecaster.serve.forecasting.engine import Engine
    from forecaster.serve.http.access import Access

Reads = Literal["open", "closed"]
REPLAYED_SHARE = 0.1  # of the panel's steps, at its end


def serve(  # noqa: PLR0913, PLR0917 (one option each)
    run: Annotated[Path | None, typer.Argument(help="Folder of a saved estimator.")] = None,
    panel: Annotated[Path | None, typer.Option(help="Folder of the panel.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    store: Annotated[
        Path | None, typer.Option(help="SQLite file of live observations. Default: PANEL.sqlite.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token for writing, or with tokens by scope, one line each: "
            "NAME read|write|admin TOKEN [600/min]. It is read again when it changes."
        ),
    ] = None,
    reads: Annotated[
        Reads, typer.Option(help="Whether reading needs a token: open or closed.")
    ] = "open",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name by which clients call the service, such as forecasts.example.org; "
            "others are refused. May be repeated."
        ),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="File for a line of JSON about each write request.")
    ] = None,
    telemetry: Annotated[
        str | None,
        typer.Option(
            help="Send traces and metrics by OTLP to this address, as http://127.0.0.1:4318."
        ),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Also forecast with the newest version that is not current, and score it.",
        ),
    ] = False,
    shadow_version: Annotated[
        str | None,
        typer.Option(help="Version for the shadow, such as v0007, in place of the newest."),
    ] = None,
    replay: Annotated[
        float | None,
        typer.Option(
            help="Replay the last tenth of the panel, with this many seconds per step.", min=0.01
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Open a damaged store without what is lost; a copy of its files is kept.",
        ),
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a synthetic city.")] = False,
    tiles: Annotated[
        str | None,
        typer.Option(
            help="Map tiles below the page's map, as https://tiles.example.org/{z}/{x}/{y}.png."
        ),
    ] = None,
    tiles_credit: Annotated[
        str, typer.Option(help="Credit of the map tiles, shown on the map.")
    ] = "",
    area: Annotated[
        Path | None,
        typer.Option(
            help="Table with columns area and id: the areas that requests may ask for by name."
        ),
    ] = None,
) -> None:
    """Serve forecasts over HTTP, with a web page."""
    for module in ("fastapi", "uvicorn"):
        need_extra(module, extra="serve")
    from forecaster.serve.http.audit import AuditLog
    from forecaster.serve.http.server import Address
    from forecaster.serve.http.server import serve as serve_forever
    from forecaster.serve.http.settings import HttpSettings
    from forecaster.serve.http.tiles import Tiles

    base_map = Tiles.parse(tiles, tiles_credit) if tiles is not None else None
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    settings = HttpSettings(
        access=_access(token_file, reads),
        hosts=frozenset(name.lower() for name in allow_host or ()),
        audit=AuditLog(audit) if audit is not None else None,
        tiles=base_map,
    )
    challenger = shadow_version or ("newest" if shadow else None)
    if challenger is not None and (demo or replay is not None):
        raise ConfigError("--shadow: scored on live data; leave --demo and --replay out")
    with _traced(telemetry):
        if demo:
            engine = _demo(replay)
        elif run is None or panel is None:
            raise ConfigError("nothing to serve; give RUN and --panel PANEL, or --demo")
        elif not run.is_dir():  # for a damaged run the service starts and retries
            raise ArtifactError(f"{run}: no such folder; give the folder of a saved estimator")
        elif replay is not None:
            engine = _replay(run, panel, replay)
        else:
            live = _Live(run, panel, store, accept_loss, challenger)
            engine = live.open(writes=token_file is not None)
        if base_map is not None:
            terminal.say(
                f"browsers load map tiles from {base_map.origin}, which learns what area they show"
            )
        settings = replace(settings, areas=_read_areas(area, engine))
        serve_forever(engine, Address(host, port), settings, _print_address)


@contextmanager
def _traced(address: str | None) -> Iterator[None]:
    """Send traces and metrics to a collector; None: nowhere."""
    from forecaster.serve import tracing

    if address is None:
        yield
        return
    need_extra("opentelemetry.instrumentation.asgi", extra="telemetry")
    from forecaster.serve.telemetry import send_to

    telemetry = send_to(address)
    tracing.use(telemetry)
    try:
        yield
    finally:
        telemetry.close()


def _access(token_file: Path | None, reads: Reads) -> "Access":
    from forecaster.serve.http.access import Access, TokenFile

    if token_file is not None:
        return Access(TokenFile(token_file), reads_open=reads == "open")
    if reads == "closed":
        raise ConfigError("--reads closed: nobody could read; give --token-file too")
    return Access()


def _read_areas(table: Path | None, engine: "Engine") -> dict[str, frozenset[str]]:
    """Return the ids of the locations of each area; None: there are no areas."""
    if table is None:
        return {}
    from forecaster.estimators.areas import read_areas

    areas = read_areas(table, engine.data.snapshot.locations)
    ids, rows = engine.data.snapshot.locations.ids, zip(areas.names, areas.members, strict=True)
    return {name: frozenset(ids[n] for n in members.nonzero()[0]) for name, members in rows}


def _print_address(url: str) -> None:
    print(f"{url}  (Ctrl-C stops the service)", flush=True)


@dataclass(frozen=True)
class _Live:
    """What a live service is made of."""

    run: Path
    panel: Path
    store: Path | None
    accept_loss: bool
    shadow: str | None

    def open(self, *, writes: bool) -> "Engine":
        """Return its engine; without fresh data say how it gets some."""
        from forecaster.serve.service import open_engine

        store, default_store = self.store, self.panel.with_name(f"{self.panel.name}.sqlite")
        if store is None and (writes or default_store.exists()):
            store = default_store
        panel = open_panel(self.panel)
        engine = open_engine(
            self.run, panel, store, accept_loss=self.accept_loss, shadow=self.shadow
        )
        fault = engine.data.freshness().fault
        if fault is not None:
            replay = "--replay 5 replays the panel's last tenth, 5 seconds per step"
            feed = (
                "send newer observations"
                if writes
                else "--token-file allows sending newer observations"
            )
            terminal.say(f"{fault}; {replay}; {feed}")
        return engine


def _replay(run: Path, panel: Path, seconds: float) -> "Engine":
    from forecaster.serve.data.replay import Replay
    from forecaster.serve.service import open_replay

    recorded = open_panel(panel)
    first = round(len(recorded.values) * (1 - REPLAYED_SHARE))
    return open_replay(run, Replay(recorded, first, seconds))


def _demo(seconds: float | None) -> "Engine":
    from forecaster.serve.data.replay import Replay
    from forecaster.serve.demo import STEP_SECONDS, prepare_demo
    from forecaster.serve.service import open_replay

    with terminal.stages() as (say, _):
        run, panel, first = prepare_demo(say)
    return open_replay(run, Replay(panel, first, seconds or STEP_SECONDS))
