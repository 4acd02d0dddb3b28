from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.evaluation.bias import (
    SizeBias,
    bias_by_hour,
    bias_by_size,
    group_sizes,
    location_sizes,
    name_sizes,
)
from forecaster.metrics import sum_errors
from forecaster.splits import Splits


def test_every_fifth_has_the_bias_of_its_own_locations() -> None:
    sizes = np.array([50.0, 1.0, 20.0, 2.0, 30.0, 10.0, 3.0, 40.0, 4.0, 60.0])
    truth = np.array([[50.0, 1, 20, 2, 30, 10, 3, 40, 0, 60]] * 2)
    errors = np.array([0.0, 2, 0, 1, 3, 0, 0, -4, 4, 0])  # 1 → 3 and 2 → 3: 100 % too high
    groups = bias_by_size(
        sum_errors(truth.T, (truth + errors).T, 10.0), sizes
    )  # sums over windows
    assert groups[0] == SizeBias(2, 1.5, 3 / 3)
    biases = [group.bias for group in groups]
    assert biases == pytest.approx([3 / 3, 4 / 3, 0.0, -1 / 70, 0.0])
    assert [group.size for group in groups] == [1.5, 3.5, 15, 35, 55]


def test_every_hour_has_the_bias_of_its_own_steps() -> None:
    truth = np.array([[[10.0, 20.0], [30.0, 10.0]], [[5.0, 5.0], [0.0, 0.0]]])  # [B K N]
    forecast = np.array([[[12.0, 21.0], [26.0, 10.0]], [[5.0, 8.0], [7.0, 0.0]]])
    hours = np.array([[7, 8], [7, 23]])
    biases = bias_by_hour(sum_errors(truth, forecast, 10.0), hours)
    assert len(biases) == 24
    assert biases[7] == pytest.approx((2 + 1 + 0 + 3) / (30 + 10))
    assert biases[8] == pytest.approx(-4 / 40)
    assert biases[23] is None  # too high, but of nothing
    assert biases[0] is None


@given(arrays(np.float64, st.integers(1, 30), elements=st.sampled_from([0.0, 0.5, 3.0, 1e3])))
def test_fifths_differ_by_one_location_at_most_and_rise_with_size(sizes: np.ndarray) -> None:
    groups = group_sizes(sizes)
    counts = np.bincount(groups)
    assert len(counts) == min(5, len(sizes))
    assert counts.max() - counts.min() <= 1
    for g in range(len(counts) - 1):
        assert sizes[groups == g].max() <= sizes[groups == g + 1].min()


def test_groups_have_names() -> None:
    assert name_sizes(5) == ["smallest fifth", "2nd", "3rd", "4th", "largest fifth"]
    assert name_sizes(3) == ["smallest", "2nd", "largest"]
    assert name_sizes(1) == ["all"]


def test_sizes_are_those_of_training_whatever_came_later_and_in_the_panels_order() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    run = Ridge(RECIPE).fit(panel, splits).run
    assert run is not None
    sizes = location_sizes(run, panel)
    train = splits.mask("train", panel.clock, panel.times)
    np.testing.assert_allclose(sizes, np.nanmean(panel.values[train], axis=0), rtol=0.05)
    later = panel.values.copy()
    later[~train] *= 100
    assert np.array_equal(location_sizes(run, panel.with_data(later)), sizes)
    turned = panel.select(tuple(reversed(panel.locations.ids)))
    assert np.array_equal(location_sizes(run, turned), sizes[::-1])


def test_sums_of_an_earlier_version_have_no_bias() -> None:
    truth = np.full((3, 2), 10.0)
    sums = sum_errors(truth, truth, 10.0)
    older = replace(sums, signed=np.full_like(sums.signed, np.nan))
    assert set(bias_by_hour(older, np.arange(3))) == {None}
