"""Long or wide tables to a panel: columns recognised, several files joined, gaps completed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from forecaster.config import PanelConfig, TableConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some
from forecaster.ingest.files import TimeSpan, parse_span
from forecaster.panel.axis import Step
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.panel.tables.absent import refuse_null_rows
from forecaster.panel.tables.assemble import SideTables
from forecaster.panel.tables.sums import leave_out
from forecaster.panel.tables.table_rows import (
    Steps,
    TableRows,
    read_rows,
    read_shared,
    split_ahead,
)
from forecaster.reading.load import Table


def ingest_table(  # noqa: PLR0913 (a table, and what it is joined with)
    sources: Table | Sequence[Path | pa.Table],
    config: PanelConfig,
    rules: TableConfig,
    locations: Table | Locations | None,
    renames: Table | None = None,
    covariates: Table | None = None,
    *,
    learned: Sequence[TimeSpan] = (),
) -> tuple[Panel, TableRows]:
    """Return the panel of a table, and how the table was read.

    Args:
        sources: the values: a table, or several files of one.
        config: of the panel.
        rules: how the table is read.
        locations: of the values; None: nothing is known of them but their ids.
        renames: `old`, `new`, `from`: places renamed, merged or split.
        covariates: shared by all locations, with a column of times.
        learned: the training times, if they are known; busy locations are chosen by them.
    """
    flags = () if config.censored is None else (config.censored,)
    shared = None if covariates is None else read_shared(covariates, rules)
    past_only = [n for n in config.past_only if shared is None or n not in shared.column_names]
    beside = tuple(dict.fromkeys((*flags, *past_only, *rules.known_ahead)))
    on = Steps(Step(config.step_minutes, config.step_months), config.timezone)
    rows = read_rows(sources, config.kind, rules, beside, on)
    if config.gaps == "zero":
        refuse_null_rows(rows)
    values, ahead = split_ahead(leave_out(rows.series, rules.leave_out), rules.known_ahead)
    tables = SideTables(locations, shared, ahead, renames)
    panel = Panel.from_series(values, config, tables)
    return _keep_busy(with_static(panel, rules.static), rules, learned), rows


# ------------------------------------------------------------------------------- the panel


def with_static(panel: Panel, names: Sequence[str]) -> Panel:
    """Return the panel with numbers of its locations as covariates that never change.

    They are past-only: a model carries them ahead as they are.
    """
    if not names:
        return panel
    missing = [name for name in names if name not in panel.locations.extra]
    if missing:
        columns = name_some(panel.locations.extra) or "none"
        raise DataError(
            f"static = {name_some(missing)}: no such column of the locations; found: {columns}"
        )
    local, extra = panel.local_covariates, panel.locations.extra
    layers = np.array([extra[n] for n in names], dtype=np.float32)  # null becomes NaN
    steps = local.values.shape[1]
    constant = np.repeat(layers[:, None], steps, axis=1)
    joined = LocalCovariates(
        (*local.names, *names),
        np.concatenate([local.values, constant]),
        (*local.past_only, *names),
    )
    return replace(panel, local_covariates=joined, digest=None).without_unseen()


def _keep_busy(panel: Panel, rules: TableConfig, learned: Sequence[TimeSpan]) -> Panel:
    """Return the panel without locations whose mean is below the minimum.

    The mean is that of the hours of the rules, of the training times, or of all.
    """
    if rules.min_demand is None:
        if rules.demand_hours:
            message = "they are those of min_demand, which is not set; give both, or neither"
            raise ConfigError(f"demand hours {rules.demand_hours}: {message}")
        return panel
    spans = [parse_span(rules.demand_hours)] if rules.demand_hours else learned
    inside, local = np.full(len(panel.values), not spans), panel.clock.local(panel.times)
    for span in spans:
        inside |= (local >= span.first) & (local < span.end)
    if not inside.any():
        raise ConfigError(f"demand hours {rules.demand_hours or 'of training'}: not in the table")
    observed = np.isfinite(panel.values[inside])
    total = np.where(observed, panel.values[inside], 0).sum(axis=0, dtype=np.float64)
    mean = total / np.maximum(observed.sum(axis=0), 1)
    busy = [i for i, m in zip(panel.locations.ids, mean, strict=True) if m >= rules.min_demand]
    if not busy:
        message = f"none of {count_of(len(mean), 'location')} has a mean of {rules.min_demand:g}"
        raise DataError(f"{message}; the largest is {mean.max():g}: lower min_demand")
    return panel.select(tuple(busy))
