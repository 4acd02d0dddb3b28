"""Forecasts against truth: a normal stretch and the worst one, at a few locations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from forecaster.choices import Weather
from forecaster.errors import need_extra
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.tables import interval_name
from forecaster.metrics import Errors
from forecaster.panel.panel import Panel
from forecaster.report.data import Material, mean_rmse
from forecaster.report.draw.canvas import BLUE, INK, TEXT, WIDTH, new_figure, style, write_legend
from forecaster.report.draw.charts import shorten
from forecaster.report.formatting import list_names, number
from forecaster.report.groups import DAY_MINUTES, target_times
from forecaster.report.sections.errors import place_errors
from forecaster.report.sections.section import Picture

WEEK_STEPS, DAY_STEPS = 28, 7  # at least so many in a normal stretch and in the worst one
MOST_TARGETS = 336  # that a line is drawn through: half-hours of a week
MOSTLY = 0.5  # of the targets that a whole stretch has
PANEL_INCHES = 1.75  # height of one location


@dataclass(frozen=True)
class Span:
    """A stretch of whole local days and how far off forecasts were."""

    first: int  # local days since 1970
    days: int
    rmse: float

    @property
    def kind(self) -> str:
        """What people call a stretch of that length."""
        return {1: "day", 7: "week"}.get(self.days, f"stretch of {self.days} days")

    def __str__(self) -> str:
        dates = np.array([self.first, self.first + self.days - 1]).astype("datetime64[D]")
        return " … ".join(dict.fromkeys(map(str, dates)))


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What came in a stretch of time, and what was forecast one step and K steps ahead."""

    places: Sequence[int]
    times: Shaped[np.ndarray, " T"]  # local
    truth: Float32[np.ndarray, "T n"]  # NaN where it is missing
    soon: Float32[np.ndarray, "T n"]  # NaN where nothing was forecast
    late: Float32[np.ndarray, "T n"]
    horizon: int
    levels: tuple[float, ...] = ()
    ends: Float32[np.ndarray, "2 T n"] | None = None  # of the interval one step ahead, online


def normal_span(found: Assessment, panel: Panel) -> tuple[Span, int]:
    """Return the week whose error is the median one, and how many weeks there are.

    Where a week has few steps it is a longer stretch; where the test is shorter, all of it.
    """
    spans = _spans(found, panel, max(7, _days_of(WEEK_STEPS, panel)))
    return spans[(len(spans) - 1) // 2], len(spans)


def worst_span(found: Assessment, panel: Panel) -> Span:
    """Return the day with the largest error; where a day has few steps, a longer stretch."""
    return _spans(found, panel, _days_of(DAY_STEPS, panel))[-1]


def choose_places(found: Assessment, errors: Float64[np.ndarray, " N"]) -> dict[int, str]:
    """Return up to three locations and why: the busiest, a middling one, the hardest.

    Args:
        found: what a model did; it knows how much there is at each location.
        errors: of each location.
    """
    sizes = found.places.sizes.sum(axis=0) / np.maximum(found.places.values.sum(axis=0), 1)
    busiest = np.argsort(-sizes, kind="stable")
    hardest = np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable")
    middle = busiest[
        np.argsort(np.abs(np.arange(len(busiest)) - len(busiest) // 2), kind="stable")
    ]
    chosen: dict[int, str] = {}
    for order, why in ((busiest, "the busiest"), (middle, "middling"), (hardest, "the hardest")):
        free = [n for n in order.tolist() if n not in chosen]
        chosen |= dict.fromkeys(free[:1], why)
    return chosen


def take_excerpt(
    estimator: Estimator, panel: Panel, found: Assessment, span: Span, places: Sequence[int]
) -> Excerpt:
    """Return truth and forecasts of a stretch; only origins that were tested are asked."""
    origins = (found.origins - panel.start.astype(np.int64)) // (panel.clock.step_minutes * 60)
    K = found.places.squares.shape[0]
    day = panel.clock.local(panel.times).astype("datetime64[D]").astype(np.int64)
    targets = np.flatnonzero((day >= span.first) & (day < span.first + span.days))
    drawn = targets[:: max(math.ceil(len(targets) / MOST_TARGETS), 1)]
    asked = np.intersect1d(np.concatenate([drawn - 1, drawn - K]), origins)
    forecast, quantiles = _ask(estimator, panel, asked, found.weather)
    forecast, quantiles = forecast[..., list(places)], quantiles[..., list(places)]
    ends = None
    if len(estimator.levels) > 1:
        pair = quantiles[:, 0, 0], quantiles[:, -1, 0]
        ends = np.stack([_look_up(end, asked, drawn - 1) for end in pair])
    return Excerpt(
        places=places,
        times=panel.clock.local(panel.times[drawn]),
        truth=panel.values[drawn][:, list(places)],
        soon=_look_up(forecast[:, 0], asked, drawn - 1),
        late=_look_up(forecast[:, K - 1], asked, drawn - K),
        horizon=K,
        levels=estimator.levels,
        ends=ends,
    )


def draw_excerpt(excerpt: Excerpt, titles: Sequence[str]) -> Any:
    """Return truth and forecasts over time, a panel for each location."""
    count, K = len(excerpt.places), excerpt.horizon
    figure = new_figure(WIDTH, PANEL_INCHES * count + 0.6)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    mark = "." if len(excerpt.times) <= 2 * WEEK_STEPS else ""
    for n, axes in enumerate(panels):
        if excerpt.ends is not None:
            band = f"its {interval_name(excerpt.levels)}"
            axes.fill_between(excerpt.times, *excerpt.ends[:, :, n], color=BLUE, alpha=0.2,
                              linewidth=0, label=band)  # fmt: skip
        for values, colour, line, label in (
            (excerpt.truth, INK, "-", "what came"),
            (excerpt.soon, BLUE, "-", "forecast 1 step ahead"),
            (excerpt.late, BLUE, ":", f"{K} steps ahead"),
        ):
            if values is not excerpt.late or K > 1:
                axes.plot(excerpt.times, values[:, n], color=colour, linestyle=line,
                          linewidth=1.3, marker=mark, label=label)  # fmt: skip
        axes.set_title(titles[n], color=INK, fontsize=TEXT, loc="left", parse_math=False)
        style(axes)
    _label_times(panels[-1].xaxis, excerpt)
    handles = [*panels[0].get_lines(), *panels[0].collections]
    write_legend(figure, handles, columns=2, where="lower left")
    return figure


def _label_times(axis: Any, excerpt: Excerpt) -> None:
    """Write hours below a day, weekdays below a week, dates below more."""
    dates = need_extra("matplotlib.dates", extra="report")
    days = (excerpt.times[-1] - excerpt.times[0]) / np.timedelta64(1, "D")
    if days <= 2:  # noqa: PLR2004
        locator, form = dates.HourLocator(range(0, 24, 4 if days <= 1 else 8)), "%H:%M"
    elif days <= 10:  # noqa: PLR2004
        locator, form = dates.DayLocator(), "%a %d"
    else:
        locator, form = dates.AutoDateLocator(minticks=3, maxticks=6), "%d %b"
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.DateFormatter(form))


def _days_of(steps: int, panel: Panel) -> int:
    return math.ceil(steps * panel.clock.step_minutes / DAY_MINUTES)


def _spans(found: Assessment, panel: Panel, days: int) -> list[Span]:
    """Return the whole stretches of the test, the smallest error first; all of it if none is."""
    errors: Errors = found.errors[found.weather]
    local = panel.clock.local(target_times(found, panel))
    day = local.astype("datetime64[D]").astype(np.int64)
    block = (day - day.min()) // days
    squares, values, targets = (
        np.bincount(block.ravel(), weights=weights)
        for weights in (errors.squares.ravel(), errors.values.ravel(), np.ones(block.size))
    )
    whole = (targets >= MOSTLY * targets[values > 0].max()) & (values > 0)
    rmse = np.sqrt(squares / np.maximum(values, 1))
    chosen = sorted(np.flatnonzero(whole).tolist(), key=lambda number: float(rmse[number]))
    length = min(days, int(np.ptp(day)) + 1)
    return [Span(int(day.min()) + number * days, length, float(rmse[number])) for number in chosen]


def _ask(
    estimator: Estimator, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
    """Return forecasts and online quantiles, each origin asked once."""
    if not len(origins):
        nothing = estimator.predict_quantiles(panel, origins, weather)
        return estimator.predict(panel, origins, weather), nothing
    found = estimator.predict_all(panel, origins, weather)
    return found.forecast, found.online


def _look_up(
    forecast: Float32[np.ndarray, "A n"],
    origins: Int64[np.ndarray, " A"],
    wanted: Int64[np.ndarray, " T"],
) -> Float32[np.ndarray, "T n"]:
    """Return the forecasts from the wanted origins, NaN for those that were not asked."""
    found = np.full((len(wanted), forecast.shape[1]), np.nan, dtype=np.float32)
    known = np.isin(wanted, origins)
    found[known] = forecast[np.searchsorted(origins, wanted[known])]
    return found


def forecast_pictures(material: Material) -> Iterator[Picture]:
    """Yield a normal stretch of time and the worst one, forecast by the model to use."""
    panel, best = material.panel, material.best
    if best is None:
        return
    found, whole = best.first, mean_rmse(best, material.comparison)
    normal, count = normal_span(found, panel)
    worst = worst_span(found, panel)
    several = f"the median of {count}" if count > 1 else "the only one of the test"
    times = number(worst.rmse / max(whole, 1e-9))
    estimator = material.estimator_of(best)
    chosen = choose_places(found, place_errors(best, panel)[1])
    titles = [f"{shorten(panel.locations.names[n])}, {why}" for n, why in chosen.items()]
    for name, title, span, text in (
        ("02-normal-week", f"A normal {normal.kind}", normal, several),
        (
            "03-worst-day",
            f"The worst {worst.kind}",
            worst,
            f"{times} times that of the whole test",
        ),
    ):
        excerpt = take_excerpt(estimator, panel, found, span, list(chosen))
        words = f"{span}: RMSE {number(span.rmse)}, {text}.{_closeness(excerpt)}{_held(excerpt)}"
        kind = f"Lines over time of what came and what {best.name} forecast at "
        kind += list_names([panel.locations.names[n] for n in chosen])
        yield Picture(name, title, words, kind, draw_excerpt(excerpt, titles))


def _closeness(excerpt: Excerpt) -> str:
    """Say how far the drawn forecasts were from what came."""
    seen = np.isfinite(excerpt.truth) & np.isfinite(excerpt.soon)
    if not seen.any():
        return ""
    off = float(np.abs(excerpt.soon - excerpt.truth)[seen].mean())
    size = float(np.abs(excerpt.truth)[seen].mean())
    return f" One step ahead these are off by {number(off)} on average, of {number(size)}."


def _held(excerpt: Excerpt) -> str:
    """Say how much of what came lay within the drawn intervals."""
    if excerpt.ends is None:
        return ""
    seen = np.isfinite(excerpt.truth) & np.isfinite(excerpt.ends).all(axis=0)
    if not seen.any():
        return ""
    low, high = excerpt.ends
    inside = (low <= excerpt.truth) & (excerpt.truth <= high)
    share = f"{100 * float(inside[seen].mean()):.0f} %"
    return f" {share} of what came lay within the {interval_name(excerpt.levels)}."
