from math import inf, nan
from typing import Any

import pytest

from forecaster.config import (
    GraphConfig,
    IntervalConfig,
    LagConfig,
    MetricConfig,
    PanelConfig,
    Season,
    Stage,
    TrainingConfig,
)
from forecaster.errors import ConfigError
from forecaster.recipe import check_stage


def fault_of(stage: type[Stage], content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        check_stage(stage, content, source="stage")
    return str(caught.value)


def test_the_default_lags_are_76_inputs() -> None:
    assert LagConfig().length == 76  # section 3.1.2: 6 + 7·6 + 7·4
    assert LagConfig(recent=2, seasons=(Season(days=1, count=3),)).length == 2 + 3 * 7


def test_the_training_of_an_older_run_has_no_averaged_weights() -> None:
    assert TrainingConfig.model_validate_json('{"ema": null}').ema == 0


@pytest.mark.parametrize("minutes", [1, 5, 15, 30, 60, 360, 1440, 2880, 10080])
def test_a_step_that_divides_a_day_or_is_whole_days_is_accepted(minutes: int) -> None:
    assert PanelConfig(step_minutes=minutes).step_minutes == minutes


@pytest.mark.parametrize("minutes", [7, 50, 61, 1441, 2160])
def test_a_step_that_neither_divides_a_day_nor_is_whole_days_is_refused(minutes: int) -> None:
    message = fault_of(PanelConfig, {"step_minutes": minutes})
    assert f"\n  step_minutes: {minutes}: must divide a day" in message


@pytest.mark.parametrize("months", [1, 2, 3, 6, 12, 24])
def test_a_step_of_months_has_their_mean_length(months: int) -> None:
    config = PanelConfig(step_months=months)
    assert config.step_minutes == months * 365.25 * 24 * 60 / 12
    again = check_stage(PanelConfig, config.model_dump(mode="json"), source="x")
    assert again == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"step_months": 5}, "step_months: 5: must divide a year"),
        ({"step_months": 1, "step_minutes": 60}, "give one of them"),
        ({"step_minutes": 43830}, "give step_months = 1"),
    ],
)
def test_a_step_that_is_no_calendar_step_is_refused(content: dict[str, int], message: str) -> None:
    assert message in fault_of(PanelConfig, content)


@pytest.mark.parametrize("minutes", [0, -60])
def test_a_step_that_is_not_positive_is_refused(minutes: int) -> None:
    assert "\n  step_minutes: " in fault_of(PanelConfig, {"step_minutes": minutes})


@pytest.mark.parametrize("rule", [{"ambiguous": "split"}, {"nonexistent": "next"}])
def test_measurements_cannot_be_split_or_moved(rule: dict[str, str]) -> None:
    message = fault_of(PanelConfig, {"kind": "measurement", **rule})
    assert '\n  ambiguous = "split" and nonexistent = "next" are for counts only' in message


@pytest.mark.parametrize("rule", [{"ambiguous": "split"}, {"nonexistent": "next"}])
def test_counts_can_be_split_and_moved(rule: dict[str, str]) -> None:
    assert check_stage(PanelConfig, {"kind": "count", **rule}, source="x").kind == "count"


@pytest.mark.parametrize("rule", [{"ambiguous": "null"}, {"nonexistent": "null"}])
def test_measurements_can_be_left_unknown(rule: dict[str, str]) -> None:
    content = {"kind": "measurement", **rule}
    assert check_stage(PanelConfig, content, source="x").kind == "measurement"


@pytest.mark.parametrize("value", [nan, inf, -inf, 0.0, -1.0])
def test_a_cut_that_is_not_a_positive_number_is_refused(value: float) -> None:
    assert "\n  mape_cut: " in fault_of(MetricConfig, {"mape_cut": value})


def test_the_graph_is_cut_at_the_papers_threshold() -> None:
    assert (GraphConfig().threshold, GraphConfig().degree) == (0.1, None)  # section 3.3


def test_a_wanted_degree_takes_the_place_of_the_threshold() -> None:
    graph = GraphConfig(degree=2.5)
    assert (graph.threshold, graph.degree) == (None, 2.5)


def test_a_threshold_and_a_degree_together_are_refused() -> None:
    message = fault_of(GraphConfig, {"threshold": 0.1, "degree": 2.5})
    assert "\n  threshold and degree: each determines the other; remove one" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [("penalty", 0.0), ("threshold", 1.0), ("degree", -0.1), ("gap_tolerance", 0.0),
     ("max_iterations", 0), ("kind", "lazo"), ("seed", -1)],
)  # fmt: skip
def test_a_graph_that_cannot_be_is_refused(key: str, value: object) -> None:
    assert f"\n  {key}: " in fault_of(GraphConfig, {key: value})


@pytest.mark.parametrize(
    ("quantiles", "fault"),
    [
        ([0.1, 1.0], "1: not between 0 and 1"),
        ([-0.1, 0.0, 0.5], "-0.1, 0: not between 0 and 1"),
        ([0.5, 0.1], "not in strictly ascending order"),
        ([0.5, 0.5], "not in strictly ascending order"),
        ([], "at least 1 item"),
        ([nan], "finite number"),
    ],
)
def test_quantiles_that_cannot_be_are_refused(quantiles: list[float], fault: str) -> None:
    message = fault_of(IntervalConfig, {"quantiles": quantiles})
    assert "\n  quantiles" in message
    assert fault in message


def test_one_quantile_is_enough() -> None:
    assert IntervalConfig(quantiles=(0.9,)).quantiles == (0.9,)
