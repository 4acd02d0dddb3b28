"""The stored sums, grouped, against quantiles that are forecast and compared again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecaster.evaluation.comparison import Row
from forecaster.report.groups import group_hours, group_steps
from forecaster.report.intervals import (
    held_at_places,
    held_by_weather,
    held_in,
    sureness_of,
    widths_in,
)
from forecaster.report.material import Material


@pytest.fixture(scope="module")
def ridge(material: Material) -> Row:
    return next(row for row in material.comparison.rows if row.name == "Ridge")


@pytest.fixture(scope="module")
def outcomes(material: Material, ridge: Row) -> dict[str, pd.DataFrame]:
    """Return a line for every observed target: when, where, whether it lay within, how wide."""
    panel, found, estimator = material.panel, ridge.first, material.estimator_of(ridge)
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    steps = origins[:, None] + [1, 2]
    truth = panel.values[steps]  # [B K N]
    local = panel.clock.local(panel.times[steps])
    hours = (local - local.astype("datetime64[D]")) // np.timedelta64(1, "h")
    tables = {}
    for form in ("static", "online"):
        q = estimator.predict_quantiles(panel, origins, "observed", online=form == "online")
        lines = {
            "hour": hours[:, :, None], "k": np.arange(2)[:, None], "place": np.arange(5),
            "rain": panel.covariates.values[steps, 1][:, :, None], "truth": truth,
            "inside": (q[:, 0] <= truth) & (truth <= q[:, -1]), "width": q[:, -1] - q[:, 0],
        }  # fmt: skip
        flat = {name: np.broadcast_to(part, truth.shape).ravel() for name, part in lines.items()}
        tables[form] = pd.DataFrame(flat).dropna()
    return tables


@pytest.mark.parametrize("form", ["static", "online"])
def test_shares_of_hours_and_steps_are_counted(
    material: Material, ridge: Row, outcomes: dict[str, pd.DataFrame], form: str
) -> None:
    hours = group_hours(ridge.first, material.panel)
    assert hours is not None
    by_hour, by_step = held_in(ridge, hours), held_in(ridge, group_steps(ridge.first))
    direct = outcomes[form].groupby("hour").inside.mean()
    np.testing.assert_allclose(by_hour.shares[form], direct)  # type: ignore[index]
    direct = outcomes[form].groupby("k").inside.mean()
    np.testing.assert_allclose(by_step.shares[form], direct)  # type: ignore[index]
    assert by_step.labels == ("+1", "+2")


def test_shares_with_rain_and_without(
    material: Material, ridge: Row, outcomes: dict[str, pd.DataFrame]
) -> None:
    found = held_by_weather(ridge, material.panel)
    direct = outcomes["online"].groupby("rain").inside.mean()
    np.testing.assert_allclose(found["rain"].shares["online"], direct)
    contrasts = [parted.contrast for parted in found.values()]
    assert contrasts == sorted(contrasts, reverse=True)


def test_shares_and_widths_of_locations_and_hours(
    material: Material, ridge: Row, outcomes: dict[str, pd.DataFrame]
) -> None:
    direct = outcomes["online"].groupby("place").inside.mean()
    np.testing.assert_allclose(held_at_places(ridge), direct)
    hours = group_hours(ridge.first, material.panel)
    assert hours is not None
    widths = widths_in([ridge], hours)
    direct = outcomes["online"].groupby("hour").width.mean()
    np.testing.assert_allclose(widths.values["Ridge"], direct, rtol=1e-5)


def test_several_trainings_are_averaged_as_in_the_table(material: Material) -> None:
    row = next(row for row in material.comparison.rows if row.name == "Forecaster")
    assert len(sureness_of(row)) == 2
    steps = [spread.mean for spread in row.interval_spread("coverage", "static")[1:]]
    np.testing.assert_allclose(held_in(row, group_steps(row.first)).shares["static"], steps)


def test_hours_in_which_nothing_was_observed_are_left_out(material: Material, ridge: Row) -> None:
    hours = group_hours(ridge.first, material.panel)
    assert hours is not None
    moved = replace(hours, groups=np.where(hours.groups == 3, 4, hours.groups))
    found = held_in(ridge, moved)
    assert "3:00" not in found.labels
    assert len(found.labels) == len(found.steps) == len(found.shares["static"]) == 23
