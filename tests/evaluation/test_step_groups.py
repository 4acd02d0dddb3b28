import pytest

from forecaster.evaluation.step_groups import group_steps


def labels(horizon: int, step_minutes: int | None) -> list[str]:
    return [group.label for group in group_steps(horizon, step_minutes)]


@pytest.mark.parametrize("minutes", [5, 60, 24 * 60, None])
def test_a_few_steps_are_shown_each_by_itself(minutes: int | None) -> None:
    assert labels(3, minutes) == ["+1", "+2", "+3"]
    assert len(labels(12, minutes)) == 12


def test_many_steps_are_grouped_as_people_think_of_them() -> None:
    assert labels(24, 60) == ["+1 h", "+2–3 h", "+4–6 h", "+7–12 h", "+13–24 h"]
    week = ["+1 h", "+2–6 h", "+7–24 h", *(f"day {day}" for day in range(2, 8))]
    assert labels(168, 60) == week
    assert labels(336, 60) == [*week, "week 2"]
    assert labels(28, 24 * 60) == ["+1 d", "+2–7 d", "week 2", "+15–28 d"]
    small = ["+5 min", "+10–15 min", "+20–30 min", "+35–60 min", "+65–120 min"]
    assert labels(24, 5) == small
    assert labels(288, 5) == ["+5 min", "+10–15 min", "+20–60 min", "+1–6 h", "+6–24 h"]
    assert labels(52, 7 * 24 * 60) == ["+1", "+2–3", "+4–6", "+7–12", "+13–24", "+25–52"]


@pytest.mark.parametrize("horizon", [13, 24, 25, 31, 47, 168, 169, 336])
@pytest.mark.parametrize("minutes", [1, 5, 15, 30, 60, 180, 1440, 10_080, None])
def test_groups_cover_every_step_once(horizon: int, minutes: int | None) -> None:
    groups = group_steps(horizon, minutes)
    steps = [k for group in groups for k in range(group.first, group.last + 1)]
    assert steps == list(range(1, horizon + 1))
    assert len({group.label for group in groups}) == len(groups) <= 14
