"""A scan for anomalies: values compared with the median of their hour of the week."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import count_of
from forecaster.panel.panel import Panel

UNLIKELY_ZEROS = 50.0  # a run of zeros where at least this sum is expected is reported
OUTLIER_SCALES = 10.0  # robust deviations from the expected value
STUCK_STEPS = 24  # a measurement that is constant this long is reported
BLOCK = 64  # locations at a time, to bound memory
MAD_TO_DEVIATION = 1.4826  # of a normal distribution

Block = Float32[np.ndarray, "K M"]  # K locations, all steps


@dataclass
class Anomalies:
    """The anomalies of a panel; each entry is its size and its text."""

    usual_total: Float64[np.ndarray, " M"]  # expected sum of the locations observed at a step
    zeros: list[tuple[float, str]] = field(default_factory=list)
    stuck: list[tuple[float, str]] = field(default_factory=list)
    outliers: list[tuple[float, str]] = field(default_factory=list)
    outlier_count: int = 0


def find_anomalies(panel: Panel, progress: Callable[[int], None] | None = None) -> Anomalies:
    """Return unlikely zeros, constant runs and outliers."""
    slots = panel.clock.slot_of_season(panel.times)
    anomalies = Anomalies(usual_total=np.zeros(len(panel.values)))
    week = max(7 * 24 * 60 // panel.clock.step_minutes, 1)
    for start in range(0, panel.values.shape[1], BLOCK):
        block = np.ascontiguousarray(panel.values[:, start : start + BLOCK].T)
        usual = _slot_medians(block, slots, panel.clock.season_slots)[:, slots]
        if panel.kind == "count":
            at_the_time = usual * _level(block, usual, week)
            anomalies.usual_total += np.nan_to_num(
                np.where(np.isfinite(block), at_the_time, 0)
            ).sum(axis=0)
            _find_outliers(panel, anomalies, start, block, at_the_time)
            _find_zeros(panel, anomalies, start, block, (at_the_time, usual))
        else:
            _find_outliers(panel, anomalies, start, block, usual)
            _find_stuck(panel, anomalies, start, block)
        if progress is not None:
            progress(len(block))
    return anomalies


def true_runs(where: Bool[np.ndarray, " M"]) -> Iterator[tuple[int, int]]:
    """Yield start and end (exclusive) of every run of true values."""
    edges = np.flatnonzero(np.diff(where, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def location_label(panel: Panel, location: int) -> str:
    """Return the name of a location, with its id if that differs."""
    identity, name = panel.locations.ids[location], panel.locations.names[location]
    return identity if identity == name else f"{name} ({identity})"


def local_time_text(panel: Panel, step: int) -> str:
    """Return the wall-clock time of a step, to the minute."""
    local = panel.clock.local(panel.times[step : step + 1])[0]
    return str(local.astype("datetime64[m]")).replace("T", " ")


def _slot_medians(
    block: Block, slots: Int64[np.ndarray, " M"], count: int
) -> Float32[np.ndarray, "K W"]:
    medians = np.full((len(block), count), np.nan, dtype=np.float32)
    for slot in np.unique(slots):
        medians[:, slot] = _median(block[:, slots == slot])
    return medians


def _median(values: Block) -> Float32[np.ndarray, " K"]:
    """Return the median of the observed values of each row, NaN without any."""
    ordered = np.sort(values, axis=1)  # NaN goes last
    counts = np.isfinite(values).sum(axis=1)
    row = np.arange(len(values))
    low, high = ordered[row, np.maximum(counts - 1, 0) // 2], ordered[row, counts // 2]
    return (low + (high - low) / 2).astype(np.float32) if values.shape[1] > 1 else ordered[:, 0]


def _level(block: Block, usual: Block, week: int) -> Block:
    """Return the level of the four weeks around each step, relative to the whole series.

    Demand grows, and it collapsed in 2020: the median of all years does not fit every month.
    """
    observed = np.isfinite(block) & np.isfinite(usual)
    sums = [
        np.cumsum(
            np.pad(np.where(observed, values, 0), ((0, 0), (1, 0))), axis=1, dtype=np.float64
        )
        for values in (block, usual)
    ]
    steps = np.arange(block.shape[1])
    first, end = np.maximum(steps - 2 * week, 0), np.minimum(steps + 2 * week, len(steps) - 1) + 1
    nearby, overall = (total[:, end] - total[:, first] for total in sums)
    return np.where(overall > 0, nearby / np.maximum(overall, 1e-9), 1).astype(np.float32)


def _find_outliers(
    panel: Panel, anomalies: Anomalies, start: int, block: Block, usual: Block
) -> None:
    """Add values far from the expected one; counts on a square-root scale (Poisson noise)."""
    if panel.kind == "count":
        residual, floor = 2 * (np.sqrt(block) - np.sqrt(usual)), 1.0
        residual[block == 0] = np.nan  # zeros have their own check
    else:
        residual, floor = block - usual, 1e-6 * (1.0 + float(np.nanmax(np.abs(block), initial=0)))
    scale = np.maximum(MAD_TO_DEVIATION * np.nan_to_num(_median(np.abs(residual))), floor)
    distance = np.nan_to_num(np.abs(residual) / scale[:, None])
    far = np.argwhere(distance > OUTLIER_SCALES)
    anomalies.outlier_count += len(far)
    weights = distance[far[:, 0], far[:, 1]]
    for row, step in far[np.argsort(-weights)[:20]].tolist():
        words = f"{block[row, step]:,.4g} where {usual[row, step]:,.4g} is expected"
        place = f"{location_label(panel, start + row)}, {local_time_text(panel, step)}"
        anomalies.outliers.append((float(distance[row, step]), f"{place}: {words}"))


def _find_zeros(
    panel: Panel, anomalies: Anomalies, start: int, block: Block, usual: tuple[Block, Block]
) -> None:
    """Add unlikely runs of zeros; runs over a week are compared with the whole series."""
    at_the_time, overall = (np.nan_to_num(values) for values in usual)
    week = max(7 * 24 * 60 // panel.clock.step_minutes, 1)
    for row, zero in enumerate(block == 0):
        running, running_overall = (
            np.concatenate([[0.0], np.cumsum(np.where(zero, values[row], 0.0))])
            for values in (at_the_time, overall)
        )
        for first, end in true_runs(zero):
            total = running if end - first < week else running_overall
            expected = total[end] - total[first]
            if expected >= UNLIKELY_ZEROS:
                when = f"{local_time_text(panel, first)}, {count_of(end - first, 'step')}"
                words = f"{location_label(panel, start + row)}: {when}, {expected:,.0f} expected"
                anomalies.zeros.append((float(expected), words))


def _find_stuck(panel: Panel, anomalies: Anomalies, start: int, block: Block) -> None:
    for row, values in enumerate(block):
        same = np.zeros(len(values), dtype=bool)
        same[1:] = values[1:] == values[:-1]
        if same[1:].all():
            continue  # constant throughout: reported with the locations
        for first, end in true_runs(same):
            if end - first + 1 >= STUCK_STEPS:
                when = f"{local_time_text(panel, first - 1)}, {count_of(end - first + 1, 'step')}"
                words = f"{location_label(panel, start + row)}: {values[first]:,.6g} from {when}"
                anomalies.stuck.append((float(end - first), words))
