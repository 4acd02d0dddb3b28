"""Construction of a service's engine from a run, a panel, a store and a clock."""

from functools import partial
from pathlib import Path

from forecaster.errors import ForecasterError
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData, earlier_digests, panel_digest
from forecaster.serve.data.replay import Replay
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine, Feed
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.versions import run_folder


def load_model(run: Path) -> ServedModel:
    """Return the model of a saved run, of a folder of versions the current one."""
    folder = run_folder(run)
    estimator = load_estimator(folder)
    digest = estimator.run.digest if estimator.run is not None else None
    return ServedModel(estimator, str(digest)[:12], folder.name if folder != run else None)


def open_engine(
    run: Path, panel: Panel, store: Path | None = None, *, accept_loss: bool = False
) -> Engine:
    """Return the engine of a run and a panel; observations are stored in a file.

    Args:
        run: the folder of the run.
        panel: the panel.
        store: the file; None: in memory only.
        accept_loss: open a damaged file without what is lost.
    """
    digest, earlier = panel_digest(panel), partial(earlier_digests, panel)
    opened = Store(store, digest, earlier, accept_loss=accept_loss)
    return _start(run, LiveData(panel, opened))


def open_replay(run: Path, replay: Replay) -> Engine:
    """Return the engine of a replay; nothing is stored on disk."""
    data = LiveData(replay.base, Store(None, panel_digest(replay.base)), replay.now)
    engine = _start(run, data, replay.feed)
    engine.replay_step_seconds = replay.step_seconds
    return engine


def _start(run: Path, data: LiveData, feed: Feed | None = None) -> Engine:
    try:
        return Engine(partial(load_model, run), data, feed)
    except ForecasterError:
        data.close()  # releases the lock of the store
        raise
