"""A small city, a small model of it, and a service that runs in a thread of the test."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import LastValue
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.http.server import Address, Server, make_server
from forecaster.serve.http.settings import HttpSettings
from forecaster.serve.service import load_model
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from tests.serve.client import SETTINGS, Client

PATIENCE_SECONDS = 60.0  # with final answers; a busy machine would give provisional ones
LAGS = LagConfig(recent=2, seasons=(Season(days=1, count=2), Season(days=7, count=1)), horizon=3)
HOURS = 24 * 37 + 1  # the last is that before the clock goes back


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecaster.serve.forecasting.engine.PREPARE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def whole() -> Panel:
    """Return a city of five locations around the clock change of 2015-11-01, for seven weeks."""
    return make_city(5, "2015-09-25", HOURS + 240).panel


@pytest.fixture(scope="session")
def panel(whole: Panel) -> Panel:
    """Return what is known of it when the service starts; weather reaches ten days further."""
    return replace(whole, values=whole.values[:HOURS])


def fit(
    panel: Panel, later: int, folder: Path, estimator: Callable[[Recipe], Estimator] = Ridge
) -> Path:
    """Save a model that has learned from some hours more than another."""
    stamps = [f"{time}Z" for time in panel.times]
    ends = [0, 500 + later, 800, HOURS]
    ranges = [[(stamps[a], stamps[b - 1])] for a, b in pairwise(ends)]
    estimator(Recipe(lags=LAGS)).fit(panel, Splits(*ranges)).save(folder)
    return folder


@pytest.fixture(scope="session")
def run(panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model."""
    return fit(panel, 0, tmp_path_factory.mktemp("serve") / "run")


@pytest.fixture(scope="session")
def other_run(panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of another model of the same panel."""
    return fit(panel, 53, tmp_path_factory.mktemp("serve") / "other")


@pytest.fixture(scope="session")
def accepting_run(panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model that forecasts locations which it has never met."""
    return fit(panel, 0, tmp_path_factory.mktemp("serve") / "accepting", LastValue)


@pytest.fixture
def model(run: Path) -> ServedModel:
    """Return that model, loaded."""
    return load_model(run)


def first_moment(panel: Panel) -> float:
    """Return the time a minute after the last known hour was over."""
    return float(int(panel.start.astype(np.int64)) + HOURS * 3600 + 60)


@dataclass
class SettableClock:
    """A clock that a test sets."""

    seconds: float

    def __call__(self) -> float:
        return self.seconds

    def pass_hours(self, hours: float) -> None:
        self.seconds += 3600 * hours


@pytest.fixture
def clock(panel: Panel) -> SettableClock:
    """Return a clock that shows a minute after the last known hour was over."""
    return SettableClock(first_moment(panel))


@pytest.fixture
def live(panel: Panel, tmp_path: Path, clock: SettableClock) -> Iterator[LiveData]:
    """Return the panel with an empty store, at the time of that clock."""
    data = LiveData(panel, Store(tmp_path / "store.sqlite", panel_digest(panel)), clock)
    yield data
    data.close()


@pytest.fixture
def engine(run: Path, live: LiveData) -> Iterator[Engine]:
    """Return what answers."""
    made = Engine(partial(load_model, run), live)
    yield made
    made.worker.close()
    made.explainer.close()


STOP_SECONDS = 30  # more than its own limits for ending


@dataclass
class Running(Client):
    """A service that runs in a thread."""

    engine: Engine
    server: Server
    loop: asyncio.AbstractEventLoop


@contextmanager
def running(engine: Engine, settings: HttpSettings = SETTINGS) -> Iterator[Running]:
    """Run a service for as long as the context lasts."""
    server = make_server(engine, Address(port=0), settings)
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        threading.Event().wait(0.01)
    try:
        yield Running(server.url.rpartition(":")[2], engine, server, loops[0])
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        assert not thread.is_alive(), "the service did not stop"


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Return a function that runs a service until the test ends."""
    with ExitStack() as stack:
        yield lambda *args: stack.enter_context(running(*args))


@pytest.fixture
def accepting(accepting_run: Path, live: LiveData, start: Callable[..., Running]) -> Running:
    """Return a running service whose model accepts new locations."""
    return start(Engine(partial(load_model, accepting_run), live))


@pytest.fixture
def service(engine: Engine, start: Callable[..., Running]) -> Running:
    """Return a running service that may be written to."""
    return start(engine)


@pytest.fixture(scope="session")
def shared_service(panel: Panel, run: Path) -> Iterator[Running]:
    """Return a running service for tests that leave it as it is; starting one takes time."""
    now = first_moment(panel)
    data = LiveData(panel, Store(None, panel_digest(panel)), lambda: now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forecaster.serve.forecasting.background.QUIET_SECONDS", 1e9)
        with running(Engine(partial(load_model, run), data)) as service:
            yield service
