"""A service put together from its parts: a run, a panel, a store, a clock."""

from functools import partial
from pathlib import Path

from forecaster.errors import ConfigError, ForecasterError
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Live, identify
from forecaster.serve.data.moment import real_time
from forecaster.serve.data.present import Present
from forecaster.serve.data.replay import Replay
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine, Feeder
from forecaster.serve.forecasting.forecast import Model

MIN_TOKEN = 16  # characters


def load_model(run: Path) -> Model:
    """Return the run of a folder, ready to forecast."""
    estimator = load_estimator(run)
    digest = estimator.run.digest if estimator.run is not None else None
    return Model(estimator, str(digest)[:12])


def open_engine(run: Path, panel: Panel, store: Path | None = None) -> Engine:
    """Return what answers from a run and a panel; observations are kept in a file."""
    live = Live(panel, Store(store, identify(panel)))
    return _start(run, Present(live, real_time))


def open_replay(run: Path, replay: Replay) -> Engine:
    """Return what answers as if a past were now; nothing is kept."""
    live = Live(replay.base, Store(None, identify(replay.base)))
    engine = _start(run, Present(live, replay.now), replay.feed)
    engine.replay_step_seconds = replay.step_seconds
    return engine


def read_token(file: Path) -> str:
    """Return the token that allows writing, from a file that only its owner may read."""
    try:
        mode, token = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: no token can be read ({error})") from error
    if mode & 0o077:
        raise ConfigError(f"{file}: others may read the token; chmod 600 {file}")
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        need = f"one line of at least {MIN_TOKEN} printable characters is needed"
        raise ConfigError(f"{file}: not a token; {need}, as from `openssl rand -hex 32`")
    return token


def _start(run: Path, present: Present, feeder: Feeder | None = None) -> Engine:
    try:
        return Engine(partial(load_model, run), present, feeder)
    except ForecasterError:
        present.live.close()  # nobody else holds its file
        raise
