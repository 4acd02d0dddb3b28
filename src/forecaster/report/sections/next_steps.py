"""The section that opens a report: the forecast of the coming steps, and how sure it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Shaped

from forecaster.clock.clock import Clock
from forecaster.errors import DataError, ForecasterError, count_of
from forecaster.estimators.areas import Areas, add_areas, sum_observed, total_areas
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import await_opening, choose_weather, find_origin
from forecaster.estimators.table import quantile_name
from forecaster.evaluation.tables import interval_name
from forecaster.panel.panel import Panel, local_texts
from forecaster.report.data import ReportData
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
from forecaster.report.draw.maps import location_means
from forecaster.report.formatting import (
    aligned,
    change,
    clock_text,
    date_text,
    duration,
    number,
    percent,
    tenth_percent,
    time_text,
    with_minus,
)
from forecaster.report.sections.forecasts import label_times
from forecaster.report.sections.section import Picture, Section
from forecaster.report.tables import HtmlTable, TableCell, TableRow

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
NEXT = "next"  # the name of the section
OBSERVED = "the last observed step"
TOTAL = "all locations"
MOST_LOCATIONS = 8  # in the table
MOST_REASONS = 3
DRAWN = 3  # series in the picture
MOST_STEPS = 4  # columns of the table
LEAST_PAST, MOST_PAST = 24, 7 * 24  # observed steps in the picture
FLAT = 0.5  # of the largest measurement: above it an axis from 0 on would hide how values move
PANEL_INCHES = 1.35  # height of one series


@dataclass(frozen=True, eq=False)
class NextSteps:
    """The forecast of the steps after the last observed one, of the total and some locations."""

    names: Sequence[str]  # of n series; the total is the first, if counts are forecast
    times: Shaped[np.ndarray, " T"]  # local, of the recent past
    ahead: Shaped[np.ndarray, " K"]  # local
    observed: Float64[np.ndarray, "T n"]  # NaN where a value is missing
    forecast: Float64[np.ndarray, "K n"]  # NaN where a location is closed
    bounds: Float64[np.ndarray, "b K n"]  # lower and upper; none without an interval
    levels: tuple[float, ...]
    horizon_total: tuple[float, ...]  # of all steps and locations: the sum, and its interval
    week_before: float | None  # the sum of all locations over the same steps; None: not observed
    reasons: Sequence[str]  # why the forecast rests on less than usual
    awaits_opening: bool = False  # whether it begins when places open again

    @property
    def has_interval(self) -> bool:
        """Whether there are an upper and a lower bound."""
        return len(self.levels) > 1


def next_steps_section(data: ReportData) -> Section:
    """Return the forecast of the recommended model from the last step of the panel."""
    title, best = "The next steps", data.best
    if best is None:
        return Section(NEXT, title, "", [])
    try:
        coming = forecast_next(data.estimator_of(best), data.panel)
    except ForecasterError as error:  # such as too many missing values at the panel's end
        return Section(NEXT, title, f"There is no forecast of the next steps: {error}.", [])
    clock = data.panel.clock
    origin = time_text(coming.times[-1], clock.step_minutes)
    which = "the last closed step before places open" if coming.awaits_opening else OBSERVED
    text = f"Forecast of {best.name} from {which}, {origin} ({clock.zone})."
    if coming.reasons:
        text += f" It rests on less than usual: {'; '.join(coming.reasons)}."
    picture = Picture(
        "00-next-steps", "The recent past and the next steps", _describe_picture(coming),
        f"Lines over time of observed values and the forecast of {', '.join(coming.names)}",
        draw_next(coming),
    )  # fmt: skip
    return Section(
        NEXT, _headline(coming, data), text, [picture], table=next_table(coming, data),
        summary=_certainty(data),
    )  # fmt: skip


def forecast_next(estimator: Estimator, panel: Panel) -> NextSteps:
    """Forecast the steps after the last observed one, with the total of all locations.

    If all of them are closed, they are the steps from the next opening on.
    """
    K = estimator.recipe.lags.horizon
    last = find_origin(panel, None)
    awaited, origin = await_opening(panel, K)
    if panel.clock.is_open(panel.times[last + 1 :]).sum() <= K:  # a longer silence is an outage
        panel = awaited.steps(0, origin + 1)
    origin = len(panel.values) - 1
    weather, reason = choose_weather(panel, origin, K)
    table = estimator.forecast(panel, local_texts(panel, panel.times[-1:])[0], weather=weather)
    busiest = _busiest(panel, table)
    if not busiest:
        raise DataError("every location is closed in the next steps")
    ids, names = list(panel.locations.ids), [panel.locations.names[n] for n in busiest]
    chosen, observed = [ids[n] for n in busiest], panel.values[:, busiest]
    areas = None
    if panel.kind == "count" and len(ids) > 1:
        areas = Areas((_name_total(ids),), np.ones((1, len(ids)), dtype=bool))
        table = add_areas(table, areas, estimator, panel, weather)
        chosen, names = [*areas.names, *chosen], [TOTAL, *names]
        observed = np.column_stack([sum_observed(panel.values), observed])
    is_count = panel.kind == "count"
    sums = total_areas(table, areas, estimator, panel, weather) if is_count else None
    past = max(LEAST_PAST, min(3 * K, MOST_PAST)) + origin - last
    columns = _columns(estimator.quantile_levels)
    ahead = panel.instants(np.arange(origin + 1, origin + 1 + K))
    is_open = panel.alive(origin + 1, origin + 1 + K)
    is_open = np.column_stack([is_open.any(axis=1)] * (areas is not None) + [is_open[:, busiest]])
    steps = _read_steps(table, chosen, ahead, columns)
    forecast, *ends = (np.where(is_open, part, np.nan) for part in steps)
    bounds = np.reshape(ends, (len(ends), *forecast.shape))
    total = () if sums is None else _read_total(sums, chosen[0], columns)
    return NextSteps(
        names=names,
        times=panel.clock.local(panel.times[-past:]),
        ahead=panel.clock.local(ahead),
        observed=observed[-past:].astype(np.float64),
        forecast=forecast,
        bounds=bounds,
        levels=estimator.quantile_levels,
        horizon_total=_narrow(total, bounds[:, :, 0]),
        week_before=_sum_week_before(panel, K),
        reasons=_read_reasons(table[table["unique_id"].isin(ids)], reason),
        awaits_opening=origin > last,
    )


def next_table(coming: NextSteps, data: ReportData) -> HtmlTable:
    """Return the forecast of some steps, a row for the total and for each location."""
    steps = shown_steps(len(coming.ahead))
    lines = [
        TableRow(name, _cells(coming, steps, n), emphasised=name == TOTAL)
        for n, name in enumerate(coming.names)
    ]
    times, minutes = coming.ahead[steps], data.panel.clock.step_minutes
    dates = {date_text(time) for time in times}
    heads, title = [time_text(time, minutes) for time in times], data.unit
    if minutes < DAY_MINUTES and len(dates) == 1:
        heads, title = [clock_text(time) for time in times], f"{title}, {dates.pop()}"
    return HtmlTable([(title, heads)], [("", lines)])


def shown_steps(horizon: int) -> list[int]:
    """Return up to MOST_STEPS steps ahead, from 0: the first, the last and some between."""
    steps = np.linspace(0, horizon - 1, min(MOST_STEPS, horizon)).round()
    return list(map(int, steps))


def draw_next(coming: NextSteps) -> Any:
    """Draw the recent past and the forecast with its interval, a panel for each series."""
    count = min(len(coming.names), DRAWN)
    figure = new_figure(WIDTH, PANEL_INCHES * count + 0.5)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    joined = np.concatenate([coming.times[-1:], coming.ahead])
    for n, axes in enumerate(panels):
        last = coming.observed[-1:, n]
        if coming.has_interval:
            low, high = (np.concatenate([last, bound[:, n]]) for bound in coming.bounds)
            axes.fill_between(joined, low, high, color=BLUE, alpha=0.2, linewidth=0,
                              label=interval_name(coming.levels))  # fmt: skip
        axes.axvline(coming.times[-1], color=FAINT, linewidth=1, linestyle="--")
        axes.plot(coming.times, coming.observed[:, n], color=INK, linewidth=1.3, label="observed")
        axes.plot(joined, np.concatenate([last, coming.forecast[:, n]]), color=BLUE,
                  linewidth=1.6, marker="o", markersize=3, markevery=slice(1, None),
                  label="forecast")  # fmt: skip
        axes.set_title(shorten(coming.names[n]), color=INK, fontsize=TEXT, loc="left",
                       parse_math=False)  # fmt: skip
        if _begins_at_zero(coming, n):
            axes.set_ylim(bottom=0)
        style(axes)
    label_times(panels[-1].xaxis, np.concatenate([coming.times, coming.ahead]))
    handles = [line for line in panels[0].get_lines() if not line.get_label().startswith("_")]
    write_legend(figure, [*handles, *panels[0].collections], columns=3, where="lower left")
    return figure


def _begins_at_zero(coming: NextSteps, series: int) -> bool:
    """Whether an axis from 0 on still shows how values move: not so for 19 … 21 bar."""
    shown = [coming.observed, coming.forecast, *coming.bounds]
    values = np.concatenate([part[:, series] for part in shown])
    values = values[np.isfinite(values)]
    if not len(values) or values.min() < 0:
        return False
    return bool(coming.horizon_total or values.min() <= FLAT * values.max())


def _name_total(ids: Sequence[str]) -> str:
    """Return a name of the sum that no location has."""
    return next(name for name in (TOTAL, f"sum of {TOTAL}", "Σ") if name not in ids)


def _busiest(panel: Panel, table: pd.DataFrame) -> list[int]:
    """Return the columns of the locations with the largest means, among those forecast."""
    is_forecast = np.isin(panel.locations.ids, table["unique_id"].unique())
    order = np.argsort(-np.abs(location_means(panel)), kind="stable")
    return [n for n in order.tolist() if is_forecast[n]][:MOST_LOCATIONS]


def _read_reasons(table: pd.DataFrame, weather: str | None) -> list[str]:
    """Return why forecasts rest on less than usual, the reasons of most locations first.

    Args:
        table: the forecast of the locations.
        weather: why covariates ahead are replaced; None: they are known.
    """
    if "degraded" not in table:
        return []
    locations = table["unique_id"].nunique()
    parts = table["degraded"].str.split("; ").explode()
    rows = table[["unique_id"]].join(parts).drop_duplicates()
    counts = rows[~rows["degraded"].isin(["", "closed"])]["degraded"].value_counts()
    reasons = {
        weather if weather and text.startswith("weather ") else text: int(count)
        for text, count in zip(map(str, counts.index), counts, strict=True)
    }
    return [
        text if count == locations else f"{text} (at {count_of(count, 'location')})"
        for text, count in list(reasons.items())[:MOST_REASONS]
    ]


def _sum_week_before(panel: Panel, horizon: int) -> float | None:
    """Return the sum of all locations a week before the next steps, None if it is not observed."""
    week, remainder = divmod(WEEK_MINUTES, panel.clock.step_minutes)
    if remainder or not horizon <= week <= len(panel.values):
        return None
    first = len(panel.values) - week
    total = float(sum_observed(panel.values[first : first + horizon]).sum())
    return total if total > 0 else None


def _columns(levels: Sequence[float]) -> list[str]:
    """Return the columns of the forecast and, if there is an interval, of its bounds."""
    ends = (levels[0], levels[-1]) if len(levels) > 1 else ()
    return ["y_hat", *(quantile_name(level) for level in ends)]


def _read_steps(
    table: pd.DataFrame,
    ids: Sequence[str],
    ahead: Shaped[np.ndarray, " K"],
    columns: Sequence[str],
) -> Iterator[Float64[np.ndarray, "K n"]]:
    """Yield columns of a forecast as arrays, NaN at closed steps."""
    steps = pd.DatetimeIndex(ahead).tz_localize("UTC")
    for column in columns:
        wide = table.pivot_table(index="ds", columns="unique_id", values=column)
        yield wide.reindex(index=steps, columns=list(ids)).to_numpy(np.float64)


def _read_total(sums: pd.DataFrame, name: str, columns: Sequence[str]) -> tuple[float, ...]:
    """Return the total over the whole horizon, with its interval."""
    rows = sums[sums["unique_id"] == name]
    if rows.empty:
        return ()
    longest = int(rows["steps"].argmax())
    return tuple(float(rows[column].iloc[longest]) for column in columns)


def _narrow(total: tuple[float, ...], bounds: Float64[np.ndarray, "b K"]) -> tuple[float, ...]:
    """Return a total with the sums of its steps' bounds where these are narrower.

    Few validation windows calibrate a total by those of all hours, which is too wide at night.
    """
    if len(bounds) < 2 or not total:  # noqa: PLR2004 (an interval has two)
        return total
    value, low, high = total
    lowest, highest = np.nansum(bounds, axis=1).tolist()
    return value, max(low, lowest), min(high, highest)


def _cells(coming: NextSteps, steps: Sequence[int], series: int) -> list[TableCell]:
    """Return the forecasts of a series, each with its interval below it."""
    rows = np.concatenate([coming.forecast[None, steps, series], coming.bounds[:, steps, series]])
    texts = np.reshape(aligned(rows.ravel().tolist()), rows.shape)
    return [
        TableCell(with_minus(value), below=with_minus(" … ".join(ends)))
        if np.isfinite(forecast)
        else TableCell("closed")
        for forecast, value, *ends in zip(rows[0], *texts.tolist(), strict=True)
    ]


def _headline(coming: NextSteps, data: ReportData) -> str:
    """Say in one sentence what is expected, and how sure it is."""
    K, minutes = len(coming.ahead), data.panel.clock.step_minutes
    if coming.horizon_total:
        value, *bounds = coming.horizon_total
        span = f"in the next {duration(K * minutes).removeprefix('1 ')}"
        subject = f"{data.expected(number(value), total=True)} {span}"
    else:
        k = int(np.isfinite(coming.forecast[:, 0]).argmax())  # others are closed
        value, bounds = coming.forecast[k, 0], coming.bounds[:, k, 0].tolist()
        when = f"{_preposition(data.panel.clock)} {time_text(coming.ahead[k], minutes)}"
        subject = f"{data.expected(number(value))} at {coming.names[0]} {when}"
    if not bounds:
        return f"{subject}."
    low, high = map(number, bounds)
    chance = f"{100 * (coming.levels[-1] - coming.levels[0]):g} %"
    return f"{subject}; with a probability of {chance} between {low} and {high}."


def _preposition(clock: Clock) -> str:
    """Return the word before a time: in January, on Monday."""
    return "in" if clock.step_months else "on"


def _certainty(data: ReportData) -> str:
    """Say how far forecasts were off in the test, and how often intervals held."""
    best, sentences = data.best, []
    if best is None:
        return ""
    mae, wape = (best.seed_means(f, data.comparison.weathers[0])[0].mean for f in ("mae", "wape"))
    if mae is not None:
        share = f", {percent(wape)} of the mean" if wape and data.panel.kind == "count" else ""
        sentences.append(
            f"In the test a forecast of one location was off by {data.in_unit(number(mae))} on "
            f"average{share}"
        )
    coverage = best.interval_seed_means("coverage", "online")
    if coverage and coverage[0].mean is not None:
        name = interval_name(data.comparison.levels)
        sentences.append(f"{tenth_percent(coverage[0].mean)} of the values were in its {name}")
    return f"{'; '.join(sentences)}." if sentences else ""


def _describe_picture(coming: NextSteps) -> str:
    """Compare the coming total with that of a week before, and explain the picture."""
    text = "Left of the dashed line is what was observed."
    if not (coming.horizon_total and coming.week_before):
        return text
    difference = change(coming.horizon_total[0] / coming.week_before)
    return f"{difference} against the same time a week before. {text}"
