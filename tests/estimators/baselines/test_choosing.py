import numpy as np

from forecaster.estimators.baselines.choosing import choosing_origins


def test_few_windows_are_all_taken() -> None:
    assert choosing_origins(np.arange(997), 3 * 69).tolist() == list(range(997))


def test_many_windows_are_thinned_evenly_and_long_horizons_more() -> None:
    origins = np.arange(7001)
    assert len(choosing_origins(origins, 3 * 69)) == 876  # every eighth
    assert len(choosing_origins(origins, 168 * 69)) == 701
    assert len(choosing_origins(origins, 336 * 10_007)) == 50
    assert set(np.diff(choosing_origins(origins, 168 * 69)).tolist()) == {10}
