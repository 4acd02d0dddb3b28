"""A drift report as findings, in words."""

import numpy as np

from forecaster.errors import count_of, name_some
from forecaster.evaluation.drift.drift import Drift
from forecaster.evaluation.drift.edges import EdgeChange
from forecaster.evaluation.drift.places import RARE
from forecaster.evaluation.drift.sequential import Watch, first_alarm
from forecaster.report.doctor.checkup import MAX_DETAILS, Checkup, Finding

MISSING, SPREAD = 0.05, 1.3  # from which the whole feed is worth a note
TOPICS = {
    "error": ("errors larger",),
    "bias": ("forecasts too high", "forecasts too low"),
    "coverage": ("intervals too narrow",),
}


def to_findings(drift: Drift) -> Checkup:
    """Return what changed as findings, the sequential tests first."""
    facts = {
        "weeks": f"{drift.weeks} since training, from {drift.first_day}",
        "run": (drift.run or "not saved")[:12],
        "panel": (drift.panel or "not saved")[:12],
    }
    findings = (
        *_unjudged(drift),
        *(_judge(drift, topic) for topic in TOPICS if _watches(drift, topic)),
        _data(drift),
        _inputs(drift),
        _places(drift),
        _graph(drift),
    )
    return Checkup(facts, findings, advise(drift))


def advise(drift: Drift) -> str:
    """What to do, in one sentence."""
    match drift.advice:
        case "update":
            look = f". Look at {_name_places(drift)}" if drift.places else ""
            return f"Update the run: {'; '.join(drift.reasons)}{look}"
        case "look":
            return f"Look at {_name_places(drift)}"
        case "unknown":
            return "Nothing to do by values, locations and graph; errors cannot be judged yet"
    return "Nothing to do: the world is the one that the run has learned"


def _name_places(drift: Drift) -> str:
    ids = list(dict.fromkeys(place.id for place in drift.places))
    return f"{count_of(len(ids), 'location')}: {name_some(ids)}"


def _watches(drift: Drift, topic: str) -> list[Watch]:
    """The sequential tests of a topic; bias has one for each direction."""
    return [watch for watch in drift.watches if watch.name in TOPICS[topic]]


def _unjudged(drift: Drift) -> list[Finding]:
    """That errors, bias and coverage cannot be judged yet, if so."""
    if drift.unjudged is None:
        return []
    return [Finding("error", "note", f"not judged yet: {drift.unjudged}")]


def _judge(drift: Drift, topic: str) -> Finding:
    watches = _watches(drift, topic)
    text, told = _recent_text(watches[0]), first_alarm(watches)
    if told is None or told.alarm is None:
        return Finding(topic, "good", f"{text}; no change beyond chance")
    alarm, since = drift.week_text(told.alarm), drift.week_text(told.since or 0)
    text += f"; {told.name} since the week of {since}"
    text += "" if alarm == since else f", told after that of {alarm}"
    if any(watch.is_drifting for watch in watches):
        return Finding(topic, "warning", text)
    return Finding(topic, "note", f"{text}, and back since")


def _recent_text(watch: Watch) -> str:
    """The mean of the last four weeks beside validation."""
    weeks = watch.weeks[np.isfinite(watch.weeks)][-4:]
    if not len(weeks):
        return "no whole week with forecasts"
    recent, validation = float(weeks.mean()), watch.reference
    if watch.name == "errors larger":
        sizes = (100 * float(np.exp(x)) for x in (recent, validation))
        return "{:.1f} % of the size in the last weeks, {:.1f} % in validation".format(*sizes)
    if watch.name == "intervals too narrow":
        shares = (100 * (1 - x) for x in (recent, validation))
        return "{:.1f} % inside in the last weeks, {:.1f} % in validation".format(*shares)
    shares = (100 * x for x in (recent, validation))
    return "{:+.1f} % in the last weeks, {:+.1f} % in validation".format(*shares)


def _data(drift: Drift) -> Finding:
    data = drift.data
    before, recent = data.missing
    text = f"level × {data.level:.2f} and spread × {data.spread:.2f} of training"
    text += f"; {100 * recent:.1f} % of recent values missing, {100 * before:.1f} % in training"
    if data.implausible:
        text += f"; {100 * data.implausible:.2f} % implausible"
    quiet = recent <= max(2 * before, MISSING) and 1 / SPREAD <= data.spread <= SPREAD
    changed = not 1 / SPREAD <= data.level <= SPREAD
    return Finding("values", "warning" if changed else "good" if quiet else "note", text)


def _inputs(drift: Drift) -> Finding:
    beyond = {name: share for name, share in drift.data.beyond.items() if share > RARE}
    if not drift.data.beyond:
        return Finding("inputs", "good", "no covariates but the calendar")
    if not beyond:
        return Finding("inputs", "good", "covariates are within the range of training")
    details = tuple(
        f"{name}: {100 * share:.0f} % of recent steps" for name, share in beyond.items()
    )
    text = f"{count_of(len(beyond), 'covariate')} beyond the range of training"
    return Finding("inputs", "note", text, details)


def _places(drift: Drift) -> Finding:
    if not drift.places:
        return Finding("locations", "good", "none differs from itself by more than chance")
    count = len({place.id for place in drift.places})
    details = [f"{place.id}: {place.text}{_sure(place.p_value)}" for place in drift.places]
    more = len(details) - MAX_DETAILS
    shown = (*details[:MAX_DETAILS], *((f"and {more} more",) if more > 0 else ()))
    text = f"{count_of(count, 'location')} to look at"
    return Finding("locations", "warning" if drift.advice == "look" else "note", text, shown)


def _graph(drift: Drift) -> Finding:
    report = drift.edges
    if report.reason is not None:
        return Finding("graph", "good", f"not compared: {report.reason}")
    if not report.changes:
        text = f"none of {count_of(report.edges, 'edge')} changed by more than chance"
        return Finding("graph", "good", text)
    details = [_edge_text(drift, change) for change in report.changes]
    more = len(details) - MAX_DETAILS
    shown = (*details[:MAX_DETAILS], *((f"and {more} more",) if more > 0 else ()))
    text = f"{count_of(len(details), 'pair')} changed, {count_of(report.edges, 'edge')} learned"
    return Finding("graph", "note", text, shown)


def _edge_text(drift: Drift, change: EdgeChange) -> str:
    source, target = drift.ids[change.source], drift.ids[change.target]
    pair = f"{source} – {target}"
    if change.delay:
        pair = f"{source} → {target} after {count_of(change.delay, 'step')}"
    strengths = f"{change.before:+.2f} to {change.after:+.2f}"
    return f"{pair}: {change.kind}, {strengths}{_sure(change.p_value)}"


def _sure(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return " (p < 0.001)" if p_value < 0.001 else f" (p = {p_value:.3f})"  # noqa: PLR2004
