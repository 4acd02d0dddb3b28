"""Which of very many locations a picture shows."""

import numpy as np

from forecaster.report.draw.sample import MOST_SHOWN, choose_shown, describe_shown


def test_all_locations_are_shown_where_there_is_room() -> None:
    assert choose_shown(np.arange(7.0), most=7).tolist() == list(range(7))
    assert describe_shown(MOST_SHOWN) == ""


def test_the_busiest_the_most_extreme_and_random_ones_are_shown() -> None:
    generator = np.random.default_rng(3)
    sizes, extremes = generator.random((2, 997))
    extremes[:5] = np.nan
    shown = choose_shown(sizes, extremes, most=90)
    assert len(shown) == len(set(shown.tolist())) == 90
    assert (np.diff(shown) > 0).all()
    busiest = set(np.argsort(-sizes)[:30].tolist())
    others = [n for n in np.argsort(-np.nan_to_num(extremes)).tolist() if n not in busiest]
    assert busiest | set(others[:30]) <= set(shown.tolist())
    assert np.array_equal(shown, choose_shown(sizes, extremes, most=90))


def test_few_finite_extremes_leave_room_for_random_ones() -> None:
    extremes = np.full(101, np.nan)
    extremes[7] = 1.0
    shown = choose_shown(np.zeros(101), extremes, most=11)
    assert len(shown) == 11
    assert 7 in shown


def test_the_sample_is_told() -> None:
    text = describe_shown(20_000, "the highest errors")
    assert text == (
        "The picture shows 3,000 of 20,000 locations: the 1,000 busiest, 1,000 of the others with "
        "the highest errors, and random ones."
    )
