"""Whether the world is still the one that a run has learned, and what to do about it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from forecaster.errors import ConfigError, DataError, count_of, name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import new_ids
from forecaster.evaluation.drift.edges import EdgeChange, EdgeReport, find_edge_changes
from forecaster.evaluation.drift.places import (
    DataState,
    PlaceChange,
    describe_data,
    find_places,
)
from forecaster.evaluation.drift.scores import DaySums, find_spans, score_days
from forecaster.evaluation.drift.sequential import WEEK_DAYS, Watch, watch
from forecaster.panel.panel import Panel

Advice = Literal["nothing", "update", "look", "unknown"]

ERROR, BIAS, COVERAGE = 0.1, 0.05, 0.05  # that a week may be off validation without consequence
MANY_EDGES = 0.05  # of the graph's edges, changed: the graph is another
LEVEL = 1.3  # a factor of the whole level from which a run is out of date
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, eq=False)
class Drift:
    """What changed since a run's training, and what to do."""

    run: str | None  # its hash, and that of the panel
    panel: str | None
    first_day: np.datetime64  # the first of the weeks since training
    weeks: int
    watches: tuple[Watch, ...]  # error, bias (both directions), coverage
    data: DataState
    places: tuple[PlaceChange, ...]
    edges: EdgeReport
    ids: tuple[str, ...]  # of the run, in the order of the columns of edges
    unknown: tuple[str, ...] = ()  # locations of the panel that the run cannot forecast
    unjudged: str | None = None  # why there are no watches, and what to do

    @property
    def advice(self) -> Advice:
        """What to do: update comes before looking at single locations."""
        if self.reasons:
            return "update"
        if self.places:
            return "look"
        return "nothing" if self.unjudged is None else "unknown"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run should be updated; empty: it need not be."""
        reasons = [
            f"{w.name} since the week of {self.week_text(w.since or 0)}"
            for w in self.watches
            if w.is_drifting
        ]
        if not 1 / LEVEL <= self.data.level <= LEVEL:
            reasons.append(f"the level is × {self.data.level:.2f} of training")
        if self.unknown:
            count = count_of(len(self.unknown), "location")
            reasons.append(f"it does not know {count} ({name_some(self.unknown)})")
        odd = {place.id for place in self.places}
        changes = [c for c in self.edges.changes if not {*self._ends(c)} & odd]
        if len(changes) >= max(MANY_EDGES * self.edges.edges, 2):
            reasons.append(f"{count_of(len(changes), 'edge')} of the graph changed")
        return tuple(reasons)

    def _ends(self, change: EdgeChange) -> tuple[str, str]:
        return self.ids[change.source], self.ids[change.target]

    def week_text(self, week: int) -> str:
        """The first day of a week since training."""
        return str(self.first_day + np.timedelta64(WEEK_DAYS * week, "D"))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "run": self.run,
            "panel": self.panel,
            "first_day": str(self.first_day),
            "weeks": self.weeks,
            "advice": self.advice,
            "reasons": list(self.reasons),
            "watches": [self._watch_dict(watch) for watch in self.watches],
            "unjudged": self.unjudged,
            "data": asdict(self.data),
            "unknown": list(self.unknown),
            "places": [asdict(place) for place in self.places],
            "graph": {
                "edges": self.edges.edges,
                "reason": self.edges.reason,
                "changes": [
                    {**asdict(c), "source": self.ids[c.source], "target": self.ids[c.target]}
                    for c in self.edges.changes
                ],
            },
        }

    def _watch_dict(self, watch: Watch) -> dict[str, Any]:
        alarm, since = watch.alarm, watch.since
        return {
            "name": watch.name,
            "validation": watch.reference,
            "weeks": [x if np.isfinite(x) else None for x in watch.weeks.tolist()],
            "sums": watch.sums.tolist(),
            "limit": watch.limit,
            "alarm": None if alarm is None else self.week_text(alarm),
            "since": None if since is None else self.week_text(since),
            "is_drifting": watch.is_drifting,
        }


def find_drift(
    estimator: Estimator, panel: Panel, advance: Callable[[int], None] | None = None
) -> Drift:
    """Compare what came since a run's training with what it was validated on.

    Args:
        estimator: fitted.
        panel: the one it was trained on, with the weeks that came since.
        advance: called with the number of origins just forecast.
    """
    if panel.clock.step_minutes > DAY_MINUTES:
        raise ConfigError(
            f"drift is judged by weeks of days; the panel has steps of {panel.clock.step_text}"
        )
    panel, unknown = _known(estimator, panel)
    run, matched = estimator.adapt(panel, len(panel.values))
    spans = find_spans(run, matched)
    validated = int(spans.validation[0]), int(spans.validation[-1]) + 1
    validation = score_days(estimator.as_judged(), panel, validated, advance)
    new = score_days(estimator, panel, (spans.first_new, len(panel.values)), advance)
    watches, unjudged = _watches(validation, new)
    return Drift(
        run=run.digest,
        panel=panel.digest,
        first_day=np.datetime64(new.first_day, "D"),
        weeks=len(new.errors) // WEEK_DAYS,
        watches=watches,
        data=describe_data(run, matched, spans),
        places=tuple(find_places(run, matched, spans, (validation, new))),
        edges=find_edge_changes(run, matched, spans),
        ids=matched.locations.ids,
        unknown=unknown,
        unjudged=unjudged,
    )


def _known(estimator: Estimator, panel: Panel) -> tuple[Panel, tuple[str, ...]]:
    """The panel without the locations that a model cannot forecast, and those."""
    if estimator.run is None or estimator.accepts_new_locations:
        return panel, ()
    unknown = tuple(new_ids(estimator.run, panel))
    if not unknown or len(unknown) == len(panel.locations):  # the latter is refused by `adapt`
        return panel, ()
    ids = tuple(identity for identity in panel.locations.ids if identity not in {*unknown})
    return replace(panel.select(ids), digest=panel.digest), unknown


def _watches(validation: DaySums, new: DaySums) -> tuple[tuple[Watch, ...], str | None]:
    """The sequential tests, or why errors, bias and coverage cannot be judged yet."""
    try:
        return watch_scores(validation, new), None
    except DataError as too_few:
        return (), str(too_few)


def watch_scores(validation: DaySums, new: DaySums) -> tuple[Watch, ...]:
    """The sequential tests of error, bias in both directions, and coverage."""
    watches = [
        watch("errors larger", validation.errors, new.errors, float(np.log1p(ERROR))),
        watch("forecasts too high", validation.bias, new.bias, BIAS),
        watch("forecasts too low", -validation.bias, -new.bias, BIAS),
    ]
    if new.spans.any():
        watches.append(watch("intervals too narrow", validation.outside, new.outside, COVERAGE))
    return tuple(watches)
