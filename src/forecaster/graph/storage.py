"""The files of a graph: edges and locations as Parquet, validated when read."""

from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.panel.parquet import read_table
from forecaster.panel.parts import Locations
from forecaster.publish.manifest import file_path, read_manifest, verify_files
from forecaster.publish.writing import Draft, Writer, bytes_writer, publish
from forecaster.recipe import Recipe, check_stage

FORMAT = 2  # of the files of a directed graph; a newer one is refused
UNDIRECTED_FORMAT = 1  # of all other graphs, which earlier versions read too
EDGES = pa.schema([("source", pa.string()), ("target", pa.string()), ("strength", pa.float64())])
DIRECTED_EDGES = EDGES.append(pa.field("delay", pa.int64()))
PLACES = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("degree", pa.int64()),
    ]
)


def save_graph(
    graph: DependencyGraph, folder: Path | str, recipe: Recipe | None = None
) -> DependencyGraph:
    """Publish a graph as a folder, and return it with its hash.

    Args:
        graph: the graph.
        folder: destination; an existing graph becomes an older version.
        recipe: saved with the graph.
    """
    locations = graph.locations
    ends = np.array(locations.ids, dtype=object)[graph.pairs].T.reshape(2, -1)
    places = [locations.ids, locations.names, locations.lat, locations.lon, graph.degrees]
    edges = _table(EDGES, [*ends, graph.strengths])
    if graph.is_directed:
        edges = _table(DIRECTED_EDGES, [*ends, graph.strengths, graph.delays])
    tables = {
        "edges": edges,
        "locations": _table(PLACES, places),
    }
    files = {f"{name}.parquet": _writer(table) for name, table in tables.items()}
    if recipe is not None:
        files["recipe.toml"] = bytes_writer(recipe.to_toml().encode())
    draft = Draft(
        kind="graph",
        version=FORMAT if graph.is_directed else UNDIRECTED_FORMAT,
        files=files,
        about={
            "locations": len(locations),
            "location_hash": graph.location_digest,
            "edges": len(graph),
            "average_degree": graph.average_degree,
            "learned": graph.about.model_dump(mode="json"),
        },
        parents={"panel": graph.about.panel} if graph.about.panel else {},
        recipe=recipe.digest() if recipe is not None else None,
        about_bytes=sum(table.nbytes for table in tables.values()),
    )
    return replace(graph, digest=publish(Path(folder), draft).digest)


def open_graph(folder: Path | str) -> DependencyGraph:
    """Open and verify the graph of a folder."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind="graph", reads=FORMAT)
    verify_files(folder, manifest)
    about, is_directed = manifest.about, manifest.version == FORMAT
    schema = DIRECTED_EDGES if is_directed else EDGES
    try:
        places = _read(
            file_path(folder, manifest, "locations.parquet"), PLACES, about["locations"]
        )
        edges = _read(file_path(folder, manifest, "edges.parquet"), schema, about["edges"])
        graph = DependencyGraph(
            locations := _locations(places),
            _pairs(edges, locations),
            edges["strength"].to_numpy(),
            check_stage(About, about["learned"], source="manifest"),
            manifest.digest,
            edges["delay"].to_numpy() if is_directed else None,
        )
        if not np.array_equal(graph.degrees, places["degree"].to_numpy()):
            raise ValueError("its degrees do not match its edges")
        if graph.location_digest != about["location_hash"]:
            raise ValueError("its locations do not match its manifest")
    except (KeyError, TypeError, ValueError, OverflowError, DataError, ConfigError) as error:
        raise ArtifactError(f"{folder}: not a forecaster graph ({error})") from error
    return graph


def _locations(table: pa.Table) -> Locations:
    (ids, id_codes), (names, name_codes) = (_decode(table[name]) for name in ("id", "name"))
    lat, lon = (table[name].to_numpy() for name in ("lat", "lon"))
    own_ids = tuple(ids[code] for code in id_codes)
    return Locations(own_ids, tuple(names[code] for code in name_codes), lat, lon)


def _pairs(table: pa.Table, locations: Locations) -> Int64[np.ndarray, "E 2"]:
    place = {identity: n for n, identity in enumerate(locations.ids)}
    ends = []
    for name in ("source", "target"):
        ids, codes = _decode(table[name])
        ends.append(np.array([place[identity] for identity in ids], dtype=np.int64)[codes])
    return np.stack(ends, axis=1)


def _decode(column: pa.ChunkedArray) -> tuple[list[str], Int64[np.ndarray, " rows"]]:
    """Return the distinct texts of a column, and the index of each row's text."""
    encoded = column.unify_dictionaries().combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _table(schema: pa.Schema, columns: list[Any]) -> pa.Table:
    arrays = [
        pa.array(column, field.type, from_pandas=True)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def _writer(table: pa.Table) -> Writer:
    def write(sink: BufferedIOBase) -> None:
        pq.write_table(table, sink, compression="zstd", write_statistics=False)

    return write


def _read(path: Path, schema: pa.Schema, rows: int) -> pa.Table:
    """Return a table with exactly the expected columns; only coordinates may be null."""
    table = read_table(path, "graph", rows, lambda s: s.equals(schema, check_metadata=True))
    if any(table[name].null_count for name in schema.names if name not in ("lat", "lon")):
        raise ValueError(f"{path.name} contains null")
    return table
