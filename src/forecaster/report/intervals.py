"""How often intervals held, and how wide they were: by group of target steps, by location."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.evaluation.backtest import FORMS, Form, Sureness
from forecaster.evaluation.comparison import Row
from forecaster.metrics import Intervals
from forecaster.panel.panel import Panel
from forecaster.report.breakdown import MOST_COVARIATES, Breakdown
from forecaster.report.groups import FEWEST, Grouping, group_weather, ratio

Shares = Float64[np.ndarray, " G"]


@dataclass(frozen=True, eq=False)
class Held:
    """Which share of what came lay within a model's intervals, in groups of target steps."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # how many target steps there are in each group
    shares: Mapping[Form, Shares]  # the mean over trainings

    @property
    def contrast(self) -> float:
        """How far apart the groups are, as intervals hold online."""
        return float(np.ptp(self.shares["online"]))


def sureness_of(row: Row) -> list[Sureness]:
    """Return what became of the intervals in each training; none if they are none."""
    each = [found.sureness for found in row.found.values()]
    return [known for known in each if known is not None and known.wanted > 0]


def held_in(row: Row, grouping: Grouping) -> Held:
    """Return Σ inside / Σ spans of every group in which something was observed."""
    shares = {form: _mean(row, form, grouping, "inside") for form in FORMS}
    kept = np.flatnonzero(np.isfinite(shares["online"]))
    labels = tuple(grouping.labels[g] for g in kept)
    return Held(labels, grouping.steps[kept], {form: shares[form][kept] for form in FORMS})


def held_by_weather(row: Row, panel: Panel) -> dict[str, Held]:
    """Return the shares with little and much of each covariate, what differs most first."""
    found = {}
    for name, grouping in group_weather(row.first, panel).items():
        parted = held_in(row, grouping)
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def held_at_places(row: Row) -> Float64[np.ndarray, " N"]:
    """Return the share of each location, online and over all steps; NaN without any value."""
    sums = [known.places["online"] for known in sureness_of(row)]
    each = [ratio(part.inside.sum(axis=0), part.spans.sum(axis=0)) for part in sums]
    return np.asarray(np.mean(each, axis=0))


def widths_in(rows: Sequence[Row], grouping: Grouping) -> Breakdown:
    """Return the mean width Σ widths / Σ spans, online, of every group in which there is any."""
    widths = {row.name: _mean(row, "online", grouping, "widths") for row in rows}
    kept = np.flatnonzero(np.isfinite(next(iter(widths.values()))))
    labels = tuple(grouping.labels[g] for g in kept)
    return Breakdown(labels, grouping.steps[kept], {n: w[kept] for n, w in widths.items()})


def _mean(row: Row, form: Form, grouping: Grouping, part: str) -> Shares:
    """Return a part of the sums for each interval, the mean over trainings."""
    sums: list[Intervals] = [known.windows[form] for known in sureness_of(row)]
    each = [ratio(grouping.sum(getattr(s, part)), grouping.sum(s.spans)) for s in sums]
    return np.asarray(np.mean(each, axis=0))
