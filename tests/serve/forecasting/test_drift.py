"""Drift in a service: weeks of the ledger against validation, and silent places."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.evaluation.drift.scores import SUMS, DaySums
from forecaster.serve.data.live import LiveData
from forecaster.serve.data.scores import DayScore
from forecaster.serve.forecasting.drift import (
    find_silent,
    join_days,
    judge,
    score_part,
    validation_parts,
)
from forecaster.serve.forecasting.forecast import ServedModel
from tests.serve.conftest import HOURS

DAYS = 42
FIRST = np.datetime64("2015-11-02", "D")


def days(factor: float, count: int = DAYS) -> list[DayScore]:
    """Return days whose errors are a factor of the usual ones."""
    generator = np.random.default_rng(1)
    error = 100 * factor * generator.uniform(0.9, 1.1, count)
    return [
        DayScore("a", str(FIRST + d), 100, 1.0, float(e), 0.0, 1000.0, 100, 80)
        for d, e in enumerate(error)
    ]


@pytest.fixture(scope="module")
def reference() -> DaySums:
    """Return six weeks of validation."""
    sums = {name: np.full((DAYS, 1), 100.0) for name in SUMS}
    generator = np.random.default_rng(2)
    sums |= {
        "absolutes": 100 * generator.uniform(0.9, 1.1, (DAYS, 1)),
        "signed": generator.normal(0, 5, (DAYS, 1)),
        "sizes": np.full((DAYS, 1), 1000.0), "inside": np.full((DAYS, 1), 80.0),
    }  # fmt: skip
    return DaySums(first_day=0, **sums)


def test_larger_errors_than_on_validation_ask_for_an_update(
    reference: DaySums, live: LiveData
) -> None:
    state = judge(reference, days(1.0), live.snapshot, HOURS)
    assert (state["advice"], state["weeks"]) == ("nothing", 6)
    assert state["text"] == "as on validation: nothing to do"
    assert all(w["alarm_share"] < 1 and not w["is_drifting"] for w in state["watches"])
    state = judge(reference, days(1.5), live.snapshot, HOURS)
    assert state["advice"] == "update"
    assert state["text"].startswith("errors larger than on validation: the run is out of date")
    assert state["watches"][0]["alarm_share"] > 1


def test_less_than_a_week_and_an_unknown_validation_are_not_judged(
    reference: DaySums, live: LiveData
) -> None:
    state = judge(reference, days(1.5, 6), live.snapshot, HOURS)
    assert (state["advice"], state["weeks"]) == ("unknown", 0)
    assert state["text"] == "6 of 7 days in the ledger; judged by whole weeks"
    state = judge(None, days(1.5), live.snapshot, HOURS)
    assert state["text"] == "the panel lacks the days that the run was validated on"


def test_silent_places_are_named_unless_all_are(live: LiveData, reference: DaySums) -> None:
    snapshot = live.snapshot
    assert list(find_silent(snapshot, HOURS)) == []
    values = snapshot.base.values.copy()
    values[HOURS - 48 :, 3] = np.nan
    quiet = replace(snapshot, base=snapshot.base.with_data(values))
    assert list(find_silent(quiet, HOURS)) == [snapshot.locations.ids[3]]
    state = judge(reference, days(1.0), quiet, HOURS)
    assert (state["advice"], state["silent_locations"]) == ("look", 1)
    assert state["text"].startswith("1 location silent for 2 days: look at")
    values[HOURS - 48 :] = np.nan
    out = replace(snapshot, base=snapshot.base.with_data(values))
    assert list(find_silent(out, HOURS)) == []


def test_the_days_of_validation_are_scored_in_parts(live: LiveData, model: ServedModel) -> None:
    parts = validation_parts(model, live.snapshot)
    assert parts[0][0] == 500
    assert (parts[-1][1], len(parts)) == (800, 2)
    scored = [score_part(model, live.snapshot, part) for part in parts]
    known = [part for part in scored if part is not None]
    joined = join_days(known)
    assert len(joined.values) == 14  # local days; one is in both parts
    assert joined.values.sum() == sum(part.values.sum() for part in known)
