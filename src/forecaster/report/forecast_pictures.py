"""Forecasts against what came, as pictures with what to see in them."""

from collections.abc import Iterator

import numpy as np

from forecaster.evaluation.tables import interval_name
from forecaster.report.breakdown import place_errors
from forecaster.report.charts import shorten
from forecaster.report.forecasts import (
    Excerpt,
    choose_places,
    draw_excerpt,
    normal_span,
    take_excerpt,
    worst_span,
)
from forecaster.report.material import Material, mean_rmse
from forecaster.report.picture import Picture
from forecaster.report.words import list_names, number


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
