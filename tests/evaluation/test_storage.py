from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forecaster.artifact import ARRAYS, pack
from forecaster.errors import ArtifactError
from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.storage import load_assessment, save_assessment
from forecaster.publish.writing import Draft, bytes_writer, publish

RUN = "ab" * 32
MakeAssessment = Callable[..., Assessment]


def test_an_assessment_comes_back_as_it_was(
    tmp_path: Path, make_assessment: MakeAssessment
) -> None:
    errors = {
        w: make_assessment(s).errors["observed"] for w, s in (("persist", 1.0), ("none", 2.0))
    }
    found = make_assessment(1.0, errors=errors, seconds=None)
    save_assessment(tmp_path / "test", found, RUN)
    again = load_assessment(tmp_path / "test", RUN)
    assert again is not None
    assert list(again.errors) == ["persist", "none"]
    assert (again.parameters, again.milliseconds, again.seconds) == (11, 2.5, None)
    assert np.array_equal(again.days, found.days)
    for weather in errors:
        for name, sums in vars(found.errors[weather]).items():
            assert np.array_equal(getattr(again.errors[weather], name), sums)
    assert np.array_equal(again.places.values, found.places.values)


def test_the_assessment_of_another_run_is_none(
    tmp_path: Path, make_assessment: MakeAssessment
) -> None:
    assert load_assessment(tmp_path / "test", RUN) is None
    save_assessment(tmp_path / "test", make_assessment(1.0), RUN)
    assert load_assessment(tmp_path / "test", "cd" * 32) is None


def test_C2_damage_is_found(tmp_path: Path, make_assessment: MakeAssessment) -> None:
    folder = tmp_path / "test"
    save_assessment(folder, make_assessment(1.0), RUN)
    (file,) = folder.glob("arrays-*")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        load_assessment(folder, RUN)


@pytest.mark.parametrize("weathers", [[], ["sunny"], "observed", None])
def test_C3_something_else_is_refused(tmp_path: Path, weathers: object) -> None:
    content, described = pack({"days": np.arange(3)})
    about = {"weathers": weathers, "arrays": described}
    parents = {"run": RUN}
    files = {ARRAYS: bytes_writer(content)}
    publish(tmp_path / "test", Draft("assessment", 1, files, about, parents=parents))
    with pytest.raises(ArtifactError, match="not an assessment"):
        load_assessment(tmp_path / "test", RUN)
