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
def test_what_has_no_order_is_said_in_plain_words(sizes: np.ndarray) -> None:
    agreement = compare_orders("neighbours", METHODS, SIZES, sizes)
    assert agreement.correlation is None
    assert agreement.text == "all have the same effect by ablation"


def test_too_few_to_rank_are_counted() -> None:
    two, none = (compare_orders("neighbours", METHODS, SIZES[:n], SIZES[:n]) for n in (2, 0))
    assert two.correlation is None
    assert two.text == "only 2 with an effect, too few to compare the methods"
    assert none.text == "none has an effect"


def test_no_method_has_a_name_that_only_its_code_explains() -> None:
    agreement = compare_orders("neighbours", ("free gradient", "free ablation"), SIZES, SIZES)
    assert agreement.text == "gradient incl. city-wide and ablation incl. city-wide agree (1.00)"


@given(arrays(np.float64, (2, 13), elements=st.floats(-9, 9)))
def test_correlations_are_spearmans(sizes: np.ndarray) -> None:
    agreement = compare_orders("hours", METHODS, *sizes).correlation
    if agreement is not None:
        assert agreement == pytest.approx(spearmanr(*np.abs(sizes)).statistic)
        assert -1 - 1e-9 <= agreement <= 1 + 1e-9
