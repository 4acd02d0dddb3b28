"""Correlations of all pairs of locations in the training steps (Eq. 5), and degenerate cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from forecaster.config import GraphConfig
from forecaster.errors import count_of, name_some
from forecaster.graph.covariance import (
    Deviations,
    Sample,
    collinear_pairs,
    correlate,
    find_scale,
    measure,
    take_sample,
)
from forecaster.graph.selection import hold_out
from forecaster.panel.panel import Panel


@dataclass(frozen=True, eq=False)
class TrainingCorrelations:
    """Correlations of the training steps, and of the parts that are used to choose a penalty."""

    sample: Sample
    correlation: Float64[np.ndarray, "N N"]
    parts: tuple[Float64[np.ndarray, "N N"], ...]  # of the fitted and the held-out steps
    notes: tuple[str, ...]


def correlate_training_steps(
    panel: Panel, train: Bool[np.ndarray, " M"], config: GraphConfig
) -> TrainingCorrelations:
    """Return the correlations of the training steps (Eq. 5), and of parts to choose a penalty."""
    sample = take_sample(panel, train, config.subtract)
    moments = []
    if config.kind == "lasso" and config.penalty is None and config.choose == "likelihood":
        chosen = hold_out(sample.steps, panel.clock.season_slots)
        moments = [measure(sample, steps) for steps in chosen]
    total = moments[0] + moments[1] if moments else measure(sample, sample.steps)
    covariance = total.covariance()
    scale = find_scale(sample, covariance)
    correlation = correlate(covariance, scale)
    # Each part is scaled separately, so that a location active in only one does not dominate.
    parts = tuple(correlate(c, find_scale(sample, c)) for c in (m.covariance() for m in moments))
    notes = _degeneracies(sample, scale, correlation, config)
    return TrainingCorrelations(sample, correlation, parts, notes)


def describe_steps(sample: Sample, train: Bool[np.ndarray, " M"]) -> dict[str, Any]:
    """Return the record of the training steps for a graph's metadata."""
    return {
        "subtracted": sample.subtracted,
        "steps": len(sample.steps),
        "dropped_steps": sample.dropped,
        "filled_values": sample.filled,
        "hours": training_ranges(sample.panel, train),
    }


def training_ranges(panel: Panel, train: Bool[np.ndarray, " M"]) -> tuple[tuple[str, str], ...]:
    """Return the first and the last step of each training range, in UTC."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], train, [False]])))
    return tuple((f"{panel.times[a]}Z", f"{panel.times[b - 1]}Z") for a, b in edges.reshape(-1, 2))


def _degeneracies(
    sample: Sample, scale: Deviations, correlation: Float64[np.ndarray, "N N"], config: GraphConfig
) -> tuple[str, ...]:
    """Describe degenerate locations by id, and their treatment."""
    ids, N, M = sample.panel.locations.ids, len(correlation), len(sample.steps)
    notes = []
    if scale.constant.any():
        names = name_some(ids[n] for n in np.flatnonzero(scale.constant))
        notes.append(
            f"locations [{names}] have zero variance in the training steps: kept isolated"
        )
    pairs = collinear_pairs(correlation)
    if len(pairs):
        names = name_some(f"{ids[i]} – {ids[j]}" for i, j in pairs)
        notes.append(f"{count_of(len(pairs), 'collinear pair')}: {names}; each says the same")
    if N > M:
        notes.append(f"N = {N} locations > M = {M} steps: the penalty alone makes Q unique")
    if sample.subtracted != config.subtract:
        notes.append("less than two weeks of steps: no mean by the hour of the week subtracted")
    return tuple(notes)
