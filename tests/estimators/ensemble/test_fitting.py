import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import load_run
from tests.estimators.ensemble.killed import complete


@pytest.mark.slow
def test_T1_an_ensemble_killed_twice_resumes_to_the_same_bits(
    processes: Any, tmp_path: Path
) -> None:
    for kill_at in (5, 13):
        assert processes.run(complete, tmp_path / "killed", kill_at) == -signal.SIGKILL
    assert processes.run(complete, tmp_path / "killed") == 0
    assert processes.run(complete, tmp_path / "whole") == 0
    killed, whole = (load_run(tmp_path / name / "run") for name in ("killed", "whole"))
    assert killed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(killed.arrays[name], array)
    assert killed.about == whole.about
    assert killed.digest == whole.digest
    names = [member["name"] for member in whole.about["members"]]
    assert names == [
        "Forecaster seed 0", "Forecaster seed 1", "STID-lags seed 0", "STID-lags seed 1", "Ridge",
    ]  # fmt: skip
