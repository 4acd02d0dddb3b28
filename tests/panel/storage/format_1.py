"""Panels in format 1, as programs before blocks of steps wrote them: one column per location."""

from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa

from forecaster.panel.panel import Panel
from forecaster.panel.parquet import write_table
from forecaster.panel.storage.tables import TIME, locations_writer
from forecaster.publish.writing import Draft, Writer, publish


def matrix_writer(times: np.ndarray, names: Sequence[str], values: np.ndarray) -> Writer:
    """Return a function that writes one row per step and one column per name, NaN as null."""

    def write(sink: BufferedIOBase) -> None:
        stamps = pa.array(times.astype("datetime64[ms]")).cast(TIME)
        columns = [pa.array(np.ascontiguousarray(c), from_pandas=True) for c in values.T]
        table = pa.table([stamps, *columns], names=["time", *names])
        write_table(table, sink)

    return write


def save_format_1(panel: Panel, folder: Path) -> str:
    """Publish a panel in format 1, and return its hash."""
    ids, about = panel.locations.ids, panel._about()
    del about["covariates"]  # then the columns of a file
    shared = panel.covariates
    files = {
        "values.parquet": matrix_writer(panel.times, ids, panel.values),
        "locations.parquet": locations_writer(panel.locations),
        "covariates.parquet": matrix_writer(panel.known_times, shared.names, shared.values),
    }
    for number, layer in enumerate(panel.local_covariates.values):
        name = f"local_covariates_{number}.parquet"
        files[name] = matrix_writer(panel.known_times, ids, layer)
    return publish(folder, Draft("panel", 1, files, about)).digest
