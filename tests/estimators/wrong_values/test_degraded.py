from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import DataError
from forecaster.estimators.areas import add_areas, read_areas
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.wrong_values.degraded import describe_doubts, describe_outage
from forecaster.estimators.wrong_values.plausible import Plausibility
from forecaster.panel.panel import Panel, local_texts
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city

PLACES = 13
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=2),), horizon=2)
IMPLAUSIBLE = "implausible value (9,000 at "


@pytest.fixture(scope="module")
def city() -> Panel:
    return make_city(locations=PLACES, hours=24 * 90, seed=5).panel


@pytest.fixture(scope="module")
def fitted(city: Panel) -> Ridge:
    splits = Splits.by_share(city, validation=0.15, test=0.2)
    return Ridge(Recipe(lags=LAGS)).fit(city, splits)


@pytest.fixture(scope="module")
def known(fitted: Ridge) -> Plausibility:
    assert fitted.run is not None
    plausibility = Plausibility.of(fitted.run)
    assert plausibility is not None
    return plausibility


@pytest.fixture(scope="module")
def noon(city: Panel, known: Plausibility) -> int:
    """A late step at which most places have at least 15 in training."""
    busy = (known.means >= 15).sum(axis=1)
    slots = city.clock.slot_of_season(city.times)
    late = np.arange(len(city.values) - 200, len(city.values) - 5)
    return int(late[np.argmax(busy[slots[late]])])


def changed(panel: Panel, cells: object, value: float) -> Panel:
    values = panel.values.copy()
    values[cells] = value  # type: ignore[index]
    return replace(panel, values=values)


def test_L6_the_forecast_says_which_value_is_implausible(
    city: Panel, fitted: Ridge, noon: int
) -> None:
    at, busiest = f"{city.times[noon]}Z", int(np.argmax(np.nanmean(city.values, axis=0)))
    wrong = changed(city, (noon - 2, busiest), 9000)
    table = fitted.forecast(wrong, at, weather="persist")
    here = table["unique_id"] == city.locations.ids[busiest]
    texts = table["degraded"][here].unique()
    assert len(texts) == 1
    shared, own = texts[0].split("; ")
    assert shared == "weather persist"
    assert own.startswith(IMPLAUSIBLE)
    assert own.endswith(" is plausible)")
    assert (table["degraded"][~here] == "weather persist").all()
    day_later = fitted.forecast(wrong, f"{city.times[noon + 2]}Z")
    assert "degraded" in day_later


def test_a_day_later_an_implausible_value_is_forgotten(
    city: Panel, known: Plausibility, noon: int
) -> None:
    wrong = changed(city, (noon - 23, 4), 9000)
    assert list(describe_doubts(known, wrong, noon)) == [4]
    assert describe_doubts(known, wrong, noon + 1) == {}


def test_L5_the_forecast_says_which_value_is_repeated(
    city: Panel, fitted: Ridge, noon: int
) -> None:
    stuck = changed(city, (slice(noon - 30, noon + 1), 4), 77)
    table = fitted.forecast(stuck, f"{city.times[noon]}Z")
    text = table["degraded"][table["unique_id"] == city.locations.ids[4]].iloc[0]
    assert text.endswith(f"repeated value (77 for 31 steps up to {local(city, noon)})")


def test_several_implausible_values_are_counted(
    city: Panel, known: Plausibility, noon: int
) -> None:
    wrong = changed(city, ([noon - 9, noon - 4, noon], 4), 9000)
    text = describe_doubts(known, wrong, noon)[4]
    assert text.startswith(f"{IMPLAUSIBLE}{local(city, noon)}, at most ")
    assert text.endswith(" is plausible, 2 more in the last day)")


def local(panel: Panel, step: int) -> str:
    return local_texts(panel, panel.times[[step]])[0]


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_many_silent_places_are_a_feed_outage(
    city: Panel, known: Plausibility, noon: int, value: float
) -> None:
    slot = city.clock.slot_of_season(city.times[[noon - 1, noon]])
    busy = np.flatnonzero((known.means[slot] >= 20).all(axis=0))
    assert len(busy) >= 5
    out = changed(city, (slice(noon - 1, noon + 1), busy), value)
    text = describe_outage(out, noon, known)
    assert text is not None
    assert text.startswith(f"feed outage: {len(busy)} of ")
    assert text.endswith(f" locations silent since {local(city, noon - 1)}")
    assert describe_outage(city, noon, known) is None
    few = changed(city, (slice(noon - 1, noon + 1), busy[:2]), value)
    assert describe_outage(few, noon, known) is None


def test_a_feed_outage_stands_in_every_row_and_in_the_refusal(
    city: Panel, fitted: Ridge, known: Plausibility, noon: int
) -> None:
    slot = city.clock.slot_of_season(city.times[[noon]])[0]
    busy = np.flatnonzero(known.means[slot] >= 15)
    at = f"{city.times[noon]}Z"
    table = fitted.forecast(changed(city, (noon, busy), 0), at)
    assert table["degraded"].str.startswith(f"feed outage: {len(busy)} of ").all()
    with pytest.raises(DataError, match=r"history incomplete: .*; feed outage: 5 of 13 locations"):
        fitted.forecast(changed(city, (noon, slice(5)), np.nan), at)


def test_places_silent_for_weeks_are_no_outage(
    city: Panel, known: Plausibility, noon: int
) -> None:
    closed = changed(city, (slice(noon - 400, noon + 1), slice(6)), np.nan)
    assert describe_outage(closed, noon, known) is None
    more = changed(closed, (noon, slice(6, 9)), np.nan)
    assert describe_outage(more, noon, known) == (
        f"feed outage: 3 of 7 locations silent since {local(city, noon)}"
    )


def test_the_reasons_of_its_places_stand_in_the_rows_of_an_area_and_it_is_wider(
    city: Panel, fitted: Ridge, noon: int
) -> None:
    ids, at = city.locations.ids, f"{city.times[noon]}Z"
    source = {"area": ["a"] * 3 + ["b"] * 2, "id": [*ids[3:6], *ids[7:9]]}
    areas = read_areas(pd.DataFrame(source), city.locations)
    wrong = changed(city, (noon, 4), 9000)
    clean, doubted = (
        add_areas(fitted.forecast(p, at), areas, fitted, p).set_index("unique_id")
        for p in (city, wrong)
    )
    assert "degraded" not in clean
    assert doubted.loc["a", "degraded"].str.startswith(f"{ids[4]}: {IMPLAUSIBLE}").all()
    assert (doubted.loc["b", "degraded"] == "").all()
    width, was = (t.loc["a", "q90"] - t.loc["a", "q10"] for t in (doubted, clean))
    assert (width > was).all()
    assert doubted.loc["b", "q90"].tolist() == clean.loc["b", "q90"].tolist()


def test_L5_the_length_of_a_run_is_told_up_to_two_weeks(
    city: Panel, known: Plausibility, noon: int
) -> None:
    stuck = changed(city, (slice(noon - 500, noon + 1), 4), 77)
    assert "(77 for at least 336 steps up to " in describe_doubts(known, stuck, noon)[4]


def test_L5_both_reasons_of_a_place_are_named(city: Panel, known: Plausibility, noon: int) -> None:
    stuck = changed(city, (slice(noon - 30, noon), 4), 77)
    text = describe_doubts(known, changed(stuck, (noon, 4), 9000), noon)[4]
    assert text.startswith(f"{IMPLAUSIBLE}{local(city, noon)}, at most ")
    assert text.endswith(f"; repeated value (77 for 30 steps up to {local(city, noon - 1)})")


def test_an_outage_that_is_over_is_none(city: Panel, known: Plausibility, noon: int) -> None:
    over = changed(city, (slice(noon - 9, noon), slice(8)), np.nan)
    assert describe_outage(over, noon - 1, known) is not None
    assert describe_outage(over, noon, known) is None


def test_without_a_run_missing_values_alone_are_an_outage(city: Panel, noon: int) -> None:
    silent = changed(city, (slice(noon - 1, noon + 1), slice(None)), np.nan)
    expected = f"feed outage: 13 of 13 locations silent since {local(city, noon - 1)}"
    assert describe_outage(silent, noon) == expected
    assert describe_outage(changed(city, (noon, slice(None)), 0), noon) is None
