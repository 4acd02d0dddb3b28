"""The rule of promotion, on hand-made differences."""

from typing import get_args

import pytest

from forecaster.evaluation.bootstrap import RelativeDifference
from forecaster.evaluation.challenge import (
    EVERYWHERE,
    Challenge,
    Knowledge,
    Measure,
    Promise,
    describe_more,
)

SAME = Knowledge(locations=0, weeks=0.0)
FRESHER, WIDER = Knowledge(0, 4.0), Knowledge(2, 1.0)
EQUAL = (-0.004, 0.001, 0.006)  # low, value, high
SMALLEST = "smallest fifth"


def compared(
    more: Knowledge = SAME,
    fifth: tuple[Measure, tuple[float, float, float]] | None = None,
    **ends: tuple[float, float, float],
) -> Challenge:
    """A comparison with these differences (low, value, high); the others are next to none."""
    promises = [_promise(m, EVERYWHERE, ends.get(m, EQUAL)) for m in get_args(Measure)]
    if fifth is not None:
        promises.append(_promise(fifth[0], SMALLEST, fifth[1]))
    return Challenge(tuple(promises), more, 14, 112, {}, 0.8)


def _promise(measure: Measure, group: str, ends: tuple[float, float, float]) -> Promise:
    low, value, high = ends
    return Promise(measure, group, 0.2, 0.21, RelativeDifference(value, low, high))


def test_one_that_is_better_beyond_chance_is_promoted() -> None:
    decision, reason = compared(rmse=(-0.05, -0.03, -0.01)).decide()
    assert decision == "promote"
    assert reason == "better: RMSE −3.0 % (95 % interval −5.0 … −1.0 %)"


@pytest.mark.parametrize(
    "ends", [(-0.05, -0.03, 0.001), (-0.012, -0.009, -0.006)], ids=["chance", "another seed"]
)
def test_one_that_may_be_better_by_chance_or_by_its_seed_is_kept_out(
    ends: tuple[float, float, float],
) -> None:
    decision, reason = compared(rmse=ends).decide()
    assert decision == "keep"
    assert reason.startswith("not better by more than chance: RMSE −")


@pytest.mark.parametrize("more", [FRESHER, WIDER], ids=["four more weeks", "more places"])
def test_one_that_knows_more_is_promoted_if_a_loss_above_one_per_cent_is_excluded(
    more: Knowledge,
) -> None:
    decision, reason = compared(more, rmse=(-0.003, 0.002, 0.0099)).decide()
    assert decision == "promote"
    assert reason == f"no loss above 1 %, and it knows {describe_more(more)}"


@pytest.mark.parametrize("measure", ["rmse", "mape", "pinball"])
def test_one_that_knows_more_is_kept_out_if_such_a_loss_is_possible(measure: str) -> None:
    decision, reason = compared(FRESHER, **{measure: (-0.002, 0.004, 0.0101)}).decide()
    assert decision == "keep"
    assert reason.startswith("a loss above 1 % cannot be excluded: ")


@pytest.mark.parametrize("more", [Knowledge(0, 3.9), Knowledge(-1, 0.0)])
def test_without_more_places_or_four_more_weeks_no_loss_is_not_enough(more: Knowledge) -> None:
    assert not more.is_more
    assert compared(more).decide()[0] == "keep"


@pytest.mark.parametrize(
    ("measure", "loss"),
    [("rmse", 0.02), ("mape", 0.02), ("pinball", 0.02), ("bias", 0.02), ("coverage", 0.03)],
)
def test_a_gain_does_not_make_up_for_a_broken_promise(measure: str, loss: float) -> None:
    ends = {"rmse": (-0.05, -0.03, -0.01)} | {measure: (loss / 2, loss, 2 * loss)}
    decision, reason = compared(FRESHER, **ends).decide()
    assert decision == "keep"
    assert reason.startswith("worse: ")


def test_a_small_loss_that_is_no_chance_breaks_no_promise() -> None:
    gain = (-0.05, -0.03, -0.01)
    assert compared(rmse=gain, mape=(0.001, 0.009, 0.0095)).decide()[0] == "promote"


def test_at_a_fifth_of_the_locations_twice_the_loss_counts() -> None:
    gain = (-0.05, -0.03, -0.01)
    bearable = compared(fifth=("rmse", (0.001, 0.019, 0.03)), rmse=gain)
    assert bearable.decide()[0] == "promote"
    decision, reason = compared(fifth=("rmse", (0.001, 0.021, 0.04)), rmse=gain).decide()
    assert (decision, reason) == (
        "keep",
        "worse: RMSE at the smallest fifth +2.1 % (95 % interval +0.1 … +4.0 %)",
    )


def test_too_few_days_decide_nothing() -> None:
    empty = Challenge((), WIDER, 3, 24, {}, None)
    assert empty.decide() == ("keep", "too few days with values to tell")


def test_the_json_says_what_was_decided_and_on_what() -> None:
    written = compared(WIDER).to_json()
    assert written["verdict"] == "promote"
    assert written["more"] == {"locations": 2, "weeks": 1.0}
    assert {promise["measure"] for promise in written["promises"]} == {*get_args(Measure)}
