"""One pass over all locations: every value against the usual one of its hour of the week."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import count_of
from forecaster.panel.panel import Panel

UNLIKELY_ZEROS = 50.0  # a run of zeros where this many were usual; real demand varies, so many
OUTLIER_SCALES = 10.0  # robust deviations from the usual value
STUCK_STEPS = 24  # a measurement that does not move for so long is suspicious
BLOCK = 64  # locations at a time, to bound memory
MAD_TO_DEVIATION = 1.4826  # of a normal distribution

Block = Float32[np.ndarray, "K M"]  # K locations, all steps


@dataclass
class Odd:
    """What the pass gathers; each entry is its weight and its words."""

    usual_total: Float64[np.ndarray, " M"]  # of all locations observed at that step
    zeros: list[tuple[float, str]] = field(default_factory=list)
    stuck: list[tuple[float, str]] = field(default_factory=list)
    outliers: list[tuple[float, str]] = field(default_factory=list)
    outlier_count: int = 0


def scan(panel: Panel, progress: Callable[[int], None] | None = None) -> Odd:
    """Return zeros, repeats and outliers that a person should look at."""
    slots = panel.clock.slot_of_week(panel.times)
    odd = Odd(usual_total=np.zeros(len(panel.values)))
    week = max(7 * 24 * 60 // panel.clock.step_minutes, 1)
    for start in range(0, panel.values.shape[1], BLOCK):
        block = np.ascontiguousarray(panel.values[:, start : start + BLOCK].T)
        usual = _slot_medians(block, slots, panel.clock.slots_per_week)[:, slots]
        if panel.kind == "count":
            at_the_time = usual * _level(block, usual, week)
            odd.usual_total += np.nan_to_num(np.where(np.isfinite(block), at_the_time, 0)).sum(
                axis=0
            )
            _find_outliers(panel, odd, start, block, at_the_time)
            _find_zeros(panel, odd, start, block, (at_the_time, usual))
        else:
            _find_outliers(panel, odd, start, block, usual)
            _find_stuck(panel, odd, start, block)
        if progress is not None:
            progress(len(block))
    return odd


def runs(where: Bool[np.ndarray, " M"]) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end (exclusive) of every run of true."""
    edges = np.flatnonzero(np.diff(where, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def label(panel: Panel, location: int) -> str:
    """Return what people call a location, and its id if that is another word."""
    identity, name = panel.locations.ids[location], panel.locations.names[location]
    return identity if identity == name else f"{name} ({identity})"


def local_text(panel: Panel, step: int) -> str:
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
    """Return the median of what was observed, NaN where nothing was."""
    ordered = np.sort(values, axis=1)  # NaN goes last
    seen = np.isfinite(values).sum(axis=1)
    row = np.arange(len(values))
    low, high = ordered[row, np.maximum(seen - 1, 0) // 2], ordered[row, seen // 2]
    return (low + (high - low) / 2).astype(np.float32) if values.shape[1] > 1 else ordered[:, 0]


def _level(block: Block, usual: Block, week: int) -> Block:
    """Return how busy the four weeks around each step were, against the usual: 1 is as ever.

    Demand grows, and in 2020 it broke: what is usual in April need not be in the year before.
    """
    seen = np.isfinite(block) & np.isfinite(usual)
    sums = [
        np.cumsum(np.pad(np.where(seen, values, 0), ((0, 0), (1, 0))), axis=1, dtype=np.float64)
        for values in (block, usual)
    ]
    steps = np.arange(block.shape[1])
    first, end = np.maximum(steps - 2 * week, 0), np.minimum(steps + 2 * week, len(steps) - 1) + 1
    here, ever = (total[:, end] - total[:, first] for total in sums)
    return np.where(ever > 0, here / np.maximum(ever, 1e-9), 1).astype(np.float32)


def _find_outliers(panel: Panel, odd: Odd, start: int, block: Block, usual: Block) -> None:
    """Note values far from the usual; counts on the scale on which Poisson noise is even."""
    if panel.kind == "count":
        residual, floor = 2 * (np.sqrt(block) - np.sqrt(usual)), 1.0
        residual[block == 0] = np.nan  # zeros have a rule of their own
    else:
        residual, floor = block - usual, 1e-6 * (1.0 + float(np.nanmax(np.abs(block), initial=0)))
    scale = np.maximum(MAD_TO_DEVIATION * np.nan_to_num(_median(np.abs(residual))), floor)
    distance = np.nan_to_num(np.abs(residual) / scale[:, None])
    far = np.argwhere(distance > OUTLIER_SCALES)
    odd.outlier_count += len(far)
    weights = distance[far[:, 0], far[:, 1]]
    for row, step in far[np.argsort(-weights)[:20]].tolist():
        words = f"{block[row, step]:,.4g} where {usual[row, step]:,.4g} is usual"
        place = f"{label(panel, start + row)}, {local_text(panel, step)}"
        odd.outliers.append((float(distance[row, step]), f"{place}: {words}"))


def _find_zeros(
    panel: Panel, odd: Odd, start: int, block: Block, usual: tuple[Block, Block]
) -> None:
    """Note runs of zeros against the usual of their time; long ones against the usual of ever."""
    at_the_time, ever = (np.nan_to_num(values) for values in usual)
    week = max(7 * 24 * 60 // panel.clock.step_minutes, 1)
    for row, zero in enumerate(block == 0):
        running, running_ever = (
            np.concatenate([[0.0], np.cumsum(np.where(zero, values[row], 0.0))])
            for values in (at_the_time, ever)
        )
        for first, end in runs(zero):
            total = running if end - first < week else running_ever
            lost = total[end] - total[first]
            if lost >= UNLIKELY_ZEROS:
                when = f"{local_text(panel, first)}, {count_of(end - first, 'step')}"
                words = f"{label(panel, start + row)}: {when}, {lost:,.0f} were usual"
                odd.zeros.append((float(lost), words))


def _find_stuck(panel: Panel, odd: Odd, start: int, block: Block) -> None:
    for row, values in enumerate(block):
        same = np.zeros(len(values), dtype=bool)
        same[1:] = values[1:] == values[:-1]
        if same[1:].all():
            continue  # constant throughout: named among the locations
        for first, end in runs(same):
            if end - first + 1 >= STUCK_STEPS:
                when = f"{local_text(panel, first - 1)}, {count_of(end - first + 1, 'step')}"
                words = f"{label(panel, start + row)}: {values[first]:,.6g} from {when}"
                odd.stuck.append((float(end - first), words))
