"""Why a forecast is what it is: which past steps and which neighbours carried it."""

from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import At
from forecaster.explain.case import Case, open_case
from forecaster.explain.explanation import Explanation, Step
from forecaster.explain.neighbours import find_reach, measure_neighbours
from forecaster.explain.past_steps import measure_hours, name_step, sum_groups
from forecaster.panel.panel import Panel, local_texts

USUAL = (
    "Usual is each location's training mean of that time of the week; gradient and ablation "
    "measure against it, in units of the forecast, as the mean over its steps."
)
ATTENTION = (
    "Shares of {steps} are those of the decoder's attention to the encoded history, by the size "
    "of what reaches this location. The encoder has mixed the {steps} before: rolled follows them "
    "back through it. The last values and earlier forecasts also reach the decoder directly, "
    "which gradient and ablation see and attention does not."
)
NO_ATTENTION = (
    "This network has no attention: shares of {steps} are of the sizes of their ablation."
)
ABLATION = (
    "Ablation is what the forecast really does; what was as usual changes nothing, however much "
    "it is looked at."
)
HELD = (
    "Along the value path all that sees every location at once (attention weights, norms, factors "
    "of the city) is held as it is. What comes through it is city-wide, whatever the graph says."
)
NOTHING_HELD = (
    "No part of this network sees every location at once: nothing is held, nothing is city-wide."
)


def explain(estimator: Estimator, panel: Panel, at: At, location: str) -> Explanation:
    """Return what carried the forecast of one location.

    Args:
        estimator: a fitted network: Forecaster, Transformer or DCRNN.
        panel: what was observed up to `at` and what is known of the steps after it.
        at: the last observed step: `panel.times[-1]`, or 2014-06-01T08:00-04:00.
        location: the id of a location.
    """
    case = open_case(estimator, panel, at, location)
    measured, neighbours = measure_hours(case), measure_neighbours(case)
    known, hours = case.known, measured.hours()
    reach, reached = find_reach(case)
    return Explanation(
        estimator=case.run.estimator,
        origin=f"{known.times[case.origin]}Z",
        origin_local=local_texts(known, known.times[[case.origin]])[0],
        location=location,
        name=known.locations.names[case.window.place],
        forecast=_steps(case),
        step=name_step(known.clock),
        shares_by=measured.shares_by,
        hours=hours,
        groups=sum_groups(hours),
        own=neighbours.own,
        neighbours=neighbours.others(),
        reach=reach,
        reached=reached,
        city_wide=neighbours.city_wide(),
        agreement=(*measured.agreement(), *neighbours.agreement()),
        notes=_notes(case),
    )


def _notes(case: Case) -> tuple[str, ...]:
    """Return how to read it, by what the network has."""
    held, steps = case.window.held, f"{name_step(case.known.clock)}s"
    shares = ATTENTION if held.attends else NO_ATTENTION
    notes = (USUAL, shares, ABLATION, HELD if held.parts else NOTHING_HELD)
    return tuple(note.format(steps=steps) for note in notes)


def _steps(case: Case) -> tuple[Step, ...]:
    known, K = case.known, len(case.forecast)
    times = known.clock.axis(known.times[case.origin], K + 1)[1:]
    rows = zip(times, local_texts(known, times), case.forecast, case.usual, strict=True)
    return tuple(Step(f"{time}Z", local, float(y), float(u)) for time, local, y, u in rows)
