from collections.abc import Callable
from dataclasses import Field, fields, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import torch

from forecaster.clock.clock import CALENDAR_COLUMNS, Clock
from forecaster.config import LagConfig, Season
from forecaster.estimators.forecast_inputs import look_ahead
from forecaster.panel.fill import Fill, fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.panel.vintages import sort_vintages
from forecaster.windows.batches import Batch, Batches
from forecaster.windows.scaling import Scaler, fit_scaler

NAN = np.float32(np.nan)
# M = 617, S = 631, N = 7, P = 3 + 32, C = 1 + 2, L = 13, K = 5. The first origin with a week of
# history is 168, the last with known targets 611, the last of all 616; clocks change at 290, and
# November 11 begins at 529.
ORIGINS = np.array([168, 611, 290, 291, 169, 616, 531, 314, 289, 613, 430])  # B = 11


@pytest.fixture(scope="module")
def scaler(panel: Panel, train: np.ndarray) -> Scaler:
    return fit_scaler(panel, train)


@pytest.fixture(scope="module")
def fill(panel: Panel, train: np.ndarray) -> Fill:
    return fit_fill(panel, train)


@pytest.fixture(scope="module")
def batch(panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig) -> Batch:
    return Batches(panel, scaler, fill, lags).cut(ORIGINS)


@cache
def zone_of(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file)


def local_time(panel: Panel, step: int) -> datetime:
    """Return what the clock on the wall shows, by Python's own zones."""
    seconds = int(panel.start.astype(int)) + 3600 * step
    return datetime.fromtimestamp(seconds, zone_of(panel.clock.zone))


def filled(panel: Panel, layer: np.ndarray, means: np.ndarray, step: int, column: int) -> float:
    """Return a value, or what stands for it where it is missing."""
    value = layer[step, column]
    local = local_time(panel, step)
    return float(means[24 * local.weekday() + local.hour, column] if np.isnan(value) else value)


def history_of(panel: Panel, lags: LagConfig, origin: int) -> list[int]:
    back = panel.clock.lag_steps(lags, panel.times[origin : origin + 1])[0]
    return [origin - int(lag) for lag in back]


def assert_close(found: torch.Tensor, expected: list[float]) -> None:
    np.testing.assert_allclose(found.numpy().ravel(), expected, rtol=2e-6, atol=2e-6)


# -------------------------------------------------------- every entry, looked up one by one


def tensors_of(batch: Batch) -> list[Field[Any]]:
    """The fields of a batch; it knows who is open only where hours are."""
    return [field for field in fields(batch) if getattr(batch, field.name) is not None]


def test_a_batch_is_laid_out_location_first(batch: Batch) -> None:
    shapes = {field.name: tuple(getattr(batch, field.name).shape) for field in tensors_of(batch)}
    assert shapes == {
        "signal": (7, 3, 11, 13),
        "auxiliary": (35, 11, 13),
        "next_auxiliary": (35, 11, 5),
        "next_local": (7, 2, 11, 5),
        "next_values": (7, 11, 5),
        "target": (7, 11, 5),
        "observed": (7, 11, 5),
        "slots": (11, 13),
        "next_slots": (11, 5),
    }
    for field in tensors_of(batch):
        assert getattr(batch, field.name).is_contiguous()


def test_slots_are_the_steps_of_the_week_of_past_and_coming_steps(
    batch: Batch, panel: Panel, lags: LagConfig
) -> None:
    for row, origin in enumerate(ORIGINS):
        ahead = range(origin + 1, origin + 6)
        for steps, slots in (
            (history_of(panel, lags, origin), batch.slots),
            (ahead, batch.next_slots),
        ):
            times = panel.clock.instants(panel.start, np.array(steps))
            assert slots[row].tolist() == panel.clock.slot_of_season(times).tolist()


def test_the_signal_holds_the_scaled_values_of_the_lags(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    expected = [
        (filled(panel, panel.values, fill.values, step, n) - scaler.values.mean[n])
        / scaler.values.deviation[n]
        for n in range(7)
        for origin in ORIGINS.tolist()
        for step in history_of(panel, lags, origin)
    ]
    assert_close(batch.signal[:, 0], expected)


def test_the_next_values_are_scaled_and_filled_and_0_where_nobody_knows_them(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill
) -> None:
    expected = [
        (filled(panel, panel.values, fill.values, step, n) - scaler.values.mean[n])
        / scaler.values.deviation[n]
        if step < len(panel.values)
        else 0.0
        for n in range(7)
        for origin in ORIGINS.tolist()
        for step in range(origin + 1, origin + 6)
    ]
    assert_close(batch.next_values, expected)


def test_further_channels_hold_the_scaled_covariates_of_each_location(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    scale, layers = scaler.local_covariates, panel.local_covariates.values
    expected = [
        (filled(panel, layers[q], fill.local_covariates[q], step, n) - scale.mean[q])
        / scale.deviation[q]
        for n in range(7)
        for q in range(2)
        for origin in ORIGINS.tolist()
        for step in history_of(panel, lags, origin)
    ]
    assert_close(batch.signal[:, 1:], expected)


def weather_at(panel: Panel, scaler: Scaler, fill: Fill, p: int, step: int) -> float:
    value = filled(panel, panel.covariates.values, fill.covariates, step, p)
    return float((value - scaler.covariates.mean[p]) / scaler.covariates.deviation[p])


def test_the_auxiliary_part_begins_with_the_scaled_weather_of_the_lags(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    expected = [
        weather_at(panel, scaler, fill, p, step)
        for p in range(3)
        for origin in ORIGINS.tolist()
        for step in history_of(panel, lags, origin)
    ]
    assert_close(batch.auxiliary[:3], expected)


def test_the_weather_ahead_is_that_of_the_steps_after_the_origin(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill
) -> None:
    expected = [
        weather_at(panel, scaler, fill, p, origin + k)
        for p in range(3)
        for origin in ORIGINS.tolist()
        for k in (1, 2, 3, 4, 5)
    ]
    assert_close(batch.next_auxiliary[:3], expected)


def test_the_covariates_of_locations_ahead_are_those_of_the_steps_after_the_origin(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill
) -> None:
    scale, layers = scaler.local_covariates, panel.local_covariates.values
    expected = [
        (filled(panel, layers[q], fill.local_covariates[q], origin + k, n) - scale.mean[q])
        / scale.deviation[q]
        for n in range(7)
        for q in range(2)
        for origin in ORIGINS.tolist()
        for k in (1, 2, 3, 4, 5)
    ]
    assert_close(batch.next_local, expected)


def calendar_of(local: datetime) -> dict[str, float]:
    """Return the columns that are not 0 at a local time."""
    day = local.strftime("%A").lower()
    shown = {f"weekday_{day}": 1.0, f"hour_{local.hour:02d}": 1.0}
    return {**shown, "holiday": 1.0} if (local.month, local.day) == (11, 11) else shown


def test_the_auxiliary_part_ends_with_the_calendar(
    batch: Batch, panel: Panel, lags: LagConfig
) -> None:
    for b, origin in enumerate(ORIGINS.tolist()):
        past, ahead = history_of(panel, lags, origin), range(origin + 1, origin + 6)
        for part, steps in ((batch.auxiliary, past), (batch.next_auxiliary, ahead)):
            for position, step in enumerate(steps):
                column = part[3:, b, position].tolist()
                shown = {n: v for n, v in zip(CALENDAR_COLUMNS, column, strict=True) if v}
                assert shown == calendar_of(local_time(panel, step))
    assert batch.next_auxiliary[-1].any()  # a holiday is among them


def test_targets_are_in_the_panels_units_and_masked_where_missing(
    batch: Batch, panel: Panel
) -> None:
    for n in range(7):
        for b, origin in enumerate(ORIGINS.tolist()):
            for k in range(5):
                step = origin + 1 + k
                value = panel.values[step, n] if step < len(panel.values) else NAN
                assert bool(batch.observed[n, b, k]) is not bool(np.isnan(value))
                assert batch.target[n, b, k] == (0.0 if np.isnan(value) else value)
    assert not batch.observed.all()
    assert batch.observed.any()


def test_history_is_oldest_first_and_ends_at_the_origin() -> None:
    panel = numbered(997, 2)
    scaler = fit_scaler(panel, np.arange(997) < 2)  # two steps: nearly the values themselves
    batches = Batches(panel, scaler, fit_fill(panel, np.ones(997, dtype=bool)), LagConfig())
    steps = batches.cut(np.array([700, 991])).signal[0, 0] * scaler.values.deviation[0]
    steps = (steps + scaler.values.mean[0]).round().to(torch.int64)
    assert steps.shape == (2, 76)
    assert (steps.diff(dim=1) >= 0).all()
    assert steps[:, -6:].tolist() == [list(range(695, 701)), list(range(986, 992))]
    assert steps[:, 0].tolist() == [700 - 673, 991 - 673]  # section 3.1.2: T = 674 hours


# ------------------------------------------------------------------- nothing from the future


def numbered(steps: int, places: int) -> Panel:
    """Return a panel in UTC in which every value is the number of its step."""
    values = np.repeat(np.arange(steps, dtype=np.float32)[:, None], places, axis=1)
    return Panel(
        values=values,
        start=np.datetime64("2015-01-01T00:00:00", "s"),
        clock=Clock("UTC"),
        kind="measurement",
        locations=Locations.of_ids(f"p{n}" for n in range(places)),
        covariates=Covariates((), np.empty((steps, 0), dtype=np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, steps, places), dtype=np.float32)),
    )


def with_arrays(panel: Panel, values: np.ndarray, weather: np.ndarray, own: np.ndarray) -> Panel:
    """Return a panel of the same time axis that holds other numbers."""
    return replace(
        panel,
        values=values,
        kind="measurement",
        locations=Locations.of_ids(f"p{n}" for n in range(values.shape[1])),
        covariates=Covariates(tuple(f"w{p}" for p in range(weather.shape[1])), weather),
        local_covariates=LocalCovariates(tuple(f"o{q}" for q in range(len(own))), own),
    )


def noise(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Return what no model may see: holes, zeros and absurd values."""
    return generator.choice(np.array([NAN, 0, 1e6], np.float32), shape)


@pytest.mark.parametrize("seed", range(5))  # 5 · 200 origins
def test_P3_nothing_after_the_origin_changes_an_input_but_covariates_known_ahead(
    panel: Panel, lags: LagConfig, seed: int
) -> None:
    # One place 200 times: copy b, and column b of the weather, are changed after origin b.
    M, S, B, K = 1_301, 1_327, 200, lags.horizon
    generator = np.random.default_rng(seed)
    origins = generator.permutation(np.arange(169, M))[:B]
    values, weather, own = (
        np.repeat(generator.normal(size=(steps, 1)).astype(np.float32), B, axis=1)
        for steps in (M, S, S)
    )
    for array in (values, weather, own):
        array[generator.random(len(array)) < 0.1] = NAN
    after, beyond = (np.arange(S)[:, None] > origins + ahead for ahead in (0, K))
    same = with_arrays(panel, values, weather, own[None])
    other = with_arrays(
        panel,
        np.where(after[:M], noise(generator, M, B), values),
        np.where(beyond, noise(generator, S, B), weather),
        np.where(beyond, noise(generator, S, B), own)[None],
    )
    train = np.ones(M, dtype=bool)
    learned = fit_scaler(same, train), fit_fill(same, train), lags
    one, two = (Batches(each, *learned).cut(origins) for each in (same, other))
    copy = np.arange(B)
    for name in ("auxiliary", "next_auxiliary"):
        before, now = getattr(one, name), getattr(two, name)
        assert torch.equal(before[copy, copy], now[copy, copy]), name
        assert torch.equal(before[B:], now[B:]), f"{name}: the calendar"
    for name in ("signal", "next_local"):
        before, now = getattr(one, name), getattr(two, name)
        assert torch.equal(before[copy, :, copy], now[copy, :, copy]), name
    changed = one.target[copy, copy] != two.target[copy, copy]
    assert changed.sum() > B  # what was changed is there to be seen


def test_P3_no_input_is_changed_by_what_any_location_does_after_the_origin(
    panel: Panel,
    scaler: Scaler,
    fill: Fill,
    lags: LagConfig,
    rounds: Callable[[int, int], int],
) -> None:
    generator = np.random.default_rng(0)
    batches = Batches(panel, scaler, fill, lags)
    for origin in generator.integers(168, 617, rounds(50, 1_000)).tolist():
        values = panel.values.copy()
        values[origin + 1 :] = noise(generator, 616 - origin, 7)
        other = Batches(replace(panel, values=values, kind="measurement"), scaler, fill, lags)
        one, two = (each.cut(np.array([origin])) for each in (batches, other))
        for name in ("signal", "auxiliary", "next_auxiliary", "next_local"):
            assert torch.equal(getattr(one, name), getattr(two, name)), (name, origin)


def test_P3_covariates_known_ahead_are_seen_at_their_step_and_only_there(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    weather, own = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    weather[403, 0], own[1, 404, 6] = 99.0, 99.0
    other = replace(
        panel,
        covariates=Covariates(panel.covariates.names, weather),
        local_covariates=LocalCovariates(panel.local_covariates.names, own),
    )
    origins = np.array([400])
    one, two = (Batches(p, scaler, fill, lags).cut(origins) for p in (panel, other))
    assert torch.equal(one.signal, two.signal)
    assert torch.equal(one.auxiliary, two.auxiliary)
    changed = (one.next_auxiliary != two.next_auxiliary).nonzero().tolist()
    assert changed == [[0, 0, 2]]  # temperature, three steps ahead
    assert (one.next_local != two.next_local).nonzero().tolist() == [[6, 1, 0, 3]]


# -------------------------------------------------------------------------------- the edges


def test_beyond_the_last_value_a_live_origin_has_inputs_and_no_targets(batch: Batch) -> None:
    live = ORIGINS.tolist().index(616)
    assert not batch.observed[:, live].any()
    assert (batch.target[:, live] == 0).all()
    assert batch.next_auxiliary[3:, live].sum(dim=0).tolist() == [2.0] * 5  # a weekday, an hour


def test_steps_ahead_that_no_covariate_reaches_read_as_the_training_mean(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    short = replace(
        panel,
        covariates=Covariates(panel.covariates.names, panel.covariates.values[:619]),
        local_covariates=LocalCovariates(
            panel.local_covariates.names, panel.local_covariates.values[:, :619]
        ),
    )
    origins = np.array([616])
    one, two = (Batches(p, scaler, fill, lags).cut(origins) for p in (panel, short))
    assert torch.equal(one.next_auxiliary[:, :, :2], two.next_auxiliary[:, :, :2])
    assert (two.next_auxiliary[:3, :, 2:] == 0).all()
    assert (two.next_local[..., 2:] == 0).all()
    assert torch.equal(one.next_auxiliary[3:], two.next_auxiliary[3:])  # the calendar goes on


def test_a_panel_without_covariates_has_the_calendar_alone() -> None:
    panel = numbered(199, 3)
    train = np.ones(199, dtype=bool)
    lags = LagConfig(recent=2, seasons=(Season(days=1, count=1, before=1, after=1),), horizon=7)
    batch = Batches(panel, fit_scaler(panel, train), fit_fill(panel, train), lags).cut(
        np.array([100, 198])
    )
    assert batch.signal.shape == (3, 1, 2, 5)
    assert batch.auxiliary.shape == (32, 2, 5)
    assert batch.next_local.shape == (3, 0, 2, 7)
    assert batch.target[0].tolist() == [list(map(float, range(101, 108))), [0.0] * 7]


def test_an_origin_may_come_twice_and_none_is_a_batch_too(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    batches = Batches(panel, scaler, fill, lags)
    twice = batches.cut(np.array([300, 300]))
    assert torch.equal(twice.signal[:, :, 0], twice.signal[:, :, 1])
    assert batches.cut(np.array([], dtype=np.int64)).signal.shape == (7, 3, 0, 13)


@pytest.mark.parametrize("origin", [167, 0, -1])
def test_an_origin_too_early_for_its_history_is_refused(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig, origin: int
) -> None:
    batches = Batches(panel, scaler, fill, lags)
    with pytest.raises(ValueError, match="too early for its history; take them from cut_windows"):
        batches.cut(np.array([300, origin, 301]))


def test_an_origin_past_the_last_value_is_refused(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    with pytest.raises(IndexError):
        Batches(panel, scaler, fill, lags).cut(np.array([617]))


def test_the_panel_itself_is_not_changed(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    before = panel.values.copy()
    batch = Batches(panel, scaler, fill, lags).cut(ORIGINS)
    batch.target.fill_(-1)
    batch.signal.fill_(-1)
    np.testing.assert_array_equal(panel.values, before)


def test_every_tensor_lies_on_the_device_that_was_asked_for(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    batch = Batches(panel, scaler, fill, lags, device="meta").cut(ORIGINS)
    for field in tensors_of(batch):
        assert getattr(batch, field.name).device.type == "meta"


def test_a_numbered_cpu_is_a_cpu(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    there = Batches(panel, scaler, fill, lags, device="cpu:0").cut(ORIGINS)
    for field in tensors_of(batch):
        assert torch.equal(getattr(there, field.name), getattr(batch, field.name))


def test_a_batch_larger_than_what_is_turned_at_a_time_is_the_same_batch(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    batches = Batches(panel, scaler, fill, lags)
    origins = np.arange(168, 617)  # 449 · 13 steps of history
    whole = batches.cut(origins)
    for b in (0, 38, 39, 40, 448):
        alone = batches.cut(origins[b : b + 1])
        assert torch.equal(whole.signal[:, :, b], alone.signal[:, :, 0])
        assert torch.equal(whole.auxiliary[:, b], alone.auxiliary[:, 0])
        assert torch.equal(whole.target[:, b], alone.target[:, 0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_batches_on_the_gpu_equal_those_on_the_cpu(
    batch: Batch, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    there = Batches(panel, scaler, fill, lags, device="cuda").cut(ORIGINS)
    for field in tensors_of(batch):
        assert getattr(there, field.name).device.type == "cuda"
        assert torch.equal(getattr(there, field.name).cpu(), getattr(batch, field.name))


def test_P3_past_only_covariates_ahead_are_those_of_the_origin(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig, batch: Batch
) -> None:
    shared, local = panel.covariates.names[1], panel.local_covariates.names[0]
    held = Batches(panel.with_past_only((shared, local)), scaler, fill, lags)
    seen = held.cut(ORIGINS)
    origin = lags.length - 1  # the last step of the history
    for k in range(lags.horizon):
        assert torch.equal(seen.next_auxiliary[1, :, k], seen.auxiliary[1, :, origin])
        assert torch.equal(seen.next_local[:, 0, :, k], seen.signal[:, 1, :, origin])
    assert torch.equal(seen.next_auxiliary[[0, 2]], batch.next_auxiliary[[0, 2]])
    assert torch.equal(seen.next_local[:, 1], batch.next_local[:, 1])
    assert torch.equal(seen.target, batch.target)


@pytest.mark.parametrize("garbage", [np.nan, 1e9])
def test_P3_past_only_covariates_after_the_origin_change_no_input(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig, garbage: float
) -> None:
    names = (*panel.covariates.names, *panel.local_covariates.names)
    panel, origin = panel.with_past_only(names), 430
    shared, local = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    shared[origin + 1 :], local[:, origin + 1 :] = garbage, garbage
    changed = panel.with_data(None, shared, local)
    before, after = (
        Batches(p, scaler, fill, lags).cut(np.array([origin])) for p in (panel, changed)
    )
    assert all(
        torch.equal(getattr(before, f.name), getattr(after, f.name)) for f in tensors_of(before)
    )


def test_covariates_ahead_are_the_vintages_known_at_each_origin(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig
) -> None:
    generator, S = np.random.default_rng(5), len(panel.covariates.values)
    steps = np.repeat(np.arange(S), 3)
    known = steps - np.tile([4, 2, 1], S)
    name = panel.covariates.names[1]
    values = generator.normal(size=(3 * S, 1)).astype(np.float32)
    vintages = sort_vintages((name,), steps, known, values)
    dated = replace(panel, covariates=replace(panel.covariates, vintages=vintages))
    before, after = (Batches(p, scaler, fill, lags).cut(ORIGINS) for p in (panel, dated))
    covariates, _ = look_ahead(fill_missing(dated, fill), ORIGINS, lags.horizon)
    scaled = scaler.covariates.apply(covariates)[..., 1]
    assert np.array_equal(after.next_auxiliary[1].numpy(), scaled)
    others = [n for n in range(len(before.next_auxiliary)) if n != 1]
    assert torch.equal(before.next_auxiliary[others], after.next_auxiliary[others])
    assert torch.equal(before.auxiliary, after.auxiliary)  # the past is as it ended
    seen = vintages.seen(np.array([290, 290]), np.array([292, 293]))[:, 0]
    assert np.array_equal(covariates[2, 1:3, 1], seen)


CHOSEN = torch.tensor([1, 2, 4, 5]), torch.tensor([2, 5])


@pytest.mark.parametrize("by_location", [True, False])
def test_batches_of_some_locations_are_parts_of_those_of_all(
    panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig, *, by_location: bool
) -> None:
    whole = Batches(panel, scaler, fill, lags, masks=True).cut(ORIGINS)
    batches = Batches(panel, scaler, fill, lags, masks=True, by_location=by_location)
    for seen, targets in (CHOSEN, (torch.arange(7), torch.arange(7)), (None, None)):
        part = batches.cut(ORIGINS, (seen, targets))
        for name, all_of in vars(whole).items():
            numbers = seen if name == "signal" else targets
            by_place = all_of is not None and len(all_of) == 7 and numbers is not None
            expected = all_of[numbers] if by_place else all_of
            torch.testing.assert_close(
                getattr(part, name), expected, rtol=0, atol=0, equal_nan=True
            )


def test_by_location_opening_hours_and_what_has_none_are_as_by_step(
    panel: Panel, lags: LagConfig
) -> None:
    hours = ("Mo-Su 06:00-23:00",) * 4 + ("",) * 3
    metro = replace(panel, locations=replace(panel.locations, hours=hours))
    bare = replace(panel, local_covariates=LocalCovariates.empty(631, 7))
    for each in (metro, bare):
        learned = fit_scaler(each, np.ones(617, dtype=bool)), fit_fill(each, np.ones(617, bool))
        one, two = (
            Batches(each, *learned, lags, masks=True, by_location=by_location).cut(ORIGINS, CHOSEN)
            for by_location in (True, False)
        )
        for name, expected in vars(two).items():
            torch.testing.assert_close(
                getattr(one, name), expected, rtol=0, atol=0, equal_nan=True
            )
