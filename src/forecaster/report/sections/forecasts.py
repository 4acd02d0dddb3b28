"""The section on forecasts: a typical period and the worst one, with observed values."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from forecaster.choices import Weather
from forecaster.errors import count_of, need_extra
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.step_groups import ALL_STEPS
from forecaster.evaluation.tables import interval_name
from forecaster.metrics import ErrorSums
from forecaster.panel.panel import Panel
from forecaster.report.data import ReportData, mean_rmse
from forecaster.report.draw.canvas import (
    BLUE,
    FAINT,
    INK,
    TEXT,
    WIDTH,
    new_figure,
    style,
    write_legend,
)
from forecaster.report.draw.charts import shorten
from forecaster.report.formatting import duration, join_names, number, time_text, with_minus
from forecaster.report.groups import DAY_MINUTES, target_times
from forecaster.report.sections.day_totals import describe_days, draw_days, take_days
from forecaster.report.sections.errors import location_errors
from forecaster.report.sections.section import Picture, Section

WEEK_STEPS, DAY_STEPS = 28, 7  # least steps in the typical and in the worst period
MOST_TARGETS = 336  # points of a line: half-hours of a week
MOST_ORIGINS = 14  # lines that mark where forecasts begin
MOSTLY = 0.5  # a period counts as complete with this share of its targets
PANEL_INCHES = 1.3  # height of one location
FEW_HOURS = 12  # labelled by hour and minute, wherever they begin
TICK_MINUTES, MOST_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 180), 6  # between their labels


@dataclass(frozen=True)
class Period:
    """A number of whole local days or months and the RMSE of the forecasts for them."""

    first: int  # local days since 1970
    days: int
    rmse: float
    months: int = 0  # whole calendar months; 0: the panel's steps are no months

    @property
    def kind(self) -> str:
        """The name of the length: day, week, or a number of days or months."""
        if self.months:
            return f"period of {count_of(self.months, 'month')}"
        return {1: "day", 7: "week"}.get(self.days, f"period of {self.days} days")

    @property
    def kinds(self) -> str:
        """The name of several of them: weeks, periods of 28 days."""
        name, *length = self.kind.split(" ", maxsplit=1)
        return " ".join([f"{name}s", *length])

    def __str__(self) -> str:
        unit = "M" if self.months else "D"
        days = np.array([self.first, self.first + self.days - 1]).astype("datetime64[D]")
        return " … ".join(dict.fromkeys(map(str, days.astype(f"datetime64[{unit}]"))))


@dataclass(frozen=True)
class Miss:
    """What came and what had been forecast, at one location and time."""

    location: int  # a column of the panel
    time: np.datetime64  # local
    step: int  # ahead
    observed: float
    forecast: float
    bounds: tuple[float, ...]  # quantiles, ascending


@dataclass(frozen=True, eq=False)
class Excerpt:
    """Observed values of a period at some locations, and forecasts of them.

    Of a short horizon, those 1 and K steps ahead from every origin; of a long one, all steps from
    a few origins, each where the horizon of the one before ends.
    """

    places: Sequence[int]
    times: Shaped[np.ndarray, " T"]  # local
    truth: Float32[np.ndarray, "T n"]  # NaN where it is missing
    forecast: Float32[np.ndarray, "T n"]  # one step ahead, or all; NaN without a forecast
    last_step: Float32[np.ndarray, "T n"] | None  # None: of a long horizon
    horizon: int
    levels: tuple[float, ...] = ()
    bounds: Float32[np.ndarray, "2 T n"] | None = None  # of the online interval
    issued: Shaped[np.ndarray, " o"] | None = None  # local origins in the period; None: all steps

    @property
    def steps(self) -> str:
        """The steps ahead that the forecasts are of."""
        if self.issued is None:
            return "one step ahead"
        return f"1 to {self.horizon} steps ahead"

    @property
    def marks_origins(self) -> bool:
        """Whether origins lie in the period, few enough to be drawn."""
        return self.issued is not None and 0 < len(self.issued) <= MOST_ORIGINS


def forecast_section(data: ReportData) -> Section:
    """Return forecasts of the recommended model and observed values, in two periods."""
    name = data.best.name if data.best is not None else ""
    text = f"Forecasts of {name} for the test period. Each uses only data up to its origin."
    return Section("forecasts", "Forecasts and observed values", text, list(_pictures(data)))


def typical_period(assessment: BacktestResult, panel: Panel) -> tuple[Period, int]:
    """Return the week with the median error, and the number of weeks.

    Where a week has few steps the period is longer; where the test is shorter, it is all of it.
    """
    periods = _periods(assessment, panel, max(7, _length_of(WEEK_STEPS, panel)))
    return periods[(len(periods) - 1) // 2], len(periods)


def worst_period(assessment: BacktestResult, panel: Panel) -> Period:
    """Return the day with the largest error; where a day has few steps, a longer period."""
    return _periods(assessment, panel, _length_of(DAY_STEPS, panel))[-1]


def choose_locations(
    assessment: BacktestResult, errors: Float64[np.ndarray, " N"]
) -> dict[int, str]:
    """Return up to three locations with the reason: busiest, median, largest error.

    Args:
        assessment: the sums of a model, with the mean size of each location.
        errors: of each location.
    """
    sums = assessment.by_location
    sizes = sums.sizes.sum(axis=0) / np.maximum(sums.values.sum(axis=0), 1)
    busiest = np.argsort(-sizes, kind="stable")
    largest_error = np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable")
    ranks = np.abs(np.arange(len(busiest)) - len(busiest) // 2)
    median = busiest[np.argsort(ranks, kind="stable")]
    orders = (busiest, "busiest"), (median, "median size"), (largest_error, "largest error")
    chosen: dict[int, str] = {}
    for order, reason in orders:
        free = [n for n in order.tolist() if n not in chosen]
        chosen |= dict.fromkeys(free[:1], reason)
    return chosen


def take_excerpt(
    estimator: Estimator,
    panel: Panel,
    assessment: BacktestResult,
    period: Period,
    locations: Sequence[int],
) -> Excerpt:
    """Return observed values and forecasts of a period; only tested origins are forecast."""
    tested = panel.step_index(assessment.origins)
    K = assessment.by_location.squares.shape[0]
    day = panel.clock.local(panel.times).astype("datetime64[D]").astype(np.int64)
    targets = np.flatnonzero((day >= period.first) & (day < period.first + period.days))
    drawn = targets[:: max(math.ceil(len(targets) / MOST_TARGETS), 1)]
    if K > ALL_STEPS:
        return _take_horizons(estimator, panel, assessment, drawn, locations)
    origins = np.intersect1d(np.concatenate([drawn - 1, drawn - K]), tested)
    forecast, quantiles = _predict(estimator, panel, origins, assessment.weather)
    forecast, quantiles = forecast[..., list(locations)], quantiles[..., list(locations)]
    bounds = None
    if len(estimator.quantile_levels) > 1:
        outer = quantiles[:, 0, 0], quantiles[:, -1, 0]
        bounds = np.stack([_look_up(bound, origins, drawn - 1) for bound in outer])
    closed = ~panel.alive(0, len(panel.values))[drawn][:, list(locations)]
    first_step = _look_up(forecast[:, 0], origins, drawn - 1)
    last_step = _look_up(forecast[:, K - 1], origins, drawn - K)
    for lines in (first_step, last_step, *(() if bounds is None else bounds)):
        lines[closed] = np.nan
    return Excerpt(
        places=locations,
        times=panel.clock.local(panel.times[drawn]),
        truth=panel.values[drawn][:, list(locations)],
        forecast=first_step,
        last_step=last_step,
        horizon=K,
        levels=estimator.quantile_levels,
        bounds=bounds,
    )


def _take_horizons(
    estimator: Estimator,
    panel: Panel,
    assessment: BacktestResult,
    drawn: Int64[np.ndarray, " T"],
    locations: Sequence[int],
) -> Excerpt:
    """Return the forecasts of all steps from a few tested origins, one after the other.

    Where an origin was not tested, the last one before it stands for it.
    """
    tested = np.sort(panel.step_index(assessment.origins))
    K = assessment.by_location.squares.shape[0]
    begin = max(int(drawn[0]) - 1, int(tested[0]))
    wanted = begin + (drawn - begin - 1) // K * K
    origins = tested[np.maximum(np.searchsorted(tested, wanted, side="right") - 1, 0)]
    ahead = drawn - origins - 1
    at = np.flatnonzero((ahead >= 0) & (ahead < K))
    distinct = np.unique(origins[at])
    shape = len(drawn), len(locations)
    forecast = np.full(shape, np.nan, dtype=np.float32)
    bounds = np.full((2, *shape), np.nan, dtype=np.float32)
    has_bounds = len(estimator.quantile_levels) > 1
    means, quantiles = _predict(estimator, panel, distinct, assessment.weather)
    rows, steps = np.searchsorted(distinct, origins[at]), ahead[at]
    forecast[at] = means[rows, steps][:, list(locations)]
    if has_bounds:
        for bound, level in zip(bounds, (0, -1), strict=True):
            bound[at] = quantiles[rows, level, steps][:, list(locations)]
    closed = ~panel.alive(0, len(panel.values))[drawn][:, list(locations)]
    forecast[closed], bounds[:, closed] = np.nan, np.nan
    return Excerpt(
        places=locations,
        times=panel.clock.local(panel.times[drawn]),
        truth=panel.values[drawn][:, list(locations)],
        forecast=forecast,
        last_step=None,
        horizon=K,
        levels=estimator.quantile_levels,
        bounds=bounds if has_bounds else None,
        issued=panel.clock.local(panel.times[distinct[distinct >= drawn[0] - 1]]),
    )


def worst_miss(
    estimator: Estimator, panel: Panel, assessment: BacktestResult, period: Period
) -> Miss:
    """Return the largest error at the step of a period with the largest error of all locations."""
    squares = assessment.errors[assessment.weather].squares
    days = panel.clock.local(target_times(assessment, panel)).astype("datetime64[D]")
    inside = (days.astype(np.int64) - period.first) // period.days == 0
    squares = np.where(inside, squares, -1.0)
    window, step = np.unravel_index(np.argmax(squares), squares.shape)
    origin = panel.step_index(assessment.origins)[[window]]
    forecast, quantiles = _predict(estimator, panel, origin, assessment.weather)
    target = int(origin[0] + step + 1)
    errors = np.nan_to_num(np.abs(forecast[0, step] - panel.values[target]))
    location = int(np.argmax(errors))
    return Miss(
        location=location,
        time=panel.clock.local(panel.times[[target]])[0],
        step=int(step) + 1,
        observed=float(panel.values[target, location]),
        forecast=float(forecast[0, step, location]),
        bounds=tuple(quantiles[0, :, step, location].tolist()),
    )


def describe_miss(miss: Miss, data: ReportData) -> str:
    """Say what came at the worst miss, and what had been forecast."""
    name = data.panel.locations.names[miss.location]
    when = time_text(miss.time, data.panel.clock.step_minutes)
    ahead = duration(miss.step * data.panel.clock.step_minutes)
    interval = ""
    if len(miss.bounds) > 1:
        interval = f", between {number(miss.bounds[0])} and {number(miss.bounds[-1])}"
    return with_minus(
        f"At the worst miss {data.in_unit(number(miss.observed))} came at {name}, {when}; "
        f"{number(miss.forecast)} had been forecast {ahead} before{interval}."
    )


def draw_excerpt(excerpt: Excerpt, titles: Sequence[str]) -> Any:
    """Draw observed values and forecasts over time, a panel for each location."""
    count, K = len(excerpt.places), excerpt.horizon
    figure = new_figure(WIDTH, PANEL_INCHES * count + 0.6)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    mark = "." if len(excerpt.times) <= 2 * WEEK_STEPS else ""
    for n, axes in enumerate(panels):
        if excerpt.bounds is not None:
            axes.fill_between(excerpt.times, *excerpt.bounds[:, :, n], color=BLUE, alpha=0.2,
                              linewidth=0, label=interval_name(excerpt.levels))  # fmt: skip
        if excerpt.issued is not None and excerpt.marks_origins:
            for origin in excerpt.issued:
                axes.axvline(origin, color=FAINT, linewidth=1, linestyle="--")
        first = "forecast 1 step ahead" if excerpt.issued is None else "forecast"
        for values, colour, line, label in (
            (excerpt.truth, INK, "-", "observed"),
            (excerpt.forecast, BLUE, "-", first),
            (excerpt.last_step, BLUE, ":", f"forecast {K} steps ahead"),
        ):
            if values is not None and (values is not excerpt.last_step or K > 1):
                axes.plot(excerpt.times, values[:, n], color=colour, linestyle=line,
                          linewidth=1.3, marker=mark, label=label)  # fmt: skip
        axes.set_title(titles[n], color=INK, fontsize=TEXT, loc="left", parse_math=False)
        style(axes)
    label_times(panels[-1].xaxis, excerpt.times)
    lines = [line for line in panels[0].get_lines() if not line.get_label().startswith("_")]
    handles = [*lines, *panels[0].collections]
    write_legend(figure, handles, columns=2, where="lower left")
    return figure


def label_times(axis: Any, times: Shaped[np.ndarray, " T"]) -> None:
    """Label some hours with minutes, a day with hours, a week with weekdays, others with dates."""
    dates = need_extra("matplotlib.dates", extra="report")
    days = (times[-1] - times[0]) / np.timedelta64(1, "D")
    if days <= 2:  # noqa: PLR2004
        locator = dates.HourLocator(range(0, 24, 4 if days <= 1 else 8))
        if days <= FEW_HOURS / 24:
            minutes = next(m for m in TICK_MINUTES if days * DAY_MINUTES <= MOST_TICKS * m)
            hours, within = range(0, 24, max(minutes // 60, 1)), range(0, 60, min(minutes, 60))
            rule = dates.rrulewrapper(dates.DAILY, byhour=hours, byminute=within, bysecond=0)
            locator = dates.RRuleLocator(rule)
        axis.set_major_locator(locator)
        axis.set_major_formatter(lambda at, _: _label_hour(dates.num2date(at)))
        return
    if days <= 10:  # noqa: PLR2004
        locator, form = dates.DayLocator(), "%a %d"
    else:
        is_monthly = np.diff(times).min() >= np.timedelta64(28, "D")
        form = "%b %Y" if days > 366 or is_monthly else "%d %b"  # noqa: PLR2004
        locator = dates.AutoDateLocator(minticks=3, maxticks=6)
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.DateFormatter(form))


def _label_hour(time: datetime) -> str:
    """Return the hour, at midnight the day: `16:00`, `Sun 31`."""
    return f"{time:%H:%M}" if time.hour or time.minute else f"{time:%a} {time.day}"


def _length_of(steps: int, panel: Panel) -> int:
    """Return the length of some steps in months, or else in days, rounded up."""
    if panel.clock.step_months:
        return steps * panel.clock.step_months
    return math.ceil(steps * panel.clock.step_minutes / DAY_MINUTES)


def _periods(assessment: BacktestResult, panel: Panel, length: int) -> list[Period]:
    """Return the complete periods of the test by error, smallest first.

    Args:
        assessment: the errors of a model.
        panel: its clock says whether a period is of days or of months.
        length: of a period, in days or months.
    """
    errors: ErrorSums = assessment.errors[assessment.weather]
    months = panel.clock.step_months
    unit = "datetime64[M]" if months else "datetime64[D]"
    local = panel.clock.local(target_times(assessment, panel))
    date = local.astype(unit).astype(np.int64)
    block = (date - date.min()) // length
    squares, values, targets = (
        np.bincount(block.ravel(), weights=weights)
        for weights in (errors.squares.ravel(), errors.values.ravel(), np.ones(block.size))
    )
    complete = (targets >= MOSTLY * targets[values > 0].max()) & (values > 0)
    rmse = np.sqrt(squares / np.maximum(values, 1))
    ranked = sorted(np.flatnonzero(complete).tolist(), key=lambda n: float(rmse[n]))
    length_tested = min(length, int(np.ptp(date)) + max(months, 1))
    periods = []
    for n in ranked:
        ends = int(date.min()) + n * length + np.array([0, length_tested])
        first, end = ends.astype(unit).astype("datetime64[D]").astype(np.int64).tolist()
        whole_months = length_tested if months else 0
        periods.append(Period(first, end - first, float(rmse[n]), whole_months))
    return periods


def _predict(
    estimator: Estimator, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
    """Return forecasts and online quantiles, each origin forecast once."""
    if not len(origins):
        quantiles = estimator.predict_quantiles(panel, origins, weather)
        return estimator.predict(panel, origins, weather), quantiles
    prediction = estimator.predict_all(panel, origins, weather)
    return prediction.forecast, prediction.online


def _look_up(
    forecast: Float32[np.ndarray, "A n"],
    origins: Int64[np.ndarray, " A"],
    wanted: Int64[np.ndarray, " T"],
) -> Float32[np.ndarray, "T n"]:
    """Return the forecasts from the wanted origins, NaN for those without a forecast."""
    values = np.full((len(wanted), forecast.shape[1]), np.nan, dtype=np.float32)
    available = np.isin(wanted, origins)
    values[available] = forecast[np.searchsorted(origins, wanted[available])]
    return values


def _pictures(data: ReportData) -> Iterator[Picture]:
    """Yield a typical period and the worst one, forecast by the recommended model."""
    panel, best = data.panel, data.best
    if best is None:
        return
    assessment, test_rmse = best.first, mean_rmse(best, data.comparison)
    typical, count = typical_period(assessment, panel)
    worst = worst_period(assessment, panel)
    median = f"the median of {count} {typical.kinds}" if count > 1 else "the whole test"
    factor = f"{number(worst.rmse / max(test_rmse, 1e-9))} times the RMSE of the whole test"
    estimator = data.estimator_of(best)
    chosen = choose_locations(assessment, location_errors(best, panel)[1])
    miss = worst_miss(estimator, panel, assessment, worst)
    other_names = dict(item for item in chosen.items() if item[0] != miss.location)
    missed = {miss.location: "worst miss", **dict(list(other_names.items())[: len(chosen) - 1])}
    for name, title, period, comment, reasons in (
        ("02-normal-week", f"A typical {typical.kind}", typical, median, chosen),
        ("03-worst-day", f"The {worst.kind} with the largest error", worst, factor, missed),
    ):
        excerpt = take_excerpt(estimator, panel, assessment, period, list(reasons))
        text = f"{period}: RMSE {data.in_unit(number(period.rmse))}, {comment}."
        if period is worst:
            text += f" {describe_miss(miss, data)}"
        text += _describe_error(excerpt, data) + _describe_coverage(excerpt)
        if excerpt.marks_origins:
            text += " A dashed line is an origin: everything right of it was forecast there."
        alt = f"Lines over time of observed values and forecasts of {best.name} at "
        alt += join_names([panel.locations.names[n] for n in reasons])
        picture = draw_excerpt(excerpt, _title_locations(panel, reasons))
        yield Picture(name, title, text, alt, picture)
    totals = take_days(estimator, panel, assessment, typical.first, list(chosen))
    if totals is not None:
        names = [panel.locations.names[n] for n in chosen]
        alt = f"Bars of the intervals of daily totals of {best.name}, dots of observed ones, at "
        yield Picture(
            "03-day-totals", "Totals of days", describe_days(totals, assessment),
            alt + join_names(names), draw_days(totals, _title_locations(panel, chosen)),
        )  # fmt: skip


def _title_locations(panel: Panel, reasons: Mapping[int, str]) -> list[str]:
    """Name locations with the reasons why they are drawn."""
    return [f"{shorten(panel.locations.names[n])}, {why}" for n, why in reasons.items()]


def _describe_error(excerpt: Excerpt, data: ReportData) -> str:
    """Give the mean absolute error of the drawn forecasts."""
    observed = np.isfinite(excerpt.truth) & np.isfinite(excerpt.forecast)
    if not observed.any():
        return ""
    error = float(np.abs(excerpt.forecast - excerpt.truth)[observed].mean())
    size = float(np.abs(excerpt.truth)[observed].mean())
    return (
        f" The mean absolute error {excerpt.steps} at these locations is "
        f"{data.in_unit(number(error))}, of a mean of {number(size)}."
    )


def _describe_coverage(excerpt: Excerpt) -> str:
    """Give the coverage of the drawn intervals."""
    if excerpt.bounds is None:
        return ""
    observed = np.isfinite(excerpt.truth) & np.isfinite(excerpt.bounds).all(axis=0)
    if not observed.any():
        return ""
    low, high = excerpt.bounds
    inside = (low <= excerpt.truth) & (excerpt.truth <= high)
    share = f"{100 * float(inside[observed].mean()):.0f} %"
    return f" The {interval_name(excerpt.levels)} covers {share} of the values."
