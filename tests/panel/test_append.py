import errno
import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import DataError, RunError
from forecaster.panel.append import Appended, append_panel
from forecaster.panel.panel import Panel
from forecaster.panel.storage import blocks
from forecaster.publish import writing
from forecaster.publish.manifest import PARTIAL, read_manifest, read_versions, verify_files
from tests.panel.storage.format_1 import save_format_1

STEPS, KNOWN, PLACES = 61, 67, 5
IDS = ("12", "a", "b", "c", "d")
Rounds = Callable[[int, int], int]


@pytest.fixture(scope="module")
def whole() -> Panel:
    """Counts with missing values, weather known ahead, and a local covariate."""
    generator = np.random.default_rng(3)
    values = generator.poisson(5.0, (STEPS, PLACES)).astype(np.float32)
    values[generator.random(values.shape) < 0.1] = np.nan
    ds = pd.date_range("2014-11-01T22:00", periods=KNOWN, freq="h", tz="UTC")
    long = pd.DataFrame({
        "unique_id": np.repeat(IDS, STEPS), "ds": np.tile(ds[:STEPS], PLACES),
        "y": values.T.ravel(),
    })  # fmt: skip
    weather = pd.DataFrame({"ds": ds, "rain": generator.random(KNOWN), "wind": np.arange(KNOWN)})
    weather.loc[17, "rain"] = None
    events = pd.DataFrame({
        "unique_id": np.repeat(IDS, KNOWN), "ds": np.tile(ds, PLACES),
        "event": generator.integers(0, 2, KNOWN * PLACES),
    })  # fmt: skip
    return Panel.from_long(
        long, timezone="America/New_York", step_minutes=60, country="US", covariates=weather,
        local_covariates=events, hours="always",
    )  # fmt: skip


def same(panel: Panel, expected: Panel) -> None:
    """Compare all arrays value by value, and the description."""
    for one, other in (
        (panel.values, expected.values),
        (panel.covariates.values, expected.covariates.values),
        (panel.local_covariates.values, expected.local_covariates.values),
    ):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
    assert (panel.locations.ids, panel.clock) == (expected.locations.ids, expected.clock)
    assert (panel.start, panel.kind) == (expected.start, expected.kind)


def begin(panel: Panel, folder: Path, steps: int) -> Path:
    """Save the first steps of a panel."""
    panel.steps(0, steps, steps).save(folder)
    return folder


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_L14_a_panel_appended_in_any_parts_equals_the_one_built_at_once(
    tmp_path_factory: pytest.TempPathFactory, whole: Panel, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("panel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_ROWS", data.draw(st.sampled_from([7, 64, 1 << 23])))
        patch.setattr(blocks, "MERGED", data.draw(st.sampled_from([2, 4, 32])))
        end = data.draw(st.integers(1, STEPS - 1))
        begin(whole, folder, end)
        while end < STEPS:
            overlap = data.draw(st.integers(0, min(end, 9)))
            stop = data.draw(st.integers(min(end + 7, STEPS), STEPS) | st.just(end + 1))
            known_end = data.draw(st.integers(stop, KNOWN))
            appended = append_panel(folder, whole.steps(end - overlap, stop, known_end))[1]
            assert (appended.steps, appended.revised) == (stop - end, 0)
            end = stop
        append_panel(folder, whole.steps(STEPS - 1, STEPS))
        same(Panel.open(folder), whole)
        for first, part_end in ((0, 3), (5, 41), (STEPS - 2, STEPS)):
            part = Panel.open(folder, verify=False).steps(first, part_end)
            np.testing.assert_array_equal(part.values, whole.values[first:part_end])


def test_L14_the_same_data_again_writes_nothing(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    append_panel(folder, whole.steps(40, 50, 50))
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    del before["manifest.json"]
    panel, appended = append_panel(folder, whole.steps(30, 50, 50))
    assert not appended
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert before.items() <= after.items()
    assert len(read_versions(folder)) == 2
    same(panel, whole.steps(0, 50, 50))


def test_only_what_is_new_is_written(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    first = read_manifest(folder)
    append_panel(folder, whole.steps(40, 43, 43))
    second = read_manifest(folder)
    assert {*second.files} - {*first.files} == {
        "values_40.parquet", "covariates_40.parquet", "local_covariates_0_40.parquet",
    }  # fmt: skip
    assert all(second.files[name] == file for name, file in first.files.items())
    assert second.parents == {"panel": first.digest}


def test_the_version_before_stays_readable(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    before = str(Panel.open(folder).digest)
    changed = whole.with_data(values=np.where(np.isfinite(whole.values), whole.values + 1, 3.0))
    append_panel(folder, changed.steps(33, 47, 47), revised=True)
    same(Panel.open(folder, version=before), whole.steps(0, 40, 40))
    expected = np.concatenate([whole.values[:33], changed.values[33:47]])
    np.testing.assert_array_equal(Panel.open(folder).values, expected)
    assert [m.about.get("appended", {}).get("steps") for m in read_versions(folder)] == [None, 7]


# ------------------------------------------------------------------- revisions, holes, places


def test_L14_revisions_are_refused_with_counts_and_rows_unless_they_are_asked_for(
    whole: Panel, tmp_path: Path
) -> None:
    values = whole.values.copy()
    values[20, 1], values[21, 2], values[39, 0] = 2.0, 3.0, 4.0
    old = whole.with_data(values=values)
    folder = begin(old, tmp_path, 40)
    values[20, 1], values[21, 2] = 7.0, 8.0
    new = whole.with_data(values=values).steps(19, 45, 45)
    message = (
        r"differs from the panel at 2 values: a at 2014-11-02T18:00:00Z: 2 → 7, b at .*: 3 → 8"
    )
    with pytest.raises(DataError, match=message):
        append_panel(folder, new)
    assert len(read_versions(folder)) == 1
    panel, appended = append_panel(folder, new, revised=True)
    assert (appended.steps, appended.revised, appended.filled) == (5, 2, 0)
    assert appended.first_revised[0] == "a at 2014-11-02T18:00:00Z: 2 → 7"
    np.testing.assert_array_equal(panel.values, values[:45])


def test_L14_missing_values_are_filled_and_withdrawn_ones_are_revisions(
    whole: Panel, tmp_path: Path
) -> None:
    values = whole.values.copy()
    values[30, :2] = np.nan, 6.0
    folder = begin(whole.with_data(values=values), tmp_path, 40)
    late = values.copy()
    late[30, :2] = 9.0, np.nan
    new = whole.with_data(values=late).steps(30, 41, 41)
    panel, appended = append_panel(folder, new)  # a missing value says nothing
    assert (appended.filled, appended.withdrawn) == (1, 0)
    assert panel.values[30, :2].tolist() == [9.0, 6.0]
    withdrawn = np.zeros(new.values.shape, dtype=bool)
    withdrawn[0, 1] = True
    with pytest.raises(DataError, match=r"at 1 value: a at .*: 6 → missing"):
        append_panel(folder, new, withdrawn=withdrawn)
    panel, appended = append_panel(folder, new, withdrawn=withdrawn, revised=True)
    assert (appended.withdrawn, np.isnan(panel.values[30, 1])) == (1, True)


def test_L14_a_hole_becomes_missing_steps_that_are_counted(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    panel, appended = append_panel(folder, whole.steps(47, 50, 50))
    assert (appended.steps, appended.completed) == (10, 7)
    assert np.isnan(panel.values[40:47]).all()
    np.testing.assert_array_equal(panel.values[47:50], whole.values[47:50])
    assert panel.counts["gaps"] == [["2014-11-03T14:00:00Z", 7]]
    panel, appended = append_panel(folder, whole.steps(40, 47, 47))  # it comes late
    assert (appended.steps, appended.completed) == (0, 0)
    assert appended.filled > 7 * PLACES
    same(panel, whole.steps(0, 50, 50))


def test_steps_that_only_the_new_rows_lack_are_no_gaps(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    values = whole.values.copy()
    values[8:47] = np.nan  # rows of step 7, which the panel has, and from 47 on
    counts = {"completed_steps": 39, "gaps": [["2014-11-02T06:00:00Z", 39]]}
    new = replace(whole.with_data(values=values).steps(7, 50, 50), counts=counts)
    panel, _ = append_panel(folder, new)
    assert panel.counts["gaps"] == [["2014-11-03T14:00:00Z", 7]]
    assert panel.counts["completed_steps"] == 7


def test_what_is_known_of_the_source_is_noted_when_nothing_is_new(
    whole: Panel, tmp_path: Path
) -> None:
    folder = begin(whole, tmp_path, 40)
    panel, appended = append_panel(folder, whole.steps(30, 40, 40), about={"read": 7})
    assert not appended
    assert read_manifest(folder).about["read"] == 7
    assert len(read_versions(folder)) == 2
    append_panel(folder, whole.steps(30, 40, 40), about={"read": 7})
    assert len(read_versions(folder)) == 2
    same(panel, whole.steps(0, 40, 40))


def test_new_locations_join_with_missing_values_before(whole: Panel, tmp_path: Path) -> None:
    few = whole.select(IDS[:3])
    folder = begin(few, tmp_path, 40)
    coming = whole.select(("d", "b", "a", "c")).steps(38, 50, 50)
    described = replace(coming.locations, names=("Dock", "b", "a", "c"))
    panel, appended = append_panel(folder, replace(coming, locations=described))
    assert appended.locations == ("d", "c")
    assert panel.locations.ids == ("12", "a", "b", "d", "c")
    assert panel.locations.names[3] == "Dock"
    expected = np.full((50, 5), np.nan, dtype=np.float32)
    expected[:, :3] = whole.values[:50, :3]
    expected[40:, 0] = np.nan
    expected[38:, 3], expected[38:, 4] = whole.values[38:50, 4], whole.values[38:50, 3]
    np.testing.assert_array_equal(panel.values, expected)
    opens = panel.locations.opens
    assert np.isnat(opens[:3]).all()
    assert (opens[3:] <= panel.times[40]).all()  # on the day of the first value
    assert (opens[3:] > panel.times[5]).all()
    again = append_panel(folder, whole.select(("d", "c")).steps(50, 61, 61))[0]
    np.testing.assert_array_equal(again.values[50:, 3], whole.values[50:, 4])


def test_values_outside_lives_and_opening_hours_are_left_out(whole: Panel, tmp_path: Path) -> None:
    closes = np.array([np.datetime64("NaT")] * 4 + [whole.times[45]], dtype="datetime64[s]")
    dated = replace(whole, locations=replace(whole.locations, closes=closes))
    dated = dated.with_hours(["Mon-Sun 06:00-22:00"] * PLACES).within_lives()
    folder = begin(dated, tmp_path, 40)
    panel, _ = append_panel(folder, whole.steps(40, 61, 61))
    np.testing.assert_array_equal(panel.values, dated.values)
    assert panel.clock.hours == dated.clock.hours
    assert panel.counts["values_outside_life"] > 0


def test_covariates_ahead_are_replaced_and_those_of_the_past_are_revisions(
    whole: Panel, tmp_path: Path
) -> None:
    folder = tmp_path
    whole.steps(0, 40, 50).save(folder)
    forecast = whole.covariates.values.copy()
    forecast[40:] += 1
    _, appended = append_panel(folder, whole.with_data(covariates=forecast).steps(39, 40, 60))
    assert (appended.steps, appended.revised) == (0, 0)
    assert appended.covariates == 2 * 20 + 10 * PLACES  # of them all, and local ones of 10 steps
    panel = Panel.open(folder)
    np.testing.assert_array_equal(panel.covariates.values[:60], forecast[:60])
    forecast[30] += 1
    with pytest.raises(DataError, match=r"at 2 values: rain at .*, wind at "):
        append_panel(folder, whole.with_data(covariates=forecast).steps(30, 40, 60))


def test_past_only_covariates_stay_unknown_ahead(whole: Panel, tmp_path: Path) -> None:
    marked = whole.with_past_only(["wind"])
    folder = tmp_path
    marked.steps(0, 40, 40).without_unseen().save(folder)
    panel, _ = append_panel(folder, whole.steps(40, 50, 60))
    assert panel.past_only == ("wind",)
    wind = panel.covariates.values[:, panel.covariates.names.index("wind")]
    assert np.isfinite(wind[:50]).all()
    assert np.isnan(wind[50:]).all()


# ----------------------------------------------------------------------------- what is refused


def hourly(first: str, every: str, ids: tuple[str, ...] = ("a",), count: int = 4) -> Panel:
    ds = pd.date_range(first, periods=count, freq=every, tz="UTC")
    rows = pd.DataFrame([(i, t, 1.0) for i in ids for t in ds], columns=["unique_id", "ds", "y"])
    return Panel.from_long(rows, timezone="America/New_York")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (hourly("2014-11-03T14:00", "h", ("v", "w")), r"none of its locations \(v, w\) is in the"),
        (
            hourly("2014-11-01T20:00", "h"),
            "2 steps before the panel's first, 2014-11-01T22:00",
        ),
        (hourly("2014-11-03T14:30", "h"), "between two steps of the panel"),
        (hourly("2014-11-03T14:00", "15min"), "the step is 15 min, that of the panel 60 min"),
        (hourly("2014-11-03T14:00", "2h"), "the step is 2 hours|the step is 120 min"),
        (hourly("2017-11-03T14:00", "h"), "over 366 days after the panel's end"),
        (replace(hourly("2014-11-03T14:00", "h"), kind="measurement"), "the kind of values is"),
    ],
)
def test_data_of_another_panel_is_refused(
    new: Panel, message: str, whole: Panel, tmp_path: Path
) -> None:
    folder = begin(whole, tmp_path, 40)
    with pytest.raises(DataError, match=message):
        append_panel(folder, new)
    assert len(read_versions(folder)) == 1


def test_data_with_every_third_hour_is_of_another_step(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    sparse = whole.steps(40, 61, 61)
    values = np.where(np.arange(21)[:, None] % 3 == 0, sparse.values, np.nan)
    with pytest.raises(DataError, match="the step is 3 × 60 min, that of the panel 60 min"):
        append_panel(folder, sparse.with_data(values=values.astype(np.float32)))


def test_unknown_covariates_are_refused_by_name(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole.select_covariates(("rain",), ()), tmp_path, 40)
    with pytest.raises(DataError, match=r"'wind': no such covariate(.|\n)*'event': no such local"):
        append_panel(folder, whole.steps(40, 50))


def test_a_changed_block_is_found_before_it_is_revised(whole: Panel, tmp_path: Path) -> None:
    folder = begin(whole, tmp_path, 40)
    path = next(folder.glob("values_0-*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Exception, match="does not match its manifest"):
        append_panel(folder, whole.steps(39, 41, 41))


# ---------------------------------------------------------------------- formats, kills, growth


def test_S10_a_panel_of_an_earlier_format_is_written_anew_and_appended_to(
    whole: Panel, tmp_path: Path
) -> None:
    digest = save_format_1(whole.steps(0, 40, 40), tmp_path)
    panel, appended = append_panel(tmp_path, whole.steps(40, 61))
    assert appended.steps == 21
    same(panel, whole)
    assert [m.version for m in read_versions(tmp_path)] == [1, 3, 3]
    same(Panel.open(tmp_path, version=digest), whole.steps(0, 40, 40))


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if PARTIAL not in p.name}


def test_C1_L14_an_append_killed_anywhere_leaves_a_version_and_finishes_when_asked_again(
    whole: Panel, tmp_path: Path, failing: Any, monkeypatch: pytest.MonkeyPatch, rounds: Rounds
) -> None:
    start, new = begin(whole, tmp_path / "start", 40), whole.steps(38, 50, 55)
    undisturbed = _copy(start, tmp_path / "undisturbed")
    disk = failing(10**9, errno.EIO)
    append_panel(undisturbed, new)
    operations, expected = disk.done, files_of(undisturbed)
    assert operations > 30
    generator = random.Random(5)  # noqa: S311 (which operation, not a secret)
    for number in range(rounds(5, 100)):
        monkeypatch.setattr(writing, "os", os)
        folder, at = _copy(start, tmp_path / f"{number}"), generator.randrange(operations)
        failing(at, generator.choice([signal.SIGKILL, errno.ENOSPC, errno.EIO]))
        pid = os.fork()
        if pid == 0:
            try:
                append_panel(folder, new)
            except RunError:
                pass
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        monkeypatch.setattr(writing, "os", os)
        verify_files(folder, read_manifest(folder))
        assert len(Panel.open(folder).values) in (40, 50)
        append_panel(folder, new)
        assert files_of(folder) == expected


def _copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for name, content in files_of(source).items():
        (target / name).write_bytes(content)
    return target


def test_many_small_appends_leave_few_files(
    whole: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MERGED", 4)
    folder = begin(whole, tmp_path, 1)
    for step in range(1, 22):
        append_panel(folder, whole.steps(step, step + 1, step + 1))
    same(Panel.open(folder), whole.steps(0, 22, 22))
    lengths = [end - first for first, end, _ in read_manifest(folder).about["blocks"]["values"]]
    assert lengths == [16, 4, 1, 1]
    assert len(read_versions(folder)) == 22


def test_counts_of_the_ledger_are_added_up(whole: Panel, tmp_path: Path) -> None:
    ledger = {"rows_in": 7, "rejected": {"malformed": 1}, "gaps": [["a", 2]], "hours_found": True}
    folder = begin(replace(whole, counts=ledger), tmp_path, 40)
    new = {"rows_in": 5, "rejected": {"malformed": 2, "too_far": 3}, "gaps": [], "note": "x"}
    panel, _ = append_panel(folder, replace(whole.steps(40, 41, 41), counts=new))
    assert panel.counts["rows_in"] == 12
    assert panel.counts["rejected"] == {"malformed": 3, "too_far": 3}
    assert (panel.counts["gaps"], panel.counts["hours_found"]) == ([["a", 2]], True)


def test_holidays_reach_ten_years_past_the_new_end(tmp_path: Path) -> None:
    ds = pd.date_range("2014-12-20", periods=20, freq="D")
    long = pd.DataFrame({"unique_id": "a", "ds": ds, "y": np.arange(20.0)})
    options: dict[str, Any] = {"timezone": "UTC", "step_minutes": 1440, "hours": "always"}
    panel = Panel.from_long(long[:10], country="US", **options)
    panel.save(tmp_path)
    grown = append_panel(tmp_path, Panel.from_long(long[10:], **options))[0]
    assert grown.clock == Panel.from_long(long, country="US", **options).clock


def test_nothing_appended_is_false() -> None:
    assert not Appended()
    assert Appended(filled=1)
