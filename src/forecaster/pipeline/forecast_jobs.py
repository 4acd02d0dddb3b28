"""Forecasts of many origins, panels and runs: one after the other, or as a Spark job.

A job is a row of a table: the folders of a run and of its panel, and perhaps an origin and the
weather ahead. On Spark the jobs are shared by the workers (`mapInArrow`), which all must see the
folders, and whose Python must have this package. Spark pickles this module's functions by name on
their way to the workers; no file is pickled.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.choices import JobEngine, Weather
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.registry import load_estimator
from forecaster.estimators.table import quantile_name
from forecaster.ingest.demand.engine import spark_session
from forecaster.panel.panel import Panel
from forecaster.pipeline.trials import failure_reason
from forecaster.publish.manifest import read_manifest
from forecaster.publish.writing import replace_file
from forecaster.reading.load import Table, load

JOBS_AT_ONCE = 16  # of one worker, so that workers end at about the same time
TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, order=True)
class ForecastJob:
    """One forecast of all locations of a panel."""

    run: str  # folders
    panel: str
    at: str | None = None  # the origin; None: the last observed step
    weather: str = "observed"


def read_jobs(source: Table) -> list[ForecastJob]:
    """Read jobs from a table of `run` and `panel`, and perhaps `at` and `weather`."""
    names = [field.name for field in fields(ForecastJob)]
    table, name = load(source, texts=names)
    missing = [column for column in ("run", "panel") if column not in table.column_names]
    if missing:
        present = name_some(table.column_names)
        raise DataError(f"{name}: no column {' and '.join(missing)}; its columns are {present}")
    columns = {n: table[n].to_pylist() for n in names if n in table.column_names}
    faults, jobs = Faults(name), []
    for number, row in enumerate(zip(*columns.values(), strict=True), start=1):
        given = {
            n: value for n, value in zip(columns, row, strict=True) if value not in (None, "")
        }
        for folder in ("run", "panel"):
            if not Path(given.get(folder, "")).is_dir() or folder not in given:
                faults.add(f"row {number}: {folder} {given.get(folder, '')!r} is no folder")
        if given.get("weather", "observed") not in get_args(Weather):
            known = ", ".join(get_args(Weather))
            faults.add(f"row {number}: weather {given['weather']!r}; choose one of {known}")
        folders = {n: str(Path(given.get(n, "")).resolve()) for n in ("run", "panel")}
        jobs.append(ForecastJob(**{**given, **folders}))
    if not jobs:
        faults.add("no rows; one for each forecast is needed")
    faults.raise_any(DataError)
    return jobs


def forecast_jobs(jobs: Sequence[ForecastJob], out: Path, engine: JobEngine = "process") -> str:
    """Write the forecasts of all jobs as Parquet files in a new folder; return what it holds.

    The columns are those of `Estimator.forecast` with the job's before them and `failure`, the
    reason of a job without a forecast, which has one row.

    Args:
        jobs: in any order.
        out: the folder, which must not exist.
        engine: `process`: one after the other in this process; `spark`: on the active Spark
            session, or on one of this machine.
    """
    if out.exists():
        raise ConfigError(f"{out}: exists already; choose another folder for the forecasts")
    ordered = sorted(jobs, key=lambda job: tuple(value or "" for value in astuple(job)))
    schema = _schema(ordered)
    if engine == "spark":
        _write_on_spark(ordered, schema, out)
    else:
        table = pa.Table.from_batches(_forecast_all(ordered, schema), schema)
        replace_file(out / "forecasts.parquet", partial(pq.write_table, table))
    failures = pq.read_table(out, columns=["failure"])["failure"].drop_null()
    rows = sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
    text = f"{count_of(rows - len(failures), 'row')} of {count_of(len(jobs), 'forecast')}"
    if len(failures):
        text += (
            f"; {count_of(len(failures), 'forecast')} failed: {name_some(failures.to_pylist())}"
        )
    return text


def _schema(jobs: Sequence[ForecastJob]) -> pa.Schema:
    """The columns of the forecasts of all jobs; runs with other quantiles are refused."""
    levels = {run: _levels(run) for run in dict.fromkeys(job.run for job in jobs)}
    first = next(iter(levels))
    others = [run for run, values in levels.items() if values != levels[first]]
    if others:
        raise ConfigError(
            f"{first} has the quantiles {levels[first]}, {name_some(others)} others; forecast "
            "runs of the same quantiles together"
        )
    named = {quantile_name(level): pa.float64() for level in levels[first]}
    parts = {
        **{field.name: pa.string() for field in fields(ForecastJob)},
        "unique_id": pa.string(), "ds": TIME, "ds_local": pa.string(), "cutoff": TIME,
        "y_hat": pa.float64(), "y_relative": pa.float64(), **named,
        "degraded": pa.string(), "fallback": pa.string(), "failure": pa.string(),
    }  # fmt: skip
    return pa.schema(list(parts.items()))


def _levels(run: str) -> tuple[float, ...]:
    """The quantile levels of a run, which is not loaded."""
    return _estimator(run, str(read_manifest(Path(run), kind="run").digest)).quantile_levels


@lru_cache(maxsize=2)
def _estimator(run: str, _: str) -> Estimator:
    """The estimator of a run with a digest: the jobs of a run follow each other."""
    return load_estimator(Path(run))


@lru_cache(maxsize=2)
def _panel(panel: str, _: str) -> Panel:
    return Panel.open(Path(panel))


def _forecast_all(jobs: Sequence[ForecastJob], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the forecast of each job; a job that fails yields its reason."""
    for job in jobs:
        try:
            yield _forecast(job, schema)
        except Exception as error:  # any error: the other jobs go on
            row = {**vars(job), "failure": failure_reason(error)}
            yield _complete({name: [value] for name, value in row.items()}, 1, schema)


def _forecast(job: ForecastJob, schema: pa.Schema) -> pa.RecordBatch:
    digests = (read_manifest(Path(folder)).digest for folder in (job.run, job.panel))
    run, panel = (str(digest) for digest in digests)
    estimator, data = _estimator(job.run, run), _panel(job.panel, panel)
    table = estimator.forecast(data, job.at, weather=job.weather)  # type: ignore[arg-type]
    columns: dict[str, Any] = {
        name: table[name].to_numpy() for name in table.columns if name in schema.names
    }
    columns |= {name: [value] * len(table) for name, value in vars(job).items()}
    for name in ("ds", "cutoff"):
        columns[name] = table[name].dt.tz_convert(None).to_numpy().astype("datetime64[us]")
    return _complete(columns, len(table), schema)


def _complete(columns: Mapping[str, Any], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with all columns of the schema; those that are not there are null."""
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows, field.type))
        elif field.type == TIME:
            arrays.append(pa.array(values, pa.timestamp("us")).cast(TIME))
        else:
            arrays.append(pa.array(values, field.type, from_pandas=True))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_on_spark(jobs: Sequence[ForecastJob], schema: pa.Schema, out: Path) -> None:
    """Let the workers of Spark forecast and write; part files appear when all are written."""
    session = spark_session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (an extra)

    rows = [(number, *astuple(job)) for number, job in enumerate(jobs)]
    named = ", ".join(f"{field.name} string" for field in fields(ForecastJob))
    frame = session.createDataFrame(rows, f"number long, {named}")
    parts = max(len(jobs) // JOBS_AT_ONCE, min(len(jobs), os.cpu_count() or 1))
    work = partial(_work, schema=schema.serialize().to_pybytes())
    forecasts = frame.repartitionByRange(parts, "number").mapInArrow(
        work, from_arrow_schema(schema)
    )
    forecasts.write.parquet(str(out.resolve()))


def _work(batches: Iterator[pa.RecordBatch], *, schema: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the forecasts of a worker's jobs."""
    whole = pa.ipc.read_schema(pa.py_buffer(schema))
    for batch in batches:
        rows = batch.drop_columns(["number"]).to_pylist()
        yield from _forecast_all([ForecastJob(**row) for row in rows], whole)
