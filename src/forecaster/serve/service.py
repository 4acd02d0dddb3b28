"""Construction of a service's engine from a run, a panel, a store and a clock."""

from collections import OrderedDict
from dataclasses import replace
from functools import partial
from pathlib import Path

from forecaster.errors import ConfigError, ForecasterError
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import read_manifest
from forecaster.serve.data.live import LiveData, earlier_digests, panel_digest
from forecaster.serve.data.replay import Replay
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine, Feed
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.shadow import Shadow
from forecaster.versions import Versions, is_versioned, run_folder

NEWEST = "newest"  # the shadow is the newest version that is not current
KEPT_MODELS = 3  # loaded versions: the way back takes no time


def load_model(run: Path) -> ServedModel:
    """Return the model of a saved run; of a folder of versions the current one."""
    folder = run_folder(run)
    estimator = load_estimator(folder)
    digest = estimator.run.digest if estimator.run is not None else None
    return ServedModel(estimator, str(digest)[:12], None if folder == run else folder.name)


class RunVersions:
    """The versions of a folder as models; the last ones that were loaded stay in memory."""

    def __init__(self, folder: Path) -> None:
        """Open a folder of versions."""
        self._versions = Versions(folder)
        self._kept: OrderedDict[str, ServedModel] = OrderedDict()

    def current(self) -> str:
        """Return the name of the current version."""
        return self._versions.current_folder.name

    def load_current(self) -> ServedModel:
        """Return the model of the current version."""
        return self.load(self.current())

    def challenger(self, current: str) -> str | None:
        """Return the newest finished version that is not the current one."""
        names = [v.name for v in self._versions.entries() if v.is_finished and v.name != current]
        return names[-1] if names else None

    def load(self, name: str) -> ServedModel:
        """Return the model of a version."""
        folder = self._versions.find(name).folder
        digest = str(read_manifest(folder).digest)[:12]
        model = self._kept.get(digest)
        if model is None:
            model = replace(load_model(folder), version=name)
        self._kept[model.digest] = model
        self._kept.move_to_end(model.digest)
        while len(self._kept) > KEPT_MODELS:
            self._kept.popitem(last=False)
        return model


def open_engine(
    run: Path,
    panel: Panel,
    store: Path | None = None,
    *,
    accept_loss: bool = False,
    shadow: str | None = None,
) -> Engine:
    """Return the engine of a run and a panel; observations are stored in a file.

    Args:
        run: the folder of the run.
        panel: the panel.
        store: the file; None: in memory only.
        accept_loss: open a damaged file without what is lost.
        shadow: the version that is scored in the shadow, `newest` for the newest that is not
            current; None: none.
    """
    if shadow is not None and not is_versioned(run):
        raise ConfigError(
            f"{run}: a single run; a shadow needs a folder of versions (`forecaster runs --add`)"
        )
    digest, earlier = panel_digest(panel), partial(earlier_digests, panel)
    opened = Store(store, digest, earlier, accept_loss=accept_loss)
    engine = _start(run, LiveData(panel, opened))
    if shadow is not None:
        name = None if shadow == NEWEST else Versions(run).find(shadow).name
        engine.shadow = Shadow(RunVersions(run), engine.data, name)
    return engine


def open_replay(run: Path, replay: Replay) -> Engine:
    """Return the engine of a replay; nothing is stored on disk."""
    data = LiveData(replay.base, Store(None, panel_digest(replay.base)), replay.now)
    engine = _start(run, data, replay.feed)
    engine.replay_step_seconds = replay.step_seconds
    return engine


def _start(run: Path, data: LiveData, feed: Feed | None = None) -> Engine:
    try:
        if not is_versioned(run):
            return Engine(partial(load_model, run), data, feed)
        versions = RunVersions(run)
        return Engine(versions.load_current, data, feed, versions)
    except ForecasterError:
        data.close()  # releases the lock of the store
        raise
