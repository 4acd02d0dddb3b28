"""A service put together from its parts."""

from pathlib import Path

import pytest

from forecaster.errors import ArtifactError
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import panel_digest
from forecaster.serve.data.replay import Replay
from forecaster.serve.data.store import Store
from forecaster.serve.service import open_engine, open_replay
from tests.serve.conftest import HOURS


def test_a_service_is_put_together(run: Path, whole: Panel, panel: Panel, tmp_path: Path) -> None:
    engine = open_engine(run, panel, tmp_path / "s.sqlite")
    assert engine.data.freshness().fault  # that was in 2015
    engine.close()
    replayed = open_replay(run, Replay(whole, HOURS, 1e9))
    assert replayed.data.freshness().newest == HOURS - 1
    assert replayed.feed is not None
    assert (engine.replay_step_seconds, replayed.replay_step_seconds) == (None, 1e9)
    replayed.close()


def test_a_service_that_is_refused_lets_go_of_its_store(
    run: Path, panel: Panel, tmp_path: Path
) -> None:
    few, store = panel.select(panel.locations.ids[:2]), tmp_path / "s.sqlite"
    with pytest.raises(ArtifactError, match="lacks 3 of the run's, more than half"):
        open_engine(run, few, store)
    Store(store, panel_digest(few)).close()  # a file that somebody holds would be refused
