"""What a service has received, as new data of its panel."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import DataError
from forecaster.panel.append import append_panel
from forecaster.panel.panel import Panel
from forecaster.panel.vintages import sort_vintages
from forecaster.serve.data.database import Entry
from forecaster.serve.data.export import read_store
from forecaster.serve.data.live import earlier_digests, panel_digest
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.store import Store

M, HOUR = 50, 3600


@pytest.fixture
def panel(tmp_path: Path) -> Panel:
    """Return a saved panel with weather, a local covariate and three locations."""
    ds = pd.date_range("2021-05-01", periods=M, freq="h", tz="UTC")
    long = pd.DataFrame({
        "unique_id": np.repeat(["a", "b", "c"], M), "ds": np.tile(ds, 3), "y": 5.0, "beds": 2.0,
    })  # fmt: skip
    weather = pd.DataFrame({"ds": ds, "rain": 1.0})
    built = Panel.from_long(
        long[["unique_id", "ds", "y"]], timezone="UTC", step_minutes=60, hours="always",
        covariates=weather, local_covariates=long[["unique_id", "ds", "beds"]],
    )  # fmt: skip
    return built.save(tmp_path / "panel")


def at(panel: Panel, step: int) -> int:
    return int(panel.instant(step).astype(np.int64))


def observed(panel: Panel, step: int, *values: float | None) -> list[Entry]:
    return [(i, at(panel, step), v) for i, v in zip("abc", values, strict=False)]


def test_observations_become_new_steps_of_the_panel(panel: Panel, tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", panel_digest(panel))
    late, soon = at(panel, M + 3), at(panel, M) + 60
    store.write("observations", observed(panel, M, 7.0, None, 9.0), late)
    store.write("observations", observed(panel, M - 1, 6.0, 5.0, None), late)
    store.write("observations", observed(panel, M + 1, 1.0), soon)  # before that step was over
    store.write("covariates", [("rain", at(panel, M + 5), 3.0)], late)
    stored = read_store(tmp_path / "s.sqlite", panel)  # the service goes on
    store.close()
    assert stored is not None
    assert (stored.unfinished, stored.received) == (1, late)
    with pytest.raises(
        DataError, match=r"differs from the panel at 2 values: a at .*: 5 → 6, c at "
    ):
        append_panel(tmp_path / "panel", stored.panel, withdrawn=stored.withdrawn)
    grown, appended = append_panel(
        tmp_path / "panel", stored.panel, withdrawn=stored.withdrawn, revised=True
    )
    assert (appended.steps, appended.revised, appended.withdrawn) == (1, 1, 1)
    np.testing.assert_array_equal(grown.values[-2:], [[6, 5, np.nan], [7, np.nan, 9]])
    assert grown.covariates.values[M + 5].tolist() == [3.0]
    again = append_panel(tmp_path / "panel", stored.panel, withdrawn=stored.withdrawn)[1]
    assert not again


def test_only_what_came_since_is_read(panel: Panel, tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", panel_digest(panel))
    store.write("observations", observed(panel, M, 7.0), at(panel, M + 1))
    store.write("observations", observed(panel, M + 1, 8.0), at(panel, M + 2))
    store.close()
    stored = read_store(tmp_path / "s.sqlite", panel, since=at(panel, M + 2))
    assert stored is not None
    assert stored.panel.values.tolist() == [[8.0]]
    assert stored.panel.start == panel.instant(M + 1)
    assert read_store(tmp_path / "s.sqlite", panel, since=at(panel, M + 9)) is None


def test_registered_locations_join_once_they_have_values(panel: Panel, tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", panel_digest(panel))
    for name in ("new", "silent"):
        store.register(Registration(name, name.title(), 50.0, 7.0, {"beds": 4.0}))
    store.write("observations", [("new", at(panel, M), 3.0)], at(panel, M + 1))
    store.close()
    stored = read_store(tmp_path / "s.sqlite", panel)
    assert stored is not None
    with pytest.raises(DataError, match="none of its locations"):
        append_panel(tmp_path / "panel", stored.panel)  # nothing else tells whose panel it is
    opened = Store(tmp_path / "s.sqlite", panel_digest(panel))
    opened.write("observations", observed(panel, M, 1.0, 2.0, 3.0), at(panel, M + 1))
    opened.close()
    stored = read_store(tmp_path / "s.sqlite", panel)
    assert stored is not None
    grown, appended = append_panel(tmp_path / "panel", stored.panel)
    assert appended.locations == ("new",)
    assert (grown.locations.names[-1], grown.locations.lat[-1]) == ("New", 50.0)
    assert grown.local_covariates.values[0, M].tolist()[-1] == 4.0


def test_covariates_with_vintages_are_known_from_when_they_came(
    panel: Panel, tmp_path: Path
) -> None:
    issued = sort_vintages(("rain",), np.array([1]), np.array([0]), np.ones((1, 1), np.float32))
    dated = replace(panel, covariates=replace(panel.covariates, vintages=issued))
    dated.save(tmp_path / "panel")
    store = Store(tmp_path / "s.sqlite", panel_digest(panel))
    store.write("covariates", [("rain", at(panel, M + 4), 6.0)], at(panel, M + 1) + 5)
    store.close()
    stored = read_store(tmp_path / "s.sqlite", Panel.open(tmp_path / "panel"))
    assert stored is not None
    grown, _ = append_panel(tmp_path / "panel", stored.panel)
    assert grown.covariates.vintages is not None
    seen = grown.covariates.vintages.seen(np.array([M, M + 1]), np.array([M + 4, M + 4]))
    assert seen[:, 0].tolist()[1] == 6.0
    assert np.isnan(seen[0, 0])


def test_the_store_of_another_panel_is_refused(panel: Panel, tmp_path: Path) -> None:
    Store(tmp_path / "s.sqlite", "another").close()
    with pytest.raises(DataError, match="the store of another panel"):
        read_store(tmp_path / "s.sqlite", panel)


def test_a_panel_that_has_grown_keeps_its_store(panel: Panel, tmp_path: Path) -> None:
    few = panel.select(("a", "b"))
    store = Store(tmp_path / "s.sqlite", panel_digest(few))
    store.register(Registration("x", "x"))
    store.close()
    grown = panel.with_absent(["x", "d"])  # two joined later, and the registered one
    assert panel_digest(few) in earlier_digests(grown, {"x"})
    Store(
        tmp_path / "s.sqlite", panel_digest(grown), lambda ids: earlier_digests(grown, ids)
    ).close()
    assert panel_digest(panel.select(("b", "a"))) not in earlier_digests(grown)
