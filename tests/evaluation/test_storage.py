import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forecaster.artifact import ARRAYS, pack
from forecaster.errors import ArtifactError
from forecaster.evaluation.backtest import BacktestResult, IntervalResults, OwnErrors
from forecaster.evaluation.storage import load_backtest, save_backtest
from forecaster.publish.manifest import MANIFEST
from forecaster.publish.writing import Draft, bytes_writer, publish

RUN = "ab" * 32
MakeResult = Callable[..., BacktestResult]


def test_a_backtest_result_is_read_as_it_was_saved(
    tmp_path: Path, make_result: MakeResult
) -> None:
    errors = {w: make_result(s).errors["observed"] for w, s in (("persist", 1.0), ("none", 2.0))}
    found = make_result(1.0, errors=errors, seconds=None)
    save_backtest(tmp_path / "test", found, RUN)
    again = load_backtest(tmp_path / "test", RUN)
    assert again is not None
    assert list(again.errors) == ["persist", "none"]
    assert (again.parameters, again.milliseconds, again.seconds) == (11, 2.5, None)
    assert np.array_equal(again.days, found.days)
    for weather in errors:
        for name, sums in vars(found.errors[weather]).items():
            assert np.array_equal(getattr(again.errors[weather], name), sums)
    assert np.array_equal(again.by_location.values, found.by_location.values)


def test_the_errors_of_a_model_alone_come_back_as_they_were(
    tmp_path: Path, make_result: MakeResult
) -> None:
    alone = make_result(3.0)
    found = make_result(1.0, own=OwnErrors(alone.errors, alone.by_location), fallback={"Ridge": 2})
    save_backtest(tmp_path / "test", found, RUN)
    again = load_backtest(tmp_path / "test", RUN)
    assert again is not None
    assert again.own is not None
    assert again.fallback == {"Ridge": 2}
    for name, sums in vars(alone.errors["observed"]).items():
        assert np.array_equal(getattr(again.own.errors["observed"], name), sums), name
    assert np.array_equal(again.own.by_location.squares, alone.by_location.squares)
    save_backtest(tmp_path / "other", make_result(1.0), RUN)
    other = load_backtest(tmp_path / "other", RUN)
    assert other is not None
    assert (other.own, other.fallback) == (None, None)


@pytest.mark.parametrize("counts", [True, False])
def test_what_became_of_intervals_comes_back_as_it_was(
    tmp_path: Path,
    make_result: MakeResult,
    make_interval_results: Callable[..., IntervalResults],
    counts: bool,
) -> None:
    interval_results = make_interval_results(4.0, 6.0, counts=counts)
    save_backtest(tmp_path / "test", make_result(1.0, interval_results=interval_results), RUN)
    again = load_backtest(tmp_path / "test", RUN)
    assert again is not None
    assert again.interval_results is not None
    assert again.interval_results.levels == (0.1, 0.5, 0.9)
    for form in ("static", "online"):
        for part in ("by_window", "by_location"):
            one, other = (
                getattr(found, part)[form] for found in (interval_results, again.interval_results)
            )
            for name, sums in vars(one).items():
                assert np.array_equal(getattr(other, name), sums, equal_nan=True), name
            assert np.isfinite(other.overlaps).all() == counts


def test_a_result_saved_before_intervals_has_none(tmp_path: Path, make_result: MakeResult) -> None:
    folder = tmp_path / "test"
    save_backtest(folder, make_result(1.0), RUN)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    older = {name: value for name, value in manifest["about"].items() if name != "levels"}
    assert len(older) == len(manifest["about"]) - 1
    (file,) = folder.glob("arrays-*")
    files = {ARRAYS: bytes_writer(file.read_bytes())}
    publish(folder, Draft("assessment", 1, files, older, parents={"run": RUN}))
    again = load_backtest(folder, RUN)
    assert again is not None
    assert again.interval_results is None
    assert again.parameters == 11


def test_what_tells_bias_comes_back_as_it_was(tmp_path: Path, make_result: MakeResult) -> None:
    hours, sizes = np.arange(48 * 3).reshape(48, 3) % 24, np.arange(5.0)
    parts = {"hours": hours, "location_sizes": sizes, "has_relative": True}
    save_backtest(tmp_path / "test", make_result(1.0, **parts), RUN)
    again = load_backtest(tmp_path / "test", RUN)
    assert again is not None
    assert np.array_equal(again.hours, hours)
    assert np.array_equal(again.location_sizes, sizes)
    assert again.has_relative
    assert again.has_bias


def test_a_result_saved_before_bias_is_read_without_it(
    tmp_path: Path, make_result: MakeResult
) -> None:
    folder, result = tmp_path / "test", make_result(1.0)
    arrays = {"origins": result.origins, "days": result.days}
    sums = {"observed": result.errors["observed"], "places": result.by_location}
    for name, errors in sums.items():
        parts = {part: array for part, array in vars(errors).items() if part != "signed"}
        arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    content, described = pack(arrays)
    costs = {"parameters": 11, "milliseconds": 2.5, "seconds": None}
    about = {"weathers": ["observed"], "arrays": described, **costs}
    files = {ARRAYS: bytes_writer(content)}
    publish(folder, Draft("assessment", 1, files, about, parents={"run": RUN}))
    again = load_backtest(folder, RUN)
    assert again is not None
    assert not again.has_bias
    assert not again.has_relative
    scores, before = (r.errors["observed"].scores() for r in (again, result))
    assert scores.bias.value is None
    assert (scores.rmse, scores.mape) == (before.rmse, before.mape)
    assert again.location_sizes is again.hours is None


@pytest.mark.parametrize("levels", [[0.9, 0.1], [0.5, 0.5], [0.0, 0.9], [0.1, 1.5], ["a"], 7])
def test_C3_levels_that_cannot_be_are_refused(
    tmp_path: Path,
    make_result: MakeResult,
    make_interval_results: Callable[..., IntervalResults],
    levels: object,
) -> None:
    folder = tmp_path / "test"
    save_backtest(folder, make_result(1.0, interval_results=make_interval_results(4.0, 6.0)), RUN)
    about = {**json.loads((folder / MANIFEST).read_bytes())["about"], "levels": levels}
    (file,) = folder.glob("arrays-*")
    files = {ARRAYS: bytes_writer(file.read_bytes())}
    publish(folder, Draft("assessment", 1, files, about, parents={"run": RUN}))
    with pytest.raises(ArtifactError, match="not a valid backtest"):
        load_backtest(folder, RUN)


def test_the_result_of_another_run_is_none(tmp_path: Path, make_result: MakeResult) -> None:
    assert load_backtest(tmp_path / "test", RUN) is None
    save_backtest(tmp_path / "test", make_result(1.0), RUN)
    assert load_backtest(tmp_path / "test", "cd" * 32) is None


def test_C2_damage_is_detected(tmp_path: Path, make_result: MakeResult) -> None:
    folder = tmp_path / "test"
    save_backtest(folder, make_result(1.0), RUN)
    (file,) = folder.glob("arrays-*")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        load_backtest(folder, RUN)


@pytest.mark.parametrize("weathers", [[], ["sunny"], "observed", None])
def test_C3_something_else_is_refused(tmp_path: Path, weathers: object) -> None:
    content, described = pack({"days": np.arange(3)})
    about = {"weathers": weathers, "arrays": described}
    parents = {"run": RUN}
    files = {ARRAYS: bytes_writer(content)}
    publish(tmp_path / "test", Draft("assessment", 1, files, about, parents=parents))
    with pytest.raises(ArtifactError, match="not a valid backtest"):
        load_backtest(tmp_path / "test", RUN)
