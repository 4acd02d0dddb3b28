"""Covariates that are unknown ahead keep their last value, and lose those that nobody has seen."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError, DataError
from forecaster.panel.fill import fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.panel.past_only import carried_steps, carry, known_columns, known_layers
from forecaster.publish.manifest import read_manifest
from tests.panel.panels import numbers, panel_of

NAN = np.float32(np.nan)
M, S, N = 53, 59, 3


@pytest.fixture
def panel() -> Panel:
    """Return a panel of which the covariates w1 and o0 are past-only."""
    city = panel_of(numbers(M, N), world=numbers(S, 2), own=numbers(2, S, N))
    return city.with_past_only(("w1", "o0"))


def table(steps: int = 31, **columns: object) -> pd.DataFrame:
    times = pd.date_range("2020-01-01", periods=steps, freq="h", tz="UTC")
    y = np.arange(steps, dtype=float)
    y[-5:] = np.nan  # coming steps, of which only covariates are known
    return pd.DataFrame({"unique_id": "a", "ds": times, "y": y, **columns})


@pytest.mark.parametrize(("minutes", "steps"), [(60, 24), (5, 288), (24 * 60, 1), (7 * 1440, 1)])
def test_a_value_is_carried_for_a_day_or_one_longer_step(minutes: int, steps: int) -> None:
    assert carried_steps(Clock("UTC", minutes)) == steps


def test_missing_values_are_the_last_before_them_up_to_a_number_of_steps() -> None:
    values = np.array([[NAN], [7], [NAN], [NAN], [NAN], [5], [NAN]], dtype=np.float32)
    carried = carry(values, 2)[:, 0]
    assert np.array_equal(carried, np.array([NAN, 7, 7, 7, NAN, 5, 5]), equal_nan=True)


def test_past_only_covariates_are_carried_and_then_have_their_usual_value(panel: Panel) -> None:
    shared, local = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    shared[20:50], local[0, 20:50, 1] = np.nan, np.nan
    gaps = panel.with_data(None, shared, local)
    fill = fit_fill(gaps, np.arange(M) < 17)
    filled = fill_missing(gaps, fill)
    means = fill.covariates[panel.clock.slot_of_season(panel.known_times)]
    assert np.array_equal(filled.covariates.values[20:50, 0], means[20:50, 0])  # known ahead
    assert (filled.covariates.values[20:44, 1] == shared[19, 1]).all()
    assert np.array_equal(filled.covariates.values[44:50, 1], means[44:50, 1])
    assert (filled.local_covariates.values[0, 20:44, 1] == local[0, 19, 1]).all()
    assert np.array_equal(filled.local_covariates.values[1], local[1])


def test_known_covariates_are_those_that_are_not_past_only(panel: Panel) -> None:
    assert np.array_equal(known_columns(panel.covariates), panel.covariates.values[:, :1])
    assert np.array_equal(known_layers(panel.local_covariates), panel.local_covariates.values[1:])
    assert panel.known_ahead == ("w0", "o1")
    assert panel.past_only == ("w1", "o0")


def test_every_part_of_a_panel_keeps_what_is_past_only(panel: Panel) -> None:
    parts = [
        panel.steps(3, 11),
        panel.with_earlier(2),
        panel.select(("p2", "p0")),
        panel.with_absent(("new",)),
        panel.with_data(panel.values + 1, panel.covariates.values, panel.local_covariates.values),
        panel.hide_steps(np.arange(M) > 29),
        panel.select_covariates(("w1", "w0"), ("o1", "o0")),
    ]
    assert all(set(part.past_only) == {"w1", "o0"} for part in parts)
    assert panel.select_covariates(("w0",), ("o0",)).past_only == ("o0",)


def test_unknown_names_are_refused(panel: Panel) -> None:
    with pytest.raises(DataError, match="'w2': no such covariate; the panel has w0, w1, o0"):
        panel.with_past_only(("w2",))
    with pytest.raises(DataError, match="past-only rain: not among the covariates heat"):
        Covariates(("heat",), np.zeros((3, 1), np.float32), ("rain",))
    with pytest.raises(DataError, match="past-only rain: not among the covariates heat"):
        LocalCovariates(("heat",), np.zeros((1, 3, 2), np.float32), ("rain",))


def test_a_saved_panel_keeps_what_is_past_only(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path / "panel")
    assert Panel.open(tmp_path / "panel").past_only == ("w1", "o0")
    plain = panel.with_past_only(()).save(tmp_path / "plain")
    assert "past_only" not in read_manifest(tmp_path / "plain").about  # as older panels
    assert plain.past_only == Panel.open(tmp_path / "plain").past_only == ()


def test_a_panel_that_calls_past_only_what_it_lacks_is_refused(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {**panel._about(), "past_only": ["w7"]}
    monkeypatch.setattr(Panel, "_about", lambda _: about)
    panel.save(tmp_path / "panel")
    with pytest.raises(ArtifactError, match="past-only w7"):
        Panel.open(tmp_path / "panel")


def test_tables_name_past_only_columns_and_lose_those_after_the_last_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = table(dropoffs=np.arange(31.0), price=7.0)
    with caplog.at_level(logging.WARNING):
        panel = Panel.from_long(rows, timezone="UTC", past_only=("dropoffs",))
    assert panel.past_only == ("dropoffs",)
    dropoffs, price = panel.local_covariates.values[:, :, 0]
    assert np.isnan(dropoffs[26:]).all()
    assert np.isfinite(dropoffs[:26]).all()
    assert (price == 7).all()
    assert panel.counts["past_only_values_left_out"] == 5
    assert "5 values of past-only covariates (dropoffs)" in caplog.text
    assert "past-only dropoffs" in repr(panel)


def test_shared_covariates_may_be_past_only_too() -> None:
    wide = table()[["ds", "y"]].rename(columns={"ds": "time", "y": "a"})
    shared = pd.DataFrame({"ds": wide["time"], "humidity": 3.0, "sun": 1.0})
    panel = Panel.from_wide(wide, timezone="UTC", covariates=shared, past_only=["humidity"])
    assert panel.covariates.past_only == ("humidity",)
    assert np.isfinite(panel.covariates.values).sum(axis=0).tolist() == [26, 31]


def test_a_past_only_column_that_a_table_lacks_is_refused() -> None:
    with pytest.raises(DataError, match=r"'dropofs': no such covariate; did you mean 'dropoffs'"):
        Panel.from_long(table(dropoffs=1.0), timezone="UTC", past_only=("dropofs",))
