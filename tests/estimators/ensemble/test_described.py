from typing import Any

from forecaster.estimators.ensemble.described import describe_errors, describe_members


def measure(error: float, without: float | None) -> dict[str, Any]:
    member = {"weight": 0.6, "alone": 11.0, "without": without}
    other = {"weight": 0.4, "alone": 12.0, "without": error * 0.99}
    return {"error": error, "equal": error, "members": {"Ridge": member, "Boosting": other}}


def test_each_member_has_its_weights_and_what_it_adds() -> None:
    about = {"rmse": measure(10.0, 11.0), "mape": measure(0.2, 0.25)}
    assert describe_members(about) == [
        "Ridge (weight 60 % and 60 %; without it RMSE +10.0 %, MAPE +25.0 %)",
        "Boosting (weight 40 % and 40 %; without it RMSE −1.0 %, MAPE −1.0 %)",
    ]
    text = "RMSE 10, MAPE 20.00 % on days that the weights were not chosen by"
    assert describe_errors(about) == text


def test_a_single_member_adds_nothing_that_could_be_compared() -> None:
    about = {"rmse": measure(10.0, None)}
    assert describe_members(about)[0] == "Ridge (weight 60 %)"


def test_the_heaviest_member_comes_first_however_a_file_has_sorted_them() -> None:
    about = {"rmse": measure(10.0, 11.0)}
    about["rmse"]["members"] = dict(sorted(about["rmse"]["members"].items()))
    assert [text.split()[0] for text in describe_members(about)] == ["Ridge", "Boosting"]
