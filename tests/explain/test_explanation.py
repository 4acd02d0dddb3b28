import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr

from forecaster.explain.explanation import compare_orders

METHODS = ("gradient", "ablation")
SIZES = np.array([3.0, -1.0, 0.5, 7.0, -11.0])


def test_the_same_order_agrees_whatever_the_signs_and_sizes() -> None:
    agreement = compare_orders("hours", METHODS, SIZES, -(SIZES**3))
    assert agreement.correlation == pytest.approx(1)
    assert agreement.text == "gradient and ablation agree (1.00)"


def test_the_opposite_order_does_not() -> None:
    agreement = compare_orders("hours", METHODS, SIZES, 1 / SIZES)
    assert agreement.correlation == pytest.approx(-1)
    assert agreement.text == "gradient and ablation do not agree (−1.00)"


@pytest.mark.parametrize("sizes", [np.zeros(5), np.ones(5)])
def test_what_has_no_order_cannot_be_compared(sizes: np.ndarray) -> None:
    agreement = compare_orders("neighbours", METHODS, SIZES, sizes)
    assert agreement.correlation is None
    assert agreement.text == "gradient and ablation cannot be compared"


def test_two_things_cannot_be_compared() -> None:
    assert compare_orders("hours", METHODS, SIZES[:2], SIZES[:2]).correlation is None


@given(arrays(np.float64, (2, 13), elements=st.floats(-9, 9)))
def test_correlations_are_spearmans(sizes: np.ndarray) -> None:
    agreement = compare_orders("hours", METHODS, *sizes).correlation
    if agreement is not None:
        assert agreement == pytest.approx(spearmanr(*np.abs(sizes)).statistic)
        assert -1 - 1e-9 <= agreement <= 1 + 1e-9
