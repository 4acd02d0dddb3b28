"""Explains a forecast: the effects of past steps and of other locations."""

from forecaster.estimators.base import Estimator
from forecaster.estimators.closed import describe_closed
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.fallback.served import served_models
from forecaster.estimators.forecast_inputs import At, find_origin
from forecaster.estimators.match import match
from forecaster.explain.case import Case, open_case
from forecaster.explain.explanation import Explanation, StepForecast
from forecaster.explain.neighbours import find_reach, measure_locations
from forecaster.explain.past_steps import measure_past_steps, name_step, sum_groups
from forecaster.panel.panel import Panel, local_texts
from forecaster.remaining import Tell, ignore

BASELINE = (
    "Usual is each location's training mean of that time of the week, or of the year for steps of "
    "a week or longer. Gradient and ablation measure deviations from it, in units of the "
    "forecast, as the mean over its steps."
)
ATTENTION = (
    "Shares of {steps} are shares of the decoder's attention to the encoded history, by the size "
    "of the values that reach this location. The encoder mixes the {steps} before; rolled "
    "attributes them back through the encoder. The last values and earlier forecasts also reach "
    "the decoder directly: gradient and ablation include this, attention does not."
)
NO_ATTENTION = "This network has no attention: shares of {steps} are shares of their ablations."
ABLATION = (
    "Ablation measures the real change of the forecast. A value that was as usual changes "
    "nothing, however much attention it receives."
)
FROZEN = (
    "Along the value path all parts that see every location at once (attention weights, norms, "
    "city-wide factors) are held constant. Effects through these parts are called city-wide; they "
    "do not follow the graph."
)
DIRECTED = (
    "Edges lead from sources to targets and are counted in this direction only. A delay says how "
    "many {steps} earlier a source tells about its target."
)
CLOSED = (
    "The network's own forecast is explained. It is not served: the location is not open "
    "({reason})."
)
MEMBERS = (
    "Of the ensemble, the average of its networks is explained: {networks}, with {share:.0f} % of "
    "the weight."
)
NOTHING_FROZEN = (
    "No part of this network sees every location at once: nothing is held, nothing is city-wide."
)


def explain_forecast(
    estimator: Estimator, panel: Panel, at: At, location: str, tell: Tell = ignore
) -> Explanation:
    """Explain the forecast of one location: which past steps and locations mattered, and how much.

    Effects are measured by gradient, by ablation and, where the network has it, by attention. The
    network's own forecast is explained, also where a simple model is served in its place.

    Args:
        estimator: a fitted network, such as Forecaster, Transformer, DCRNN or STID.
        panel: values up to `at`, and the covariates of the steps after it.
        at: the forecast origin, the last observed step: `panel.times[-1]`, or a text such as
            2014-06-01T08:00-04:00.
        location: the id of a location.
        tell: called now and then with how far it is, such as `print`.
    """
    case = open_case(estimator, panel, at, location)
    past_steps, locations = measure_past_steps(case, tell), measure_locations(case, tell)
    observed, hours = case.panel, past_steps.effects()
    reach, reached = find_reach(case)
    return Explanation(
        estimator=case.run.estimator,
        origin=f"{observed.times[case.origin]}Z",
        origin_local=local_texts(observed, observed.times[[case.origin]])[0],
        location=location,
        name=observed.locations.names[case.window.location],
        forecast=_steps(case),
        step=name_step(observed.clock),
        shares_by=past_steps.shares_by,
        hours=hours,
        groups=sum_groups(hours),
        own=locations.own,
        neighbours=locations.neighbours(),
        reach=reach,
        reached=reached,
        city_wide=locations.city_wide(),
        agreement=(*past_steps.agreement(), *locations.agreement()),
        notes=(*_closed_note(case, panel, at), *_member_note(estimator, case), *_notes(case)),
        fallback=served_models(case.run).get(location),
    )


def _closed_note(case: Case, panel: Panel, at: At) -> tuple[str, ...]:
    """Return a note that another forecast is served, since the location is closed; else none."""
    matched, step = match(case.run, panel), find_origin(panel, at)
    closed = describe_closed(case.run, matched, step, len(case.forecast))
    reason = closed.get(case.window.location)
    return () if reason is None else (CLOSED.format(reason=reason),)


def _member_note(estimator: Estimator, case: Case) -> tuple[str, ...]:
    """Return a note on which members of an ensemble are explained; none for other models."""
    if not isinstance(estimator, Ensemble):
        return ()
    weights = estimator.weights_of(case.run.arrays)
    names = [member.name for member in estimator.explained_members(case.run.arrays)]
    share = sum(weights[name] for name in names)
    return (MEMBERS.format(networks=", ".join(names), share=100 * share),)


def _notes(case: Case) -> tuple[str, ...]:
    """Return notes on how to read the explanation of this network."""
    frozen, steps = case.window.frozen, f"{name_step(case.panel.clock)}s"
    shares = ATTENTION if frozen.attends else NO_ATTENTION
    notes = [BASELINE, shares, ABLATION, FROZEN if frozen.parts else NOTHING_FROZEN]
    if case.edges is not None and case.edges.is_directed:
        notes.append(DIRECTED)
    return tuple(note.format(steps=steps) for note in notes)


def _steps(case: Case) -> tuple[StepForecast, ...]:
    observed, K = case.panel, len(case.forecast)
    times = observed.clock.axis(observed.times[case.origin], K + 1)[1:]
    alive = observed.alive(case.origin + 1, case.origin + 1 + K)[:, case.window.location]
    means = zip(case.forecast, case.baseline_forecast, alive, strict=True)
    return tuple(
        StepForecast(f"{time}Z", local, float(y), float(usual), bool(is_open))
        for time, local, (y, usual, is_open) in zip(
            times, local_texts(observed, times), means, strict=True
        )
    )
