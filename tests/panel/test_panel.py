import os
import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError, ConfigError, DataError, RunError, visible
from forecaster.panel import panel as panel_module
from forecaster.panel.panel import Panel, local_texts, write_table
from forecaster.panel.parts import RESERVED, Covariates, LocalCovariates, Locations
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.reading.delimited import NULL_TEXTS
from forecaster.recipe import Recipe

Rounds = Callable[[int, int], int]
GOLDEN = Path(__file__).parent / "golden" / "format-1"
STEPS, KNOWN, PLACES = 29, 37, 3  # of the panel in conftest.py
NOBODY = 65534


def times(start: str, steps: int, freq: str = "h", zone: str | None = "UTC") -> pd.DatetimeIndex:
    return pd.date_range(start, periods=steps, freq=freq, tz=zone)


def one_place(values: Any, ds: Any) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": "a", "ds": ds, "y": values})


def covariate_table(panel: Panel) -> pd.DataFrame:
    frame = pd.DataFrame(panel.covariates.values, columns=list(panel.covariates.names))
    return frame.assign(ds=panel.known_times)


def local_table(panel: Panel) -> pd.DataFrame:
    steps, places = len(panel.known_times), len(panel.locations)
    columns = {
        "unique_id": np.tile(np.array(panel.locations.ids, dtype=object), steps),
        "ds": np.repeat(panel.known_times, places),
    }
    for name, layer in zip(
        panel.local_covariates.names, panel.local_covariates.values, strict=True
    ):
        columns[name] = layer.ravel()
    return pd.DataFrame(columns).assign(ds=lambda f: f["ds"].dt.tz_localize("UTC"))


def beside(panel: Panel) -> dict[str, Any]:
    """Return what a table of values alone cannot say of a panel."""
    return {
        "timezone": panel.clock.zone,
        "kind": panel.kind,
        "step_minutes": panel.clock.step_minutes,
        "country": panel.clock.holidays.country if panel.clock.holidays else None,
        "locations": panel.locations,
        "covariates": covariate_table(panel).assign(ds=lambda f: f["ds"].dt.tz_localize("UTC")),
        "local_covariates": local_table(panel),
    }


def assert_same(one: Panel, other: Panel) -> None:
    for field in ("start", "kind"):
        assert getattr(one, field) == getattr(other, field)
    assert (one.clock.zone, one.clock.step_minutes) == (other.clock.zone, other.clock.step_minutes)
    for field in ("ids", "names", "extra"):
        assert getattr(one.locations, field) == getattr(other.locations, field)
    assert one.covariates.names == other.covariates.names
    assert one.local_covariates.names == other.local_covariates.names
    for mine, theirs in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(np.signbit(mine[mine == 0]), np.signbit(theirs[theirs == 0]))


def arrays(panel: Panel) -> list[np.ndarray]:
    return [
        panel.values,
        panel.covariates.values,
        panel.local_covariates.values,
        panel.locations.lat,
        panel.locations.lon,
    ]


# ------------------------------------------------------------------------------- the panel


def test_a_panel_knows_its_times(panel: Panel) -> None:
    assert (len(panel.times), len(panel.known_times)) == (STEPS, KNOWN)
    assert str(panel.times[-1]) == "2014-07-05T02:00:00"
    assert str(panel.known_times[-1]) == "2014-07-05T10:00:00"


def test_the_arrays_of_a_panel_are_read_only(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path)
    made = Panel.from_long(panel.to_long(), **beside(panel))
    for each in (panel, made, Panel.open(tmp_path)):
        for array in arrays(each):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"locations": Locations.of_ids("ab")}, "3 columns of values, 2 locations"),
        (
            {"values": np.empty((0, PLACES), np.float32)},
            "0 steps × 3 locations: empty",
        ),
        (
            {"covariates": Covariates((), np.empty((STEPS - 1, 0), np.float32))},
            "covariates cover 28 steps, values 29",
        ),
        (
            {"local_covariates": LocalCovariates((), np.empty((0, KNOWN, 2), np.float32))},
            "they must cover at least as many",
        ),
        ({"values": np.diag([np.inf] * 3).astype(np.float32)}, "infinite values; use null"),
        ({"values": np.diag([-np.inf] * 3).astype(np.float32)}, "infinite values; use null"),
        (
            {"values": np.full((STEPS, PLACES), -1.0, np.float32)},
            "87 negative counts: 7 at 2014-07-03T22:00:00Z, 007 at 2014-07-03T22:00:00Z, z",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    panel: Panel, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        replace(panel, **change)


def test_locations_are_selected_in_the_order_asked_for(panel: Panel, tmp_path: Path) -> None:
    some = panel.save(tmp_path).select(("z", "7"))
    assert (some.locations.ids, some.locations.names) == (("z", "7"), ("z", "Seventh Avenue"))
    np.testing.assert_array_equal(some.values, panel.values[:, [2, 0]])
    np.testing.assert_array_equal(
        some.local_covariates.values, panel.local_covariates.values[:, :, [2, 0]]
    )
    np.testing.assert_array_equal(some.covariates.values, panel.covariates.values)
    assert some.digest is None  # it is not what was saved


def test_a_selection_of_everything_is_the_panel_itself(panel: Panel) -> None:
    assert panel.select(panel.locations.ids) is panel


def test_a_selection_of_unknown_locations_is_refused(panel: Panel) -> None:
    with pytest.raises(DataError, match="panel: 2 unknown ids: x, y; it has 7, 007, z"):
        panel.select(("7", "x", "y"))


def test_some_steps_of_a_panel_are_a_panel_without_copies(panel: Panel) -> None:
    part = panel.steps(3, 11)
    assert part.start == panel.times[3]
    np.testing.assert_array_equal(part.times, panel.times[3:11])
    np.testing.assert_array_equal(part.values, panel.values[3:11])
    np.testing.assert_array_equal(part.covariates.values, panel.covariates.values[3:])
    np.testing.assert_array_equal(
        part.local_covariates.values, panel.local_covariates.values[:, 3:]
    )
    assert np.shares_memory(part.values, panel.values)
    assert np.shares_memory(part.local_covariates.values, panel.local_covariates.values)


def test_the_steps_of_a_panel_may_end_with_their_covariates(panel: Panel) -> None:
    part = panel.steps(3, 11, 13)
    np.testing.assert_array_equal(part.known_times, panel.times[3:13])
    np.testing.assert_array_equal(part.covariates.values, panel.covariates.values[3:13])
    assert part.local_covariates.values.shape == (1, 10, 3)


def test_covariates_are_selected_in_the_order_asked_for(panel: Panel) -> None:
    chosen = panel.select_covariates(("wind", "temperature"), ())
    assert chosen.covariates.names == ("wind", "temperature")
    np.testing.assert_array_equal(chosen.covariates.values, panel.covariates.values[:, ::-1])
    assert chosen.local_covariates.values.shape == (0, 37, 3)
    assert panel.select_covariates(("temperature", "wind"), ("rain",)) is panel


def test_other_numbers_make_another_panel(panel: Panel, tmp_path: Path) -> None:
    saved = panel.save(tmp_path)
    changed = saved.with_data(values=panel.values + 1)
    np.testing.assert_array_equal(changed.values, panel.values + 1)
    assert changed.covariates is saved.covariates
    assert changed.digest is None
    changed = saved.with_data(covariates=panel.covariates.values * 2)
    np.testing.assert_array_equal(changed.covariates.values, panel.covariates.values * 2)
    assert changed.covariates.names == panel.covariates.names
    changed = saved.with_data(local_covariates=panel.local_covariates.values - 3)
    np.testing.assert_array_equal(
        changed.local_covariates.values, panel.local_covariates.values - 3
    )


def test_hidden_steps_are_missing_and_the_panel_keeps_its_digest(
    panel: Panel, tmp_path: Path
) -> None:
    saved = panel.save(tmp_path)
    hidden = np.isin(np.arange(29), [7, 23])
    blind = saved.hide_steps(hidden)
    for before, after in (
        (panel.values, blind.values),
        (panel.covariates.values[:29], blind.covariates.values[:29]),
        (panel.local_covariates.values[0, :29], blind.local_covariates.values[0, :29]),
    ):
        assert np.isnan(after[hidden]).all()
        np.testing.assert_array_equal(after[~hidden], before[~hidden])
    np.testing.assert_array_equal(blind.covariates.values[29:], panel.covariates.values[29:])
    assert np.isfinite(panel.values[hidden]).all()  # the caller's panel is unchanged
    assert blind.digest == saved.digest


def test_a_measurement_may_be_negative(panel: Panel) -> None:
    values = np.full((STEPS, PLACES), -1.0, np.float32)
    assert replace(panel, values=values, kind="measurement").values.max() == -1


# -------------------------------------------------------------------------- from and to tables


def test_a_long_table_comes_back_as_the_same_panel(panel: Panel) -> None:
    assert_same(Panel.from_long(panel.to_long(), **beside(panel)), panel)


def test_a_wide_table_comes_back_as_the_same_panel(panel: Panel) -> None:
    assert_same(Panel.from_wide(panel.to_wide(), **beside(panel)), panel)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_tables_come_back_as_the_same_panel(
    panel: Panel, tmp_path: Path, suffix: str
) -> None:
    given = beside(panel)
    for name in ("covariates", "local_covariates"):
        write_table(given[name], tmp_path / f"{name}.{suffix}")
        given[name] = tmp_path / f"{name}.{suffix}"
    write_table(panel.to_long(), tmp_path / f"long.{suffix}")
    write_table(panel.to_wide(), tmp_path / f"wide.{suffix}")
    assert_same(Panel.from_long(tmp_path / f"long.{suffix}", **given), panel)
    assert_same(Panel.from_wide(str(tmp_path / f"wide.{suffix}"), **given), panel)


def test_long_and_wide_tables_of_one_panel_make_one_digest(panel: Panel, tmp_path: Path) -> None:
    long = Panel.from_long(panel.to_long(), **beside(panel)).save(tmp_path / "long")
    wide = Panel.from_wide(panel.to_wide(), **beside(panel)).save(tmp_path / "wide")
    assert long.digest == wide.digest


def test_a_long_table_has_the_columns_that_forecasting_users_know(panel: Panel) -> None:
    frame = panel.to_long()
    assert list(frame.columns) == ["unique_id", "ds", "y", "rain"]
    assert len(frame) == STEPS * PLACES
    assert frame.iloc[4].tolist()[:3] == ["007", pd.Timestamp("2014-07-03T23:00Z"), 4.0]
    assert frame["y"].isna().sum() == 1


def test_a_wide_table_has_a_time_and_a_column_per_location(panel: Panel) -> None:
    frame = panel.to_wide()
    assert list(frame.columns) == ["time", "7", "007", "z"]
    assert frame["z"].tolist() == panel.values[:, 2].tolist()


def test_a_table_is_written_with_the_offset_of_its_times(tmp_path: Path) -> None:
    local = times("2014-06-01T08:00", 2, zone="America/New_York")
    frame = pd.DataFrame({"utc": local.tz_convert("UTC"), "local": local})
    write_table(frame, tmp_path / "a.csv")
    first = (tmp_path / "a.csv").read_text().splitlines()[1]
    assert first == "2014-06-01T12:00:00+0000,2014-06-01T08:00:00-0400"


def test_a_table_of_another_suffix_is_refused(panel: Panel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a table is written as \.csv or \.parquet"):
        write_table(panel.to_wide(), tmp_path / "a.xlsx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step_minutes", [5, 15, 60, 1440])
def test_other_regular_steps_work(tmp_path: Path, step_minutes: int) -> None:
    ds = times("2014-06-01T00:00", 31, f"{step_minutes}min")
    made = Panel.from_long(
        one_place(np.arange(31.0), ds), timezone="Asia/Kolkata", step_minutes=step_minutes
    )
    made.save(tmp_path)
    read = Panel.open(tmp_path)
    assert read.clock.step_minutes == step_minutes
    assert (read.times == ds.tz_localize(None).to_numpy("datetime64[s]")).all()


def test_a_step_that_does_not_divide_a_day_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Panel\.from_long: 1 fault\n  step_minutes: 7: must"):
        Panel.from_long(one_place([1.0], ["2014-06-01"]), timezone="UTC", step_minutes=7)


def test_rules_for_counts_are_refused_for_measurements() -> None:
    with pytest.raises(ConfigError, match="are for counts only"):
        Panel.from_wide(
            pd.DataFrame({"time": ["2014-06-01"], "a": [1.0]}),
            timezone="UTC",
            kind="measurement",
            ambiguous="split",
        )


def test_an_unknown_zone_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'America/New_York'"):
        Panel.from_long(one_place([1.0], ["2014-06-01"]), timezone="America/NewYork")


def test_the_users_tables_are_not_changed(panel: Panel) -> None:
    given = beside(panel)
    frames = {
        "long": panel.to_long(),
        "wide": panel.to_wide(),
        "covariates": given["covariates"],
        "local_covariates": given["local_covariates"],
    }
    before = {name: frame.copy(deep=True) for name, frame in frames.items()}
    Panel.from_long(frames["long"], **given)
    Panel.from_wide(frames["wide"], **given)
    for name, frame in frames.items():
        pd.testing.assert_frame_equal(frame, before[name])


def test_the_users_arrow_table_is_not_changed() -> None:
    values = np.array([1.0, 0.0, 3.0], np.float32)
    table = pa.table({"unique_id": ["a"] * 3, "ds": times("2014-06-01", 3), "y": pa.array(values)})
    made = Panel.from_long(table, timezone="UTC")
    values[:] = 7.0  # its buffer is the table's, and must not be the panel's
    assert made.values.ravel().tolist() == [1.0, 0.0, 3.0]
    assert values.flags.writeable


IDS = st.sampled_from(["a", "b", " ", "y", "007"]) | st.none() | st.integers(0, 3) | st.floats()
WHEN = st.sampled_from(
    [
        "2015-11-01T00:00",
        "2015-11-01T01:00",
        "2015-03-08T02:00",
        "2015-11-01T02:00-05:00",
        "2015-11-01T06:00Z",
        "0001-01-01",
        "9999-12-31T23:59:59",
        "25:61",
        None,
        datetime(2015, 11, 1),
        pd.Timestamp("2015-11-01T01:00Z"),
        pd.NaT,
        7,
    ]
)
NUMBERS = st.floats(width=32) | st.integers() | st.none() | st.sampled_from(["7", "x", True])
ROWS = st.lists(st.tuples(IDS, WHEN, NUMBERS, NUMBERS), max_size=5)


@given(ROWS, st.sampled_from(["null", "split"]), st.sampled_from(["refuse", "null", "next"]))
def test_any_table_makes_a_panel_or_an_error_that_explains(
    rows: list[tuple[Any, ...]], ambiguous: str, nonexistent: str
) -> None:
    frame = pd.DataFrame(rows, columns=["unique_id", "ds", "y", "rain"])
    try:
        made = Panel.from_long(
            frame,
            timezone="America/New_York",
            kind="count",
            ambiguous=ambiguous,
            nonexistent=nonexistent,
        )
    except DataError:
        return
    assert 1 <= len(made.values) <= 2 * len(rows)
    assert np.nanmin(made.values, initial=0.0) >= 0


# ------------------------------------------------------------------------- naive local input


def autumn(**rules: str) -> Panel:
    """Return New York's 2015-11-01 from 24 wall-clock hours of two places, 7 and 10 at 01:00."""
    ds = times("2015-11-01", 24, zone=None)
    frame = pd.DataFrame({"time": ds, "a": np.arange(24.0), "b": np.arange(24.0)})
    frame.loc[1, ["a", "b"]] = [7.0, 10.0]
    weather = pd.DataFrame({"ds": ds, "wind": np.arange(24.0)})
    rain = pd.DataFrame({"unique_id": "a", "ds": ds, "rain": np.arange(24.0)})
    return Panel.from_wide(
        frame, timezone="America/New_York", covariates=weather, local_covariates=rain, **rules
    )


def test_I2_by_default_both_hours_behind_one_local_time_are_missing() -> None:
    made = autumn()
    assert len(made.values) == 25
    assert np.isnan(made.values[[1, 2]]).all()
    assert np.isnan(made.values).sum() == 4
    assert made.counts == {"ambiguous_local_time": 2, "nonexistent_local_time": 0}


def test_I2_split_halves_counts_and_the_first_hour_gets_the_odd_one() -> None:
    made = autumn(ambiguous="split")
    assert made.values[[1, 2]].tolist() == [[4.0, 5.0], [3.0, 5.0]]
    assert made.counts == {"ambiguous_local_time": 2, "nonexistent_local_time": 0}


def test_I2_covariates_hold_in_both_hours() -> None:
    for made in (autumn(), autumn(ambiguous="split")):
        assert made.covariates.values[:4, 0].tolist() == [0.0, 1.0, 1.0, 2.0]
        assert made.local_covariates.values[0, :4, 0].tolist() == [0.0, 1.0, 1.0, 2.0]


def test_I2_the_counts_of_the_clock_change_are_saved(tmp_path: Path) -> None:
    made = autumn().save(tmp_path)
    assert (
        Panel.open(tmp_path).counts
        == made.counts
        == {
            "ambiguous_local_time": 2,
            "nonexistent_local_time": 0,
        }
    )


def spring(value: float, **rules: str) -> Panel:
    """Return New York's 2015-03-08 from 24 wall-clock hours, one of which never was."""
    values = np.arange(100.0, 124.0)
    values[2] = value
    frame = one_place(values, times("2015-03-08", 24, zone=None))
    return Panel.from_long(frame, timezone="America/New_York", **rules)


@pytest.mark.parametrize(
    ("value", "rule", "third", "count"),
    [
        (0.0, "refuse", 103.0, 0),
        (0.0, "null", 103.0, 0),
        (0.0, "next", 103.0, 0),
        (5.0, "null", 103.0, 1),
        (5.0, "next", 108.0, 1),
        (np.nan, "refuse", 103.0, 0),
        (np.nan, "next", 103.0, 0),
    ],
)
def test_I3_the_hour_that_never_was_has_no_row(
    value: float, rule: str, third: float, count: int
) -> None:
    made = spring(value, nonexistent=rule)
    assert len(made.values) == 23
    assert made.values[:3, 0].tolist() == [100.0, 101.0, third]
    assert made.counts == {"ambiguous_local_time": 0, "nonexistent_local_time": count}


def test_I3_by_default_a_value_at_the_hour_that_never_was_is_refused() -> None:
    with pytest.raises(
        DataError, match="1 value at local times that do not occur in America/New_Yor"
    ):
        spring(5.0)


def test_I14_times_with_and_without_an_offset_are_refused_with_counts() -> None:
    ds = ["2014-06-01T00:00Z", "2014-06-01T01:00", "2014-06-01T02:00"]
    message = (
        r"2 times without an offset, 1 with one \(row 1\); give all times with an offset, or none"
    )
    with pytest.raises(DataError, match=message):
        Panel.from_long(one_place([1.0, 2.0, 3.0], ds), timezone="UTC")


def test_I14_offsets_are_honoured_and_the_zone_is_only_for_the_clock() -> None:
    ds = ["2014-06-01T00:00Z", "2014-05-31T21:00-04:00", "2014-06-01T07:30+05:30"]
    made = Panel.from_long(one_place([1.0, 2.0, 3.0], ds), timezone="Asia/Tokyo")
    assert str(made.start) == "2014-06-01T00:00:00"
    assert made.values.ravel().tolist() == [1.0, 2.0, 3.0]
    assert made.counts == {}


# ------------------------------------------------------------------------------------ on disk


def test_a_saved_panel_opens_as_the_same_panel(panel: Panel, tmp_path: Path) -> None:
    made = panel.save(tmp_path / "new" / "folder")
    read = Panel.open(str(tmp_path / "new" / "folder"))
    assert_same(read, panel)
    assert (read.clock, read.counts, read.digest) == (panel.clock, panel.counts, made.digest)


def test_a_panel_saved_twice_has_the_same_bytes(panel: Panel, tmp_path: Path) -> None:
    for name in ("one", "two", "two"):
        panel.save(tmp_path / name)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 7  # values, locations, manifest; covariates and rain: past and ahead


def test_a_recipe_is_kept_with_its_hash(panel: Panel, tmp_path: Path) -> None:
    recipe = Recipe()
    panel.save(tmp_path, recipe)
    manifest = read_manifest(tmp_path)
    assert manifest.recipe == recipe.digest()
    text = (tmp_path / manifest.files["recipe.toml"].name).read_text(encoding="utf-8")
    assert text == recipe.to_toml()
    assert_same(Panel.open(tmp_path), panel)


def test_opening_tells_how_many_bytes_it_verified(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path)
    done: list[int] = []
    Panel.open(tmp_path, progress=done.append)
    data = [path for path in tmp_path.iterdir() if path.name != MANIFEST]
    assert sum(done) == sum(path.stat().st_size for path in data)


def test_an_unverified_panel_is_the_same(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path)
    done: list[int] = []
    assert_same(Panel.open(tmp_path, verify=False, progress=done.append), panel)
    assert done == []


def test_the_order_of_rows_and_columns_does_not_change_the_digest(
    panel: Panel, tmp_path: Path, rounds: Rounds
) -> None:
    given = beside(panel)
    del given["locations"]  # its order is meant
    long, wide = panel.to_long().assign(snow=lambda f: -f["rain"]), panel.to_wide()
    generator = random.Random(0)  # noqa: S311 (which order, not a secret)
    digests: dict[str, set[str | None]] = {"long": set(), "wide": set()}
    for number in range(rounds(5, 200)):
        tables = {name: shuffled(given[name], generator) for name in given if "covar" in name}
        rest = {**given, **tables}
        mixed = Panel.from_long(shuffled(long, generator), **rest)
        digests["long"].add(mixed.save(tmp_path / f"long{number}").digest)
        mixed = Panel.from_wide(shuffled(wide, generator), **rest)
        digests["wide"].add(mixed.save(tmp_path / f"wide{number}").digest)
    assert [len(found) for found in digests.values()] == [1, 1]


def shuffled(frame: pd.DataFrame, generator: random.Random) -> pd.DataFrame:
    rows = generator.sample(range(len(frame)), len(frame))
    columns = generator.sample(list(frame.columns), len(frame.columns))
    return frame.iloc[rows][columns]


def test_every_value_changes_the_digest(panel: Panel, tmp_path: Path) -> None:
    digests = {panel.save(tmp_path / "0").digest}
    values = panel.values.copy()
    values[0, 0] = np.nan
    changed = [
        replace(panel, values=values),
        replace(panel, kind="measurement"),
        replace(panel, start=panel.start + np.timedelta64(3600, "s")),
        replace(panel, clock=Clock("UTC", 60, panel.clock.holidays)),
        replace(panel, clock=Clock(panel.clock.zone)),
        replace(panel, locations=Locations.of_ids(panel.locations.ids)),
    ]
    digests |= {
        each.save(tmp_path / str(number)).digest for number, each in enumerate(changed, start=1)
    }
    assert len(digests) == 1 + len(changed)


def test_S6_missing_and_zero_survive_every_way_out_and_in(panel: Panel, tmp_path: Path) -> None:
    write_table(panel.to_long(), tmp_path / "a.csv")
    write_table(panel.to_wide(), tmp_path / "a.parquet")
    panel.save(tmp_path / "panel")
    given = beside(panel)
    for read in (
        Panel.from_long(tmp_path / "a.csv", **given),
        Panel.from_wide(tmp_path / "a.parquet", **given),
        Panel.open(tmp_path / "panel"),
    ):
        assert np.argwhere(np.isnan(read.values)).tolist() == [[5, 1]]
        assert np.argwhere(read.values == 0).tolist() == [[0, 0], [7, 2], [11, 0]]
        assert np.argwhere(np.signbit(read.values)).tolist() == [[11, 0]]


def test_S6_a_nan_that_is_not_null_never_becomes_a_panel() -> None:
    table = pa.table({"unique_id": ["a"], "ds": ["2014-06-01"], "y": [float("nan")]})
    with pytest.raises(DataError, match=r"1 value NaN \(missing must be null\): row 1 \(nan\)"):
        Panel.from_long(table, timezone="UTC")


def test_S10_a_newer_format_is_refused_by_name(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path)
    manifest = read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_bytes(replace(manifest, version=4).to_bytes())
    message = r"panel written by format 4; this program reads ≤ 3: upgrade forecaster"
    with pytest.raises(ArtifactError, match=message) as caught:
        Panel.open(tmp_path)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"kind": "mood"}, "kind 'mood'.*upgrade"),
        ({"lag_clock": "utc"}, "lag rule 'utc'.*upgrade"),
    ],
)
def test_S10_an_unknown_kind_or_lag_rule_is_named(
    panel: Panel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    about: dict[str, str],
    message: str,
) -> None:
    panel.save(tmp_path)
    manifest = read_manifest(tmp_path)
    newer = replace(manifest, about={**manifest.about, **about})
    monkeypatch.setattr(panel_module, "read_manifest", lambda *_, **__: newer)
    with pytest.raises(ArtifactError, match=message):
        Panel.open(tmp_path)


def test_S10_the_golden_panel_of_format_1_opens() -> None:
    """Compare with what `golden/make_format_1.py` put in."""
    golden = Panel.open(GOLDEN)
    assert golden.digest == "6d9cf189759182f41ce17afc744e85ab93b38e60aa5dd5d90a6c35df958d4812"
    assert (golden.kind, golden.clock.zone) == ("count", "America/New_York")
    assert (str(golden.start), golden.clock.step_minutes) == ("2015-07-03T20:00:00", 60)
    step = np.arange(29)[:, None]
    expected = (10 * step + np.arange(3)).astype(np.float32)
    expected[5, 1] = np.nan
    np.testing.assert_array_equal(golden.values, expected)
    assert golden.values[0, 0] == 0

    assert golden.locations.ids == ("007", "=cmd()", "🚕")
    assert golden.locations.names == ("James", "Fifth & 42nd", "🚕")
    np.testing.assert_array_equal(golden.locations.lat, [40.7527, 40.7536, np.nan])
    np.testing.assert_array_equal(golden.locations.lon, [-73.9772, -73.9832, np.nan])
    assert golden.locations.extra == {"zone": (161, 230, 0)}

    known = np.arange(37.0)
    wind = np.where(known == 31, np.nan, known)
    assert golden.covariates.names == ("temperature", "wind")
    np.testing.assert_array_equal(golden.covariates.values.T, [known / 2 - 3, wind])
    assert golden.local_covariates.names == ("rain",)
    rain = [known / 4, np.full(37, np.nan), known / 4 + 1]
    np.testing.assert_array_equal(golden.local_covariates.values[0].T, rain)

    holidays = golden.clock.holidays
    assert holidays is not None
    assert (holidays.country, holidays.first_year, holidays.last_year) == ("US", 2015, 2025)
    on_holiday = golden.clock.calendar(golden.known_times)[:, -1]
    assert on_holiday.tolist() == [1.0] * 32 + [0.0] * 5  # July 4 ends 32 h after 16:00 EDT


def test_S11_a_folder_that_may_not_be_written_keeps_its_panel(
    panel: Panel, tmp_path: Path
) -> None:
    values = np.ones((STEPS, PLACES), np.float32)
    old = replace(panel, values=values).save(tmp_path / "old")
    (tmp_path / "empty").mkdir()
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    for folder in ("old", "empty"):
        (tmp_path / folder).chmod(0o555)
        code, message = save_as_nobody(panel, tmp_path, folder)
        (tmp_path / folder).chmod(0o755)
        assert code == 5
        assert message.startswith(f"RunError {folder}: cannot be written (Permission denied)")
        assert "nothing was published" in message
    after = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    assert after == before
    assert Panel.open(tmp_path / "old").digest == old.digest


def save_as_nobody(panel: Panel, inside: Path, folder: str) -> tuple[int, str]:
    """Save in a child that is not root, and return its exit code and message."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        child = os.fork()
    if not child:
        code, message = 0, "saved"
        try:
            os.chdir(inside)  # folders above may be closed to nobody
            if os.getuid() == 0:
                os.setuid(NOBODY)
            panel.save(folder)
        except RunError as error:
            code, message = error.exit_code, f"{type(error).__name__} {error}"
        except BaseException as error:  # told to the parent
            code, message = 1, repr(error)
        os.write(writing, message.encode())
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        message = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message


# -------------------------------------------------------------------------- counts and names


@pytest.mark.parametrize(
    ("count", "kept"),
    [
        (255, 255),
        (256, 256),
        (32_767, 32_767),
        (32_768, 32_768),
        (65_535, 65_535),
        (65_536, 65_536),
        (2**24, 2**24),
        (2**24 + 1, 2**24),  # a float32 has 24 bits: beyond them only even numbers, rounded
        (2**24 + 2, 2**24 + 2),
    ],
)
def test_I20_a_large_count_does_not_overflow(tmp_path: Path, count: int, kept: int) -> None:
    frame = one_place([count, 0, count], times("2014-06-01", 3))
    Panel.from_long(frame, timezone="UTC").save(tmp_path)
    assert Panel.open(tmp_path).values.ravel().tolist() == [kept, 0, kept]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_I20_counts_of_a_narrow_type_are_added_without_overflow(dtype: type) -> None:
    largest = np.iinfo(dtype).max
    values = np.array([1, 1, largest, largest, 1], dtype=dtype)  # the third hour never was
    frame = one_place(values, times("2015-03-08", 5, zone=None))
    made = Panel.from_long(frame, timezone="America/New_York", nonexistent="next")
    assert made.values[2, 0] == 2 * int(largest)


def test_I20_a_negative_count_is_refused_by_row() -> None:
    frame = one_place([5, -1, 0], times("2014-06-01", 3))
    message = r"column 'y': 1 value below 0, impossible for a count: row 2 \(-1\)"
    with pytest.raises(DataError, match=message) as caught:
        Panel.from_long(frame, timezone="UTC", kind="count")
    assert caught.value.exit_code == 3
    assert Panel.from_long(frame, timezone="UTC", kind="measurement").values[1, 0] == -1


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=13).filter(
    lambda name: name.strip() == name == visible(name) and name not in {*RESERVED, *NULL_TEXTS}
)
WILD = [
    "=cmd()",
    "<script>alert(1)</script>",
    "🚕🏳️‍🌈",
    'a "b"',
    "a,b",
    "'; DROP",
    "../x",
    "+1",
    "007",
]


def of_names(ids: list[str], names: list[str], folder: Path) -> Panel:
    """Return a panel whose locations come from a CSV."""
    columns = {identity: np.arange(5.0) + n for n, identity in enumerate(ids)}
    wide = pd.concat(
        [pd.DataFrame({"time": times("2014-06-01", 5)}), pd.DataFrame(columns)], axis=1
    )
    write_table(pd.DataFrame({"id": ids, "name": names}), folder / "places.csv")
    made = Panel.from_wide(wide, timezone="UTC", locations=folder / "places.csv")
    assert (made.locations.ids, made.locations.names) == (tuple(ids), tuple(names))
    return made


def assert_tables_keep(made: Panel, folder: Path, suffix: str) -> None:
    write_table(made.to_long(), folder / f"long.{suffix}")
    write_table(made.to_wide(), folder / f"wide.{suffix}")
    given: dict[str, Any] = {"timezone": "UTC", "locations": made.locations}
    assert_same(Panel.from_long(folder / f"long.{suffix}", **given), made)
    assert_same(Panel.from_wide(folder / f"wide.{suffix}", **given), made)


def test_I23_wild_names_come_back_from_panel_and_tables(tmp_path: Path) -> None:
    made = of_names(WILD, WILD[::-1], tmp_path)
    made.save(tmp_path / "panel")
    assert_same(Panel.open(tmp_path / "panel"), made)
    assert_tables_keep(made, tmp_path, "csv")
    assert_tables_keep(made, tmp_path, "parquet")


@given(names=st.lists(NAMES, min_size=1, max_size=3, unique=True))
def test_I23_any_name_comes_back_from_the_cells_and_the_header_of_a_csv(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    made = of_names(names, names[::-1], folder)
    write_table(made.to_wide(), folder / "wide.csv")
    places = made.locations
    assert_same(Panel.from_wide(folder / "wide.csv", timezone="UTC", locations=places), made)


@pytest.mark.parametrize("name", sorted({*NULL_TEXTS} - {""}))
def test_I23_an_id_that_a_csv_cannot_tell_from_nothing_is_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.csv").write_text(f"unique_id,ds,y\n{name},2014-06-01,1\n")
    with pytest.raises(DataError, match="1 row without an id: row 1"):
        Panel.from_long(tmp_path / "a.csv", timezone="UTC")


def test_I23_a_csv_keeps_ids_such_as_007_apart_from_7(tmp_path: Path) -> None:
    rows = "007,2014-06-01,1\n7,2014-06-01,2\n0x7,2014-06-01,3\n"
    (tmp_path / "a.csv").write_text("unique_id,ds,y\n" + rows)
    made = Panel.from_long(tmp_path / "a.csv", timezone="UTC")
    assert made.locations.ids == ("007", "0x7", "7")
    assert made.values.tolist() == [[1.0, 3.0, 2.0]]


def test_I23_doubled_ids_are_refused() -> None:
    wide = pd.DataFrame([["2014-06-01", 1.0, 2.0]], columns=["time", "a", "a"])
    with pytest.raises(DataError, match="columns given twice: a"):
        Panel.from_wide(wide, timezone="UTC")
    places = pd.DataFrame({"id": ["a", "a"]})
    with pytest.raises(DataError, match="1 location id given twice: a"):
        Panel.from_long(one_place([1.0], ["2014-06-01"]), timezone="UTC", locations=places)


def test_I23_one_location_and_one_step_are_enough(tmp_path: Path) -> None:
    Panel.from_long(one_place([7], ["2014-06-01"]), timezone="UTC").save(tmp_path)
    assert Panel.open(tmp_path).values.tolist() == [[7.0]]


def test_I23_no_location_is_refused() -> None:
    with pytest.raises(DataError, match="1 step × 0 locations: empty"):
        Panel.from_wide(pd.DataFrame({"time": ["2014-06-01"]}), timezone="UTC")


# ------------------------------------------------------------------------ selecting locations


@given(order=st.permutations(range(PLACES)), count=st.integers(1, PLACES))
def test_a_selection_of_a_selection_is_the_selection(order: list[int], count: int) -> None:
    wide = pd.DataFrame({"time": times("2014-06-01", 7), **{i: np.arange(7.0) for i in "abc"}})
    whole = Panel.from_wide(wide.assign(b=7.0), timezone="UTC")
    ids = tuple("abc"[n] for n in order)
    assert_same(whole.select(ids).select(ids[:count]), whole.select(ids[:count]))
    assert_same(whole.select(ids).select(whole.locations.ids), whole)


def test_a_selection_keeps_what_holds_everywhere(panel: Panel) -> None:
    some = panel.select(("z",))
    assert (some.start, some.clock, some.kind) == (panel.start, panel.clock, panel.kind)
    assert some.counts == panel.counts
    assert some.covariates is panel.covariates
    assert some.local_covariates.names == panel.local_covariates.names


def test_a_selection_can_be_saved_and_opened(panel: Panel, tmp_path: Path) -> None:
    some = panel.select(("z", "007"))
    some.save(tmp_path)
    assert_same(Panel.open(tmp_path), some)


def test_a_selection_of_nothing_or_of_one_place_twice_is_refused(panel: Panel) -> None:
    with pytest.raises(DataError, match="29 steps × 0 locations: empty"):
        panel.select(())
    with pytest.raises(DataError, match="1 location id given twice: z"):
        panel.select(("z", "z"))


def test_a_panel_introduces_itself_in_one_line(panel: Panel) -> None:
    span = "2014-07-03T18:00:00-04:00 … 2014-07-04T22:00:00-04:00"
    meaning = "America/New_York, 60 min, count"
    assert repr(panel) == f"Panel(29 steps × 3 locations, {span}, {meaning})"


def test_local_times_carry_the_offset_through_a_clock_change(panel: Panel) -> None:
    times = np.array(["2015-11-01T05", "2015-11-01T06", "2015-11-01T07"], dtype="datetime64[s]")
    assert local_texts(panel, times) == [
        "2015-11-01T01:00:00-04:00",
        "2015-11-01T01:00:00-05:00",
        "2015-11-01T02:00:00-05:00",
    ]


def test_half_hour_offsets_are_written_right(panel: Panel) -> None:
    india = replace(panel, clock=replace(panel.clock, zone="Asia/Kolkata"))
    times = np.array(["2015-11-01T05"], dtype="datetime64[s]")
    assert local_texts(india, times) == ["2015-11-01T10:30:00+05:30"]
