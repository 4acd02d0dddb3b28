import math

import pytest

from forecaster.evaluation.bootstrap import Difference, Interval
from forecaster.evaluation.verdict import Standing, give_verdict, recommend, say_how_sure


def standing(name: str, rmse: float, mape: float = 0.2, of: str | None = None) -> Standing:
    return Standing(name, name.split(",", maxsplit=1)[0].split("-", maxsplit=1)[0], rmse, mape, of)


def clear(value: float) -> Difference:
    interval = Interval(value, value - 0.02, value + 0.02)
    return Difference(interval, interval)


def verdict(*standings: Standing, difference: Difference | None = None) -> list[str]:
    found = {s.name: s for s in standings}

    def compare(one: str, two: str) -> Difference:
        return difference or clear(found[one].rmse / found[two].rmse - 1)

    return give_verdict(standings, compare)


def test_the_best_is_better_than_the_next_with_an_interval() -> None:
    lines = verdict(
        standing("Forecaster", 5.1879),
        standing("Transformer-best", 5.6898),
        standing("VAR", 6.9991),
    )
    assert lines == [
        "Forecaster is 8.8 % better than Transformer-best, interval 6.8 … 10.8 %."  # the paper's
    ]


def test_a_simple_model_near_the_best_is_the_one_to_use() -> None:
    near = [
        standing("Forecaster", 10.0),
        standing("Ridge", 10.1),
        standing("SeasonalNaive", 10.15),
    ]
    assert recommend(near) == "SeasonalNaive"
    assert verdict(*near) == [
        "SeasonalNaive is within 2 % of the best, Forecaster (1.5 % behind, "
        "interval -0.5 … 3.5 %): use it."
    ]


def test_a_simple_model_near_the_best_by_rmse_alone_is_not_the_one_to_use() -> None:
    models = [standing("Forecaster", 10.0, 0.30), standing("Ridge", 10.1, 0.31)]
    assert recommend(models) == "Forecaster"
    assert recommend([models[0], standing("Ridge", 10.1, 0.305)]) == "Ridge"
    assert (
        recommend([standing("Forecaster", 10.0, math.inf), standing("Ridge", 10.1, math.inf)])
        == "Ridge"
    )


def test_a_simple_model_that_wins_is_said_to_win() -> None:
    lines = verdict(standing("Ridge", 9.0), standing("Forecaster", 10.0))
    assert lines == ["Ridge is 10.0 % better than Forecaster, interval 8.0 … 12.0 %."]


def test_a_network_near_the_best_is_not_simpler() -> None:
    assert recommend([standing("Forecaster", 10.0), standing("Transformer", 10.1)]) == "Forecaster"


def test_what_may_be_chance_is_called_so() -> None:
    lines = verdict(standing("Forecaster", 9.9), standing("Transformer", 10.0))
    assert lines == [
        "Forecaster is 1.0 % better than Transformer, which may be chance, interval -1.0 … 3.0 %."
    ]


def test_another_winner_by_mape_is_named() -> None:
    lines = verdict(standing("Forecaster", 9.0, mape=0.3), standing("Transformer", 10.0, mape=0.2))
    assert lines[1].startswith("Transformer is ")
    assert " better than Forecaster by MAPE" in lines[1]


def test_P8_no_mape_wins_by_nothing() -> None:
    lines = verdict(standing("Forecaster", 9.0, math.inf), standing("Transformer", 10.0, math.inf))
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("rmse", "line"),
    [
        (8.0, "Of the variants: Forecaster, graph own is 11.1 % better than Forecaster"),
        (9.5, "None of the variants is better than Forecaster itself."),
    ],
)
def test_the_best_variant_is_compared_with_its_own_row(rmse: float, line: str) -> None:
    variant = standing("Forecaster, graph own", rmse, of="Forecaster")
    lines = verdict(standing("Forecaster", 9.0), standing("VAR", 12.0), variant)
    assert lines[0].startswith("Forecaster is 25.0 % better than VAR")  # variants do not compete
    assert lines[1].startswith(line)


def test_a_model_alone_is_compared_with_its_variants() -> None:
    variant = standing("Forecaster, graph own", 8.0, of="Forecaster")
    assert verdict(standing("Forecaster", 10.0), variant) == [
        "Of the variants: Forecaster, graph own is 20.0 % better than Forecaster, "
        "interval 18.0 … 22.0 %."
    ]


def test_too_few_days_give_no_interval() -> None:
    none = Difference(None, None)
    lines = verdict(standing("Forecaster", 9.0), standing("VAR", 12.0), difference=none)
    assert lines == ["Forecaster is 25.0 % better than VAR; too few days for an interval."]


def test_models_that_err_alike_are_said_to() -> None:
    none = Difference(None, None)
    lines = verdict(standing("Ridge", 0.0, 0.0), standing("VAR", 0.0, 0.0), difference=none)
    assert lines == ["Ridge and VAR err alike."]
    lines = verdict(standing("Forecaster", 7.0), standing("Ridge", 7.0))
    assert lines == ["Ridge and Forecaster err alike."]


def test_a_variant_whose_own_model_failed_stands_for_itself() -> None:
    own, other = (
        standing(f"Forecaster, graph {g}", r, of="Forecaster")
        for g, r in (("own", 8.0), ("complete", 10.0))
    )
    lines = verdict(own, other)
    assert lines == [
        "Forecaster, graph own is 20.0 % better than Forecaster, graph complete, "
        "interval 18.0 … 22.0 %."
    ]
    assert recommend([own, other]) == "Forecaster, graph own"


def test_one_model_or_none_is_not_a_comparison() -> None:
    assert verdict(standing("VAR", 9.0)) == [
        "VAR is the only model that was tested: nothing to compare."
    ]
    assert verdict() == ["No model was tested."]
    assert recommend([]) is None


def test_how_sure_is_said_in_numbers_of_a_hundred() -> None:
    assert say_how_sure("Ridge", 0.8, 0.9432, 0.80061) == (
        "Of 100 values, 80 should lie within the 80 % interval of Ridge: 94.3 did as it was set "
        "on validation (static), 80.1 with corrections on the way (online)."
    )
