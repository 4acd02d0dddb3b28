import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.report.doctor.scan import _median, true_runs


@given(st.lists(st.booleans(), max_size=40))
def test_runs_cover_exactly_what_is_true(where: list[bool]) -> None:
    covered = np.zeros(len(where), dtype=bool)
    previous_end = -1
    for start, end in true_runs(np.array(where, dtype=bool)):
        assert previous_end < start < end
        covered[start:end] = True
        previous_end = end
    assert covered.tolist() == where


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")
@given(
    st.lists(
        st.lists(st.one_of(st.just(float("nan")), st.integers(0, 99)), min_size=5, max_size=5),
        min_size=1,
        max_size=7,
    )
)
def test_the_median_is_that_of_observed_values(rows: list[list[float]]) -> None:
    values = np.array(rows, dtype=np.float32)
    expected = np.nanmedian(values, axis=1)
    assert np.array_equal(_median(values), expected, equal_nan=True)
