"""The checks that guard all other tests find what is wrong."""

from dataclasses import dataclass

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float64, Int64, TypeCheckError

from forecaster.graph import descent
from forecaster.panel.fill import slot_means
from tests.shapes import checked


@checked(typechecker=None)
def add(a: Float64[np.ndarray, "M N"], b: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, "M N"]:
    return a + b


@checked
def double(number: int) -> int:
    return number * 2 if number < 7 else "many"  # type: ignore[return-value]


@checked
def pick(rows: list[tuple[str, Int64[np.ndarray, " N"]]]) -> Int64[np.ndarray, " N"]:
    return rows[0][1][:3]


@checked
def repeat(a: Float64[np.ndarray, " N"], times: int) -> Float64[np.ndarray, " 2*N"]:
    return np.tile(a, times)


@checked
def total(rows: list[Float64[np.ndarray, " N"]]) -> float:
    return float(sum(row.sum() for row in rows))


@checked
@dataclass(frozen=True)
class Pair:
    one: Float64[np.ndarray, " N"]
    two: Float64[np.ndarray, " N"]


def test_what_fits_passes() -> None:
    assert add(np.ones((2, 3)), np.ones(3)).tolist() == [[2.0] * 3] * 2
    assert add(np.ones((5, 7)), np.ones(7)).shape == (5, 7)  # each call has its own sizes
    assert double(2) == 4
    assert Pair(np.ones(3), np.ones(3)).one.sum() == 3


def test_sizes_are_compared_within_a_call() -> None:
    with pytest.raises(TypeCheckError):
        add(np.ones((2, 3)), np.ones(2))
    with pytest.raises(TypeCheckError):
        Pair(np.ones(3), np.ones(2))
    with pytest.raises(TypeCheckError):
        pick([("a", np.arange(5))])  # of what comes back, too


def test_a_call_of_another_form_is_checked_after_one_that_passed() -> None:
    for _ in range(2):
        add(np.ones((2, 3)), np.ones(3))
    with pytest.raises(TypeCheckError):
        add(np.ones((2, 3)), np.ones(3, np.float32))
    with pytest.raises(TypeCheckError):
        add(np.ones((2, 3)), b=np.ones(2))
    with pytest.raises(TypeCheckError):
        add(np.ones((2, 3)), None)  # type: ignore[arg-type]


def test_a_result_of_another_form_is_checked_after_one_that_passed() -> None:
    for _ in range(2):
        assert len(repeat(np.ones(2), 2)) == 4
    with pytest.raises(TypeCheckError):
        repeat(np.ones(2), 3)  # the same types and shapes, but not of what comes back


def test_items_of_a_list_are_checked_after_others_have_passed() -> None:
    for _ in range(2):
        assert total([np.ones(2), np.ones(2)]) == 4.0
    with pytest.raises(TypeCheckError):
        total([np.ones(2, np.float32), np.ones(2, np.float32)])
    with pytest.raises(TypeCheckError):
        total([np.ones((2, 2))] * 100)


def test_types_are_checked_where_there_is_no_array() -> None:
    with pytest.raises(TypeCheckError):
        double(2.0)  # type: ignore[arg-type]
    with pytest.raises(TypeCheckError):
        double(11)


def test_checks_can_be_left_out() -> None:
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="broadcast"):
            add(np.ones((2, 3)), np.ones(2))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_modules_with_compiled_functions_are_left_as_they_are() -> None:
    def half(x: int) -> float:
        return x / 2

    half.__module__ = descent.__name__
    assert checked(half) is half
    half.__module__ = __name__
    assert checked(half) is not half


def test_the_package_is_checked(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--jaxtyping-packages"):
        pytest.skip("--jaxtyping-packages is not given; `make test` gives it")
    with pytest.raises(TypeCheckError):
        slot_means(np.ones((5, 3), np.float32), np.arange(7), 7)  # 5 rows, 7 slots
