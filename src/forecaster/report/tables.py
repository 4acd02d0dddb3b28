"""The tables of a comparison for the HTML report, with bars and the best value marked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from forecaster.evaluation.backtest import CALIBRATION_MODES
from forecaster.evaluation.comparison import Comparison, ModelResult, SeedMean
from forecaster.evaluation.model_specs import is_network
from forecaster.evaluation.step_groups import ALL_STEPS, StepGroup
from forecaster.evaluation.tables import (
    TITLES,
    chosen_text,
    format_bias,
    format_change,
    format_cost,
    format_difference,
    format_mean,
    format_score,
    format_share,
)
from forecaster.evaluation.verdict import SIMPLE_MODELS

FIGURES = ("rmse", "mape")  # the paper's
FEW_STEPS = 6  # of more steps ahead only the first, the middle and the last are shown
MOST_GROUPS = 5  # of more groups of steps only some are shown


@dataclass(frozen=True)
class TableCell:
    """A figure of a model; its bar is its share of the largest figure."""

    text: str
    share: int | None = None  # per cent
    best: bool = False
    below: str = ""  # a second line, such as the interval


@dataclass(frozen=True)
class TableRow:
    """A row of a table."""

    name: str
    cells: Sequence[TableCell]
    chosen: str = ""  # settings chosen on validation
    recommended: bool = False
    failed: bool = False  # no training succeeded
    emphasised: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """A table with titled groups of columns and of rows."""

    columns: Sequence[tuple[str, Sequence[str]]]
    groups: Sequence[tuple[str, Sequence[TableRow]]]


def error_table(comparison: Comparison) -> HtmlTable:
    """Return the paper's table: RMSE and MAPE of all steps and of each, simple models first."""
    rows = [row for row in comparison.shown if row.of is None]
    groups = _shown_groups(comparison)
    heads = [group.label for group in groups]
    builder = _ErrorRows(comparison, rows, groups)
    kinds = (
        ("Simple models", [row for row in rows if row.estimator in SIMPLE_MODELS]),
        ("Networks", [row for row in rows if is_network(row.estimator)]),
        (
            "Other models",
            [r for r in rows if r.estimator not in SIMPLE_MODELS and not is_network(r.estimator)],
        ),
    )
    titled = [
        (title, [builder.row(row) for row in several]) for title, several in kinds if several
    ]
    return HtmlTable([(TITLES[figure], heads) for figure in FIGURES], titled)


def ablation_table(comparison: Comparison) -> HtmlTable | None:
    """Return the errors of each variant of a model; None without variants."""
    variants = [r for r in comparison.rows if r.of is not None and r.refit_days is None]
    bases = {row.of for row in variants}
    rows = [row for row in comparison.rows if row.name in bases]
    if not variants:
        return None
    builder = _ErrorRows(comparison, [*rows, *variants], _shown_groups(comparison)[:1])
    tested = {row.name: row for row in comparison.tested}

    def change(row: ModelResult) -> list[TableCell]:
        base = tested.get(row.of or "")
        difference = comparison.compare(row, base).rmse if base and row.results else None
        return [TableCell(format_difference(difference))]

    lines = [builder.row(row, change) for row in (*rows, *variants)]
    return HtmlTable(
        [(TITLES[f], [""]) for f in FIGURES] + [("Change of RMSE", [""])], [("", lines)]
    )


def freshness_table(comparison: Comparison) -> HtmlTable | None:
    """Return what refits on the way are worth and cost; None without any."""
    if not comparison.freshness:
        return None
    lines = []
    for fresh in comparison.freshness:
        cells = [TableCell(f"{fresh.refits:,}")]
        for metric, pair in zip(FIGURES, (fresh.rmse, fresh.mape), strict=True):
            cells += [
                TableCell(_show(SeedMean(m), metric)) for m in (pair.unchanged, pair.refitted)
            ]
            cells.append(TableCell(format_difference(getattr(fresh.difference, metric))))
        cells += [TableCell(format_cost(fresh.seconds)), TableCell(format_share(fresh.share))]
        lines.append(TableRow(fresh.model, cells))
    heads = ["unchanged", "refitted", "change"]
    columns = [("", ["refits"]), *((TITLES[figure], heads) for figure in FIGURES)]
    return HtmlTable([*columns, ("Cost", ["s per refit", "% of a training"])], [("", lines)])


def refit_month_table(comparison: Comparison) -> HtmlTable | None:
    """Return the change of the errors by refits in each month; None with one month or none."""
    fresh = comparison.freshness
    if not fresh or len(fresh[0].months) < 2:  # noqa: PLR2004 (nothing to compare)
        return None
    lines = []
    for number, month in enumerate(fresh[0].months):
        pairs = [pair for f in fresh for pair in (f.months[number].rmse, f.months[number].mape)]
        cells = [TableCell(format_change(asdict(pair))) for pair in pairs]
        lines.append(TableRow(month.month, cells))
    heads = [TITLES["rmse"], "MAPE"]
    return HtmlTable([(f"{f.model}, change in %", heads) for f in fresh], [("", lines)])


def weather_table(comparison: Comparison) -> HtmlTable | None:
    """Return the errors by source of the future weather; None if there is only one."""
    weathers = comparison.weathers
    if len(weathers) < 2:  # noqa: PLR2004 (nothing to compare)
        return None
    lines = []
    for row in comparison.tested:
        spreads = [(f, row.seed_means(f, weather)[0]) for f in FIGURES for weather in weathers]
        lines.append(TableRow(row.name, [TableCell(_show(spread, f)) for f, spread in spreads]))
    return HtmlTable([(TITLES[figure], weathers) for figure in FIGURES], [("", lines)])


def interval_table(comparison: Comparison) -> HtmlTable | None:
    """Return coverage, width and pinball loss of the intervals of each model."""
    rows = [row for row in comparison.tested if row.first.interval_results is not None]
    if not rows:
        return None
    groups, best = _shown_groups(comparison), comparison.recommended
    losses = [row.interval_seed_means("pinball", "online")[0].mean for row in rows]
    further = {"width": "Width", "pinball": "Pinball loss"}
    if any(row.interval_seed_means("randomised", "online")[0].mean is not None for row in rows):
        further = {"randomised": "Randomised %", **further}
    lowest = min((loss for loss in losses if loss is not None), default=None)
    lines = []
    for row, loss in zip(rows, losses, strict=True):
        coverage = [
            spread
            for mode in CALIBRATION_MODES
            for spread in row.interval_group_means("coverage", mode, groups)
        ]
        further_scores = [
            (f, row.interval_seed_means(f, mode)[0]) for f in further for mode in CALIBRATION_MODES
        ]
        figures = [*(("coverage", spread) for spread in coverage), *further_scores]
        cells = [TableCell(format_mean(spread.mean, figure)) for figure, spread in figures]
        cells[-1] = replace(cells[-1], best=loss is not None and loss == lowest)
        lines.append(TableRow(row.name, cells, recommended=row is best))
    heads = [group.label for group in groups]
    columns = [(f"Coverage %, {mode}", heads) for mode in CALIBRATION_MODES]
    columns += [(title, list(CALIBRATION_MODES)) for title in further.values()]
    return HtmlTable(columns, [("", lines)])


def cost_table(comparison: Comparison) -> HtmlTable:
    """Return further errors, differences to the reference, size and time of each model."""
    reference = comparison.reference
    relative = f"Relative to {reference.name}" if reference else ""
    lines = []
    for row in comparison.unchanged:
        difference = comparison.differences.get(row.name)
        differences = [format_difference(getattr(difference, f, None)) for f in FIGURES]
        weather, costs = comparison.weathers[0], row.costs()
        errors = [_show(row.seed_means(f, weather)[0], f) for f in ("mae", "wape")]
        errors.append(format_bias(row.seed_means("bias", weather)[0].mean))
        sizes = [f"{len(row.results)}", f"{costs['parameters']:,}"]
        times = [format_cost(costs[name]) for name in ("seconds", "milliseconds")]
        texts = [*errors, *(differences if reference else ()), *sizes, *times]
        lines.append(TableRow(row.name, [TableCell(text) for text in texts]))
    columns = [
        ("Errors", [TITLES["mae"], TITLES["wape"], TITLES["bias"]]),
        (relative, ["RMSE", "MAPE"]),
        ("Cost", ["trainings", "parameters", "training s", "forecast ms"]),
    ]
    return HtmlTable(columns if reference else [columns[0], columns[2]], [("", lines)])


class _ErrorRows:
    """Builds rows with bars; all bars of a figure share one scale."""

    def __init__(
        self, comparison: Comparison, rows: Sequence[ModelResult], groups: Sequence[StepGroup]
    ) -> None:
        self._comparison, self._groups = comparison, groups
        self._spreads = {row.name: self._read(row) for row in rows if row.results}
        best = comparison.recommended
        self._recommended = best.name if best else None

    def _read(self, row: ModelResult) -> list[tuple[str, SeedMean]]:
        weather = self._comparison.weathers[0]
        spreads: Mapping[str, Sequence[SeedMean]] = {
            f: row.group_means(f, weather, self._groups) for f in FIGURES
        }
        return [(figure, spread) for figure in FIGURES for spread in spreads[figure]]

    def row(
        self, row: ModelResult, further: Callable[[ModelResult], list[TableCell]] = lambda _: []
    ) -> TableRow:
        """Return the table row of a model, with further cells at its end."""
        chosen = chosen_text(row.chosen)
        if row.name not in self._spreads:
            cells = [TableCell("failed")] * (len(FIGURES) * len(self._groups))
            return TableRow(row.name, [*cells, *further(row)], chosen, failed=True)
        cells = [
            self._cell(column, figure) for column, figure in enumerate(self._spreads[row.name])
        ]
        return TableRow(
            row.name, [*cells, *further(row)], chosen, recommended=row.name == self._recommended
        )

    def _cell(self, column: int, metric_score: tuple[str, SeedMean]) -> TableCell:
        figure, spread = metric_score
        if spread.mean is None:
            return TableCell("n/a")
        models = self._spreads.values()
        means = [s.mean for spreads in models for f, s in spreads if f == figure and s.mean]
        column_means = [spreads[column][1].mean for spreads in models]
        lowest = min(mean for mean in column_means if mean is not None)
        share = round(100 * spread.mean / max(means)) if means else 0
        return TableCell(_show(spread, figure), share, spread.mean == lowest)


def _show(spread: SeedMean, figure: str) -> str:
    return "n/a" if spread.mean is None else format_score(asdict(spread), figure)


def _shown_groups(comparison: Comparison) -> list[StepGroup]:
    """Return the columns to show: all steps ahead, then some steps or groups of steps."""
    K, groups = comparison.horizon, comparison.step_groups
    whole = StepGroup("all", 1, K)
    if K <= 1:
        return [whole]
    if K > ALL_STEPS and len(groups) > MOST_GROUPS:
        chosen = np.linspace(0, len(groups) - 1, MOST_GROUPS - 1).round().astype(int)
        return [whole, *(groups[n] for n in chosen.tolist())]
    if FEW_STEPS < K <= ALL_STEPS:
        return [whole, *(groups[k - 1] for k in (1, (K + 1) // 2, K))]
    return [whole, *groups]
