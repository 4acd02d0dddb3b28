"""The tables of a comparison as a page shows them: the best figure and how far others are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from forecaster.evaluation.backtest import FORMS
from forecaster.evaluation.comparison import Comparison, Row, Spread
from forecaster.evaluation.model_specs import is_network
from forecaster.evaluation.tables import TITLES, label, show, show_mean
from forecaster.evaluation.verdict import SIMPLE
from forecaster.report.formatting import signed_percent

FIGURES = ("rmse", "mape")  # the paper's
ALL_STEPS = 6  # more steps ahead are not all shown: the first, the middle and the last are
NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """A figure of a model, with a bar as long as its share of the largest one."""

    text: str
    share: int | None = None  # per cent
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    name: str
    cells: Sequence[Cell]
    chosen: str = ""  # by validation
    use: bool = False  # the recommended model
    lacking: bool = False  # nothing of it came to its end


@dataclass(frozen=True)
class Sheet:
    """A table: groups of columns with their titles, groups of rows with theirs."""

    columns: Sequence[tuple[str, Sequence[str]]]
    groups: Sequence[tuple[str, Sequence[Line]]]


def error_table(comparison: Comparison) -> Sheet:
    """Return the paper's table: RMSE and MAPE, average and steps ahead, simple models first."""
    rows = [row for row in comparison.rows if row.of is None]
    steps = _shown_steps(comparison)
    heads = ["all" if k == 0 else f"+{k}" for k in steps]
    bars = _Bars(comparison, rows, steps)
    kinds = (
        ("Simple models", [row for row in rows if row.estimator in SIMPLE]),
        ("Networks", [row for row in rows if is_network(row.estimator)]),
        ("Others", [r for r in rows if r.estimator not in SIMPLE and not is_network(r.estimator)]),
    )
    groups = [(title, [bars.line(row) for row in several]) for title, several in kinds if several]
    return Sheet([(TITLES[figure], heads) for figure in FIGURES], groups)


def ablation_table(comparison: Comparison) -> Sheet | None:
    """Return what each change to a model does to its errors; None: nothing was changed."""
    variants = [row for row in comparison.rows if row.of is not None]
    bases = {row.of for row in variants}
    rows = [row for row in comparison.rows if row.name in bases]
    if not variants:
        return None
    bars = _Bars(comparison, [*rows, *variants], [0])
    named = {row.name: row for row in comparison.tested}

    def change(row: Row) -> list[Cell]:
        base = named.get(row.of or "")
        found = comparison.compare(row, base).rmse if base and row.found else None
        return [Cell(signed_percent(found) if found else NOTHING)]

    lines = [bars.line(row, change) for row in (*rows, *variants)]
    return Sheet([(TITLES[f], [""]) for f in FIGURES] + [("RMSE, change", [""])], [("", lines)])


def weather_table(comparison: Comparison) -> Sheet | None:
    """Return the errors with each knowledge of the coming weather; None: there is but one."""
    weathers = comparison.weathers
    if len(weathers) < 2:  # noqa: PLR2004 (one and another)
        return None
    lines = []
    for row in comparison.tested:
        spreads = [(f, row.spread(f, weather)[0]) for f in FIGURES for weather in weathers]
        lines.append(Line(row.name, [Cell(_show(spread, f)) for f, spread in spreads]))
    return Sheet([(TITLES[figure], weathers) for figure in FIGURES], [("", lines)])


def interval_table(comparison: Comparison) -> Sheet | None:
    """Return how often the intervals of each model held, how wide they are, what they lose."""
    rows = [row for row in comparison.tested if row.first.sureness is not None]
    if not rows:
        return None
    steps, best = _shown_steps(comparison), comparison.recommended
    losses = [row.interval_spread("pinball", "online")[0].mean for row in rows]
    least = min((loss for loss in losses if loss is not None), default=None)
    lines = []
    for row, loss in zip(rows, losses, strict=True):
        coverage = [row.interval_spread("coverage", form)[k] for form in FORMS for k in steps]
        others = [
            (f, row.interval_spread(f, form)[0]) for f in ("width", "pinball") for form in FORMS
        ]
        known = [*(("coverage", spread) for spread in coverage), *others]
        cells = [Cell(show_mean(spread.mean, figure)) for figure, spread in known]
        cells[-1] = replace(cells[-1], best=loss is not None and loss == least)
        lines.append(Line(row.name, cells, use=row is best))
    heads = ["all" if k == 0 else f"+{k}" for k in steps]
    columns = [(f"Within, %: {form}", heads) for form in FORMS]
    columns += [(title, list(FORMS)) for title in ("Width", "Pinball loss")]
    return Sheet(columns, [("", lines)])


def cost_table(comparison: Comparison) -> Sheet:
    """Return what else is known of each model: other errors, differences, sizes, times."""
    reference = comparison.reference
    against = f"against {reference.name}" if reference else ""
    lines = []
    for row in comparison.tested:
        found = comparison.differences.get(row.name)
        parts = [getattr(found, figure) if found else None for figure in FIGURES]
        differences = [signed_percent(part) if part else NOTHING for part in parts]
        weather, costs = comparison.weathers[0], row.costs()
        errors = [_show(row.spread(f, weather)[0], f) for f in ("mae", "wape")]
        sizes = [f"{len(row.found)}", f"{costs['parameters']:,}"]
        times = [_show_time(costs[name]) for name in ("seconds", "milliseconds")]
        texts = [*errors, *(differences if reference else ()), *sizes, *times]
        lines.append(Line(row.name, [Cell(text) for text in texts]))
    columns = [
        ("Errors", [TITLES["mae"], TITLES["wape"]]),
        (against, ["RMSE", "MAPE"]),
        ("Cost", ["trainings", "parameters", "training, s", "forecast, ms"]),
    ]
    return Sheet(columns if reference else [columns[0], columns[2]], [("", lines)])


class _Bars:
    """Makes lines whose bars can be compared: each figure has one scale."""

    def __init__(self, comparison: Comparison, rows: Sequence[Row], steps: Sequence[int]) -> None:
        self._comparison, self._steps = comparison, steps
        self._spreads = {row.name: self._read(row) for row in rows if row.found}
        best = comparison.recommended
        self._use = best.name if best else None

    def _read(self, row: Row) -> list[tuple[str, Spread]]:
        weather = self._comparison.weathers[0]
        spreads: Mapping[str, Sequence[Spread]] = {f: row.spread(f, weather) for f in FIGURES}
        return [(figure, spreads[figure][k]) for figure in FIGURES for k in self._steps]

    def line(self, row: Row, further: Callable[[Row], list[Cell]] = lambda _: []) -> Line:
        """Return the line of a row, with further cells at its end."""
        record: dict[str, Any] = {"model": row.name, "chosen": row.chosen}
        chosen = label(record).removeprefix(row.name).strip(" ()")
        if row.name not in self._spreads:
            cells = [Cell("failed")] * (len(FIGURES) * len(self._steps))
            return Line(row.name, [*cells, *further(row)], chosen, lacking=True)
        cells = [self._cell(place, spread) for place, spread in enumerate(self._spreads[row.name])]
        return Line(row.name, [*cells, *further(row)], chosen, use=row.name == self._use)

    def _cell(self, place: int, given: tuple[str, Spread]) -> Cell:
        figure, spread = given
        if spread.mean is None:
            return Cell("n/a")
        columns = self._spreads.values()
        known = [s.mean for column in columns for f, s in column if f == figure and s.mean]
        beside = [column[place][1].mean for column in columns]
        least = min(mean for mean in beside if mean is not None)
        share = round(100 * spread.mean / max(known)) if known else 0
        return Cell(_show(spread, figure), share, spread.mean == least)


def _show_time(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def _show(spread: Spread, figure: str) -> str:
    return "n/a" if spread.mean is None else show(asdict(spread), figure)


def _shown_steps(comparison: Comparison) -> list[int]:
    """Return which columns there are: 0 is the average, k the k-th step ahead."""
    if not comparison.tested:
        return [0]
    K = comparison.tested[0].first.places.squares.shape[0]
    if K == 1:
        return [0]
    return list(range(K + 1)) if K <= ALL_STEPS else [0, 1, (K + 1) // 2, K]
