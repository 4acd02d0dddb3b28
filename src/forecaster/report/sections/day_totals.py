"""The picture of the totals of days: forecast with their intervals, and observed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from forecaster.estimators.base import Estimator
from forecaster.estimators.match import location_order
from forecaster.estimators.totals.past_totals import PastForecasts
from forecaster.estimators.totals.totals import HORIZON, TotalCalibration
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.day_totals import observed_totals
from forecaster.evaluation.tables import interval_name
from forecaster.panel.panel import Panel
from forecaster.report.draw.canvas import BLUE, INK, TEXT, WIDTH, new_figure, style, write_legend

MOST_DAYS = 7  # drawn
PANEL_INCHES = 1.5  # height of one location


@dataclass(frozen=True, eq=False)
class DayExcerpt:
    """Observed and forecast totals of consecutive days at some locations."""

    days: Shaped[np.ndarray, " D"]  # local dates
    truth: Float32[np.ndarray, "D n"]  # NaN where a value is missing
    forecast: Float32[np.ndarray, "D n"]
    bounds: Float32[np.ndarray, "2 D n"]
    levels: tuple[float, ...]


def take_days(
    estimator: Estimator,
    panel: Panel,
    assessment: BacktestResult,
    first_day: int,
    locations: Sequence[int],
) -> DayExcerpt | None:
    """Return totals of days from tested origins at the end of a day, one after the other.

    Args:
        estimator: fitted.
        panel: observed values.
        assessment: its test.
        first_day: the local day since 1970 to begin with, or the first one after it.
        locations: columns of the panel.

    None: the horizon covers no day, or the run has no intervals.
    """
    levels = estimator.quantile_levels
    if assessment.day_totals is None or len(levels) < 2:  # noqa: PLR2004 (an interval has two)
        return None
    origins = _chain(panel, assessment, first_day)
    if not len(origins):
        return None
    prediction = estimator.predict_all(panel, origins, assessment.weather)
    calibration = TotalCalibration.of(estimator.adapt(panel)[0], panel.locations.ids)
    predictor = estimator.predictor(panel, assessment.weather)
    order = location_order(predictor.panel.locations.ids, panel)
    forecasts = PastForecasts(predictor, prediction.forecast.shape[1])
    days, rows = [], []
    for b, origin in enumerate(origins.tolist()):
        mean, quantiles = prediction.forecast[b], prediction.online[b]
        past = forecasts.at(origin).locations(order)
        totals = calibration.forecast(panel, origin, mean, quantiles, past=past)
        whole = [j for j, span in enumerate(totals.spans) if span.name != HORIZON]
        if not whole:  # a day of 25 hours
            continue
        spans = [totals.spans[j] for j in whole]
        observed = observed_totals(panel, origin, spans)
        outer = totals.quantiles[0], totals.quantiles[-1]
        rows.append(np.stack([observed, *(part[whole] for part in (totals.y_hat, *outer))]))
        days += [np.datetime64(span.name, "D") for span in spans]
    if not days:
        return None
    shown = np.concatenate(rows, axis=1)[:, :MOST_DAYS, list(locations)]  # [4, D, n]
    return DayExcerpt(np.array(days[:MOST_DAYS]), shown[0], shown[1], shown[2:], levels)


def draw_days(excerpt: DayExcerpt, titles: Sequence[str]) -> Any:
    """Draw the totals of days with their intervals, a panel for each location."""
    count = excerpt.truth.shape[1]
    figure = new_figure(WIDTH, PANEL_INCHES * count + 0.6)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    at = np.arange(len(excerpt.days))
    for n, axes in enumerate(panels):
        low, high = excerpt.bounds[:, :, n]
        axes.bar(at, high - low, 0.5, bottom=low, color=BLUE, alpha=0.25,
                 label=interval_name(excerpt.levels))  # fmt: skip
        axes.scatter(at, excerpt.forecast[:, n], marker="_", s=260, color=BLUE, label="forecast")
        axes.scatter(at, excerpt.truth[:, n], s=22, color=INK, label="observed", zorder=3)
        axes.set_title(titles[n], color=INK, fontsize=TEXT, loc="left", parse_math=False)
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(low))))
        style(axes)
    names = [day.astype(object).strftime("%a %d") for day in excerpt.days]
    panels[-1].set_xticks(at, names)
    handles, _ = panels[0].get_legend_handles_labels()
    write_legend(figure, handles, columns=3, where="lower left")
    return figure


def describe_days(excerpt: DayExcerpt, assessment: BacktestResult) -> str:
    """Give the coverage of the totals of the whole test, and of the drawn ones."""
    text = "Totals of whole days, forecast from the end of a day."
    if assessment.day_totals is not None:
        coverage = assessment.day_totals.intervals.scores().coverage
        if coverage.value is not None:
            text += (
                f" Over the whole test the {interval_name(excerpt.levels)} of a day's total "
                f"covers {100 * coverage.value:.1f} % of {coverage.terms:,} totals."
            )
    return text


def _chain(panel: Panel, assessment: BacktestResult, first_day: int) -> Int64[np.ndarray, " o"]:
    """Return tested origins at the end of a day, each where the days of the one before end."""
    seconds = assessment.origins - panel.start.astype(np.int64)
    tested = seconds // (panel.clock.step_minutes * 60)
    today, tomorrow = (
        panel.clock.local(panel.instants(steps)).astype("datetime64[D]").astype(np.int64)
        for steps in (tested, tested + 1)
    )
    days = assessment.by_location.squares.shape[0] * panel.clock.step_minutes // (24 * 60)
    ends = (today != tomorrow) & (tomorrow >= first_day) & (tomorrow < first_day + MOST_DAYS)
    return np.asarray(tested[ends & ((tomorrow - first_day) % max(days, 1) == 0)])
