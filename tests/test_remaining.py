import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.remaining import Paced, RemainingTime, describe_seconds, extrapolate, track


class SimulatedClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(1.0, 2.0), min_size=10, max_size=60), st.floats(1e-3, 1e3))
def test_an_estimate_is_within_twice_of_the_truth_after_a_tenth(
    parts: list[float], pace: float
) -> None:
    """No item takes more than twice as long as another; their order is any."""
    clock, whole = SimulatedClock(), pace * sum(parts)
    remaining = RemainingTime(clock)
    for done, part in enumerate(parts[:-1], start=1):
        clock.now += pace * part
        estimate, truth = remaining.seconds(done, len(parts)), whole - clock.now
        if estimate is None:
            assert done < len(parts) / 10
        elif clock.now >= whole / 10:
            assert truth / 2 * (1 - 1e-6) <= estimate <= 2 * truth * (1 + 1e-6)


def test_nothing_is_estimated_before_anything_is_done() -> None:
    assert RemainingTime(SimulatedClock()).seconds(0, 10) is None


def test_a_first_item_that_compiles_gives_no_absurd_estimate() -> None:
    clock, told = SimulatedClock(), dict[int, float | None]()
    remaining = RemainingTime(clock)
    for done in range(1, 1000):
        clock.now += 23.0 if done == 1 else 0.1
        told[done] = remaining.seconds(done, 1000)
        if told[done] is not None:
            assert told[done] == pytest.approx(0.1 * (1000 - done), rel=1e-6)
    assert told[1] is None  # not "about 6.4 h left"
    assert told[32] is not None  # three seconds later


def test_few_items_are_estimated_by_the_first() -> None:
    clock = SimulatedClock()
    remaining = RemainingTime(clock)
    clock.now = 7.0
    assert remaining.seconds(1, 4) == 21.0


@pytest.mark.parametrize("growth", [1.0, 1.1, 1.2, 1.3])
def test_growing_durations_are_estimated_within_twice_after_a_tenth(growth: float) -> None:
    generator, ratios = np.random.default_rng(0), []
    for _ in range(200):
        count = int(generator.integers(6, 15))
        uneven = np.exp(generator.uniform(-1, 1, count) * np.log(1.25))
        durations = growth ** np.arange(count) * uneven
        taken = np.cumsum(durations)
        for done in range(1, count):
            if taken[done - 1] >= taken[-1] / 10:
                estimate = extrapolate(durations[:done].tolist(), count - done)
                ratios.append(estimate / (taken[-1] - taken[done - 1]))
    far = np.abs(np.log2(ratios)) > 1
    assert far.mean() < 0.03


def test_equal_durations_are_expected_to_grow_little() -> None:
    assert extrapolate([3.0] * 9, 4) == pytest.approx(12.0, rel=0.1)
    assert extrapolate([3.0], 0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s left"), (44.6, "about 45 s left"), (150.0, "about 2 min left"),
     (9000.0, "about 2.5 h left")],
)  # fmt: skip
def test_times_left_are_told_in_words(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text


def test_work_is_passed_on_in_order_and_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, messages = SimulatedClock(), list[str]()
    timed, paced = RemainingTime(clock), Paced(messages.append, now=clock)
    monkeypatch.setattr("forecaster.remaining.RemainingTime", lambda: timed)
    monkeypatch.setattr("forecaster.remaining.Paced", lambda _: paced)
    items = []
    for item in track("abcd", "picture", messages.append):
        clock.now += 10
        items.append(item)
    assert items == list("abcd")
    assert messages == [
        "picture 2 of 4, about 30 s left", "picture 3 of 4, about 20 s left",
        "picture 4 of 4, about 10 s left",
    ]  # fmt: skip


def test_messages_come_at_most_every_few_seconds() -> None:
    clock, messages = SimulatedClock(), list[str]()
    tell = Paced(messages.append, every=5.0, now=clock)
    for second in range(13):
        clock.now = second
        tell(str(second))
    assert messages == ["5", "10"]
