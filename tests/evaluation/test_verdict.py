import math

import pytest

from forecaster.evaluation.bootstrap import ErrorDifference, RelativeDifference
from forecaster.evaluation.verdict import (
    ModelScore,
    describe_coverage,
    describe_ranking,
    recommend,
    strongest_simple,
)


def model_score(name: str, rmse: float, mape: float = 0.2, of: str | None = None) -> ModelScore:
    return ModelScore(
        name, name.split(",", maxsplit=1)[0].split("-", maxsplit=1)[0], rmse, mape, of
    )


def clear(value: float) -> ErrorDifference:
    interval = RelativeDifference(value, value - 0.02, value + 0.02)
    return ErrorDifference(interval, interval)


def verdict(*scores: ModelScore, difference: ErrorDifference | None = None) -> list[str]:
    by_name = {s.name: s for s in scores}

    def compare(one: str, two: str) -> ErrorDifference:
        return difference or clear(by_name[one].rmse / by_name[two].rmse - 1)

    return describe_ranking(scores, compare)


def test_the_best_is_better_than_the_next_with_an_interval() -> None:
    lines = verdict(
        model_score("Forecaster", 5.1879),
        model_score("Transformer-best", 5.6898),
        model_score("VAR", 6.9991),
    )
    assert lines == [
        "Forecaster is 8.8 % better than Transformer-best, interval 6.8 … 10.8 %.",  # the paper's
        "Against the strongest simple model: Forecaster is 25.9 % better than VAR, "
        "interval 23.9 … 27.9 %.",
    ]


def test_a_network_is_held_against_the_strongest_simple_model_too() -> None:
    lines = verdict(
        model_score("Forecaster", 10.0),
        model_score("Transformer", 11.0),
        model_score("LastValue", 16.0),
        model_score("Ridge", 12.5),
        model_score("SeasonalNaive", 40.0),
    )
    assert lines == [
        "Forecaster is 9.1 % better than Transformer, interval 7.1 … 11.1 %.",
        "Against the strongest simple model: Forecaster is 20.0 % better than Ridge, "
        "interval 18.0 … 22.0 %.",
    ]


def test_the_strongest_simple_model_is_named_once() -> None:
    lines = verdict(model_score("Forecaster", 10.0), model_score("LastValue", 12.5))
    assert lines == ["Forecaster is 20.0 % better than LastValue, interval 18.0 … 22.0 %."]


def test_the_strongest_simple_model_is_the_one_of_lowest_error_besides_the_one_compared() -> None:
    scores = [
        model_score("Forecaster", 1.0),
        model_score("SeasonalNaive", 4.0),
        model_score("LastValue", 3.0),
        model_score("Ridge", 2.0, of="Forecaster"),  # an ablation is no rival
    ]
    assert strongest_simple(scores) == "LastValue"
    assert strongest_simple(scores, besides="LastValue") == "SeasonalNaive"
    assert strongest_simple(scores[:1]) is None


def test_a_simple_model_near_the_best_is_the_one_to_use() -> None:
    near = [
        model_score("Forecaster", 10.0),
        model_score("Ridge", 10.1),
        model_score("SeasonalNaive", 10.15),
    ]
    assert recommend(near) == "SeasonalNaive"
    assert verdict(*near) == [
        "Use SeasonalNaive: it is within 2 % of the best model, Forecaster "
        "(RMSE 1.5 % higher, interval -0.5 … 3.5 %)."
    ]


def test_a_simple_model_near_the_best_by_rmse_alone_is_not_the_one_to_use() -> None:
    models = [model_score("Forecaster", 10.0, 0.30), model_score("Ridge", 10.1, 0.31)]
    assert recommend(models) == "Forecaster"
    assert recommend([models[0], model_score("Ridge", 10.1, 0.305)]) == "Ridge"
    assert (
        recommend(
            [model_score("Forecaster", 10.0, math.inf), model_score("Ridge", 10.1, math.inf)]
        )
        == "Ridge"
    )


def test_a_simple_model_with_the_lowest_error_is_recommended() -> None:
    lines = verdict(model_score("Ridge", 9.0), model_score("Forecaster", 10.0))
    assert lines == ["Ridge is 10.0 % better than Forecaster, interval 8.0 … 12.0 %."]


def test_a_network_near_the_best_is_not_simpler() -> None:
    assert (
        recommend([model_score("Forecaster", 10.0), model_score("Transformer", 10.1)])
        == "Forecaster"
    )


def test_what_may_be_chance_is_called_so() -> None:
    lines = verdict(model_score("Forecaster", 9.9), model_score("Transformer", 10.0))
    assert lines == [
        "Forecaster is 1.0 % better than Transformer, which may be chance, interval -1.0 … 3.0 %."
    ]


def test_another_winner_by_mape_is_named() -> None:
    lines = verdict(
        model_score("Forecaster", 9.0, mape=0.3), model_score("Transformer", 10.0, mape=0.2)
    )
    assert lines[1].startswith("Transformer is ")
    assert " better than Forecaster by MAPE" in lines[1]


def test_P8_no_mape_wins_by_nothing() -> None:
    lines = verdict(
        model_score("Forecaster", 9.0, math.inf), model_score("Transformer", 10.0, math.inf)
    )
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("rmse", "line"),
    [
        (8.0, "Of the ablations: Forecaster, graph own is 11.1 % better than Forecaster"),
        (9.5, "None of the ablations is better than Forecaster itself."),
    ],
)
def test_the_best_variant_is_compared_with_its_own_row(rmse: float, line: str) -> None:
    variant = model_score("Forecaster, graph own", rmse, of="Forecaster")
    lines = verdict(model_score("Forecaster", 9.0), model_score("VAR", 12.0), variant)
    assert lines[0].startswith("Forecaster is 25.0 % better than VAR")  # variants do not compete
    assert lines[1].startswith(line)


def test_a_model_alone_is_compared_with_its_variants() -> None:
    variant = model_score("Forecaster, graph own", 8.0, of="Forecaster")
    assert verdict(model_score("Forecaster", 10.0), variant) == [
        "Of the ablations: Forecaster, graph own is 20.0 % better than Forecaster, "
        "interval 18.0 … 22.0 %."
    ]


def test_too_few_days_give_no_interval() -> None:
    none = ErrorDifference(None, None)
    lines = verdict(model_score("Forecaster", 9.0), model_score("VAR", 12.0), difference=none)
    assert lines == ["Forecaster is 25.0 % better than VAR; too few days for an interval."]


def test_models_with_equal_errors_are_not_ranked() -> None:
    none = ErrorDifference(None, None)
    lines = verdict(model_score("Ridge", 0.0, 0.0), model_score("VAR", 0.0, 0.0), difference=none)
    assert lines == ["Ridge and VAR have equal errors."]
    lines = verdict(model_score("Forecaster", 7.0), model_score("Ridge", 7.0))
    assert lines == ["Ridge and Forecaster have equal errors."]


def test_an_ablation_counts_as_a_model_if_the_model_it_varies_failed() -> None:
    own, other = (
        model_score(f"Forecaster, graph {g}", r, of="Forecaster")
        for g, r in (("own", 8.0), ("complete", 10.0))
    )
    lines = verdict(own, other)
    assert lines == [
        "Forecaster, graph own is 20.0 % better than Forecaster, graph complete, "
        "interval 18.0 … 22.0 %."
    ]
    assert recommend([own, other]) == "Forecaster, graph own"


def test_one_model_or_none_is_not_a_comparison() -> None:
    assert verdict(model_score("VAR", 9.0)) == [
        "Only VAR was tested: there is nothing to compare it with."
    ]
    assert verdict() == ["No model was tested."]
    assert recommend([]) is None


def test_coverage_is_described_in_per_cent() -> None:
    assert describe_coverage("Ridge", 0.8, 0.9432, 0.80061) == (
        "The 80 % interval of Ridge contained 94.3 % of the observed values when calibrated once "
        "on validation (static), and 80.1 % when updated at every forecast origin (online)."
    )
