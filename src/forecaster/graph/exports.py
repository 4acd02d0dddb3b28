"""Exports of a graph: GraphML, GeoJSON, or a long table as CSV or Parquet."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Float64

from forecaster.errors import ConfigError, DataError
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.parts import Locations
from forecaster.publish.writing import bytes_writer, replace_file

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NODE_KEYS = {"id": "string", "name": "string", "lat": "double", "lon": "double", "degree": "int"}
_EDGE_KEYS = {"strength": "double", "distance_km": "double"}


def export_graph(graph: DependencyGraph, path: Path | str) -> None:
    """Write a graph in the format of the path's suffix, atomically."""
    check_export(graph.locations, Path(path))
    write = _FORMATS[Path(path).suffix]
    replace_file(Path(path), bytes_writer(write(graph)))


def check_export(locations: Locations, path: Path) -> None:
    """Refuse an unknown suffix, and GeoJSON without coordinates."""
    if path.suffix not in _FORMATS:
        formats = ", ".join(_FORMATS)
        raise ConfigError(f"{path}: a graph is exported as {formats}; choose such a suffix")
    if path.suffix == ".geojson" and not locations.placed.any():
        message = "graph: no location has coordinates, which GeoJSON needs"
        raise DataError(f"{message}; add lat and lon to the panel's locations, or write .graphml")


def to_table(graph: DependencyGraph) -> pa.Table:
    """Return one row per edge: `source`, `target`, `strength`, `distance_km` (null: unknown).

    If directed, with a column `delay`.
    """
    source, target = (pa.array([graph.locations.ids[n] for n in end]) for end in graph.pairs.T)
    lengths = pa.array(graph.lengths_km, from_pandas=True)
    ends = {"source": source.cast(pa.string()), "target": target.cast(pa.string())}
    delays = {} if graph.delays is None else {"delay": graph.delays}
    return pa.table({**ends, "strength": graph.strengths, **delays, "distance_km": lengths})


def to_graphml(graph: DependencyGraph) -> bytes:
    """Return the graph as GraphML, with all names escaped."""
    root = ET.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    delays = [] if graph.delays is None else [graph.delays]
    edge_keys = _EDGE_KEYS | ({"delay": "int"} if graph.is_directed else {})
    for domain, keys in (("node", _NODE_KEYS), ("edge", edge_keys)):
        for name, kind in keys.items():
            about = {"id": f"{domain}_{name}", "for": domain, "attr.name": name}
            ET.SubElement(root, "key", {**about, "attr.type": kind})
    direction = "directed" if graph.is_directed else "undirected"
    body = ET.SubElement(root, "graph", edgedefault=direction)
    places = graph.locations
    for n, columns in enumerate(
        zip(places.ids, places.names, places.lat, places.lon, graph.degrees, strict=True)
    ):
        node = ET.SubElement(body, "node", id=f"n{n}")
        _add_data(node, "node", dict(zip(_NODE_KEYS, columns, strict=True)))
    for (a, b), *row in zip(graph.pairs, graph.strengths, graph.lengths_km, *delays, strict=True):
        edge = ET.SubElement(body, "edge", source=f"n{a}", target=f"n{b}")
        _add_data(edge, "edge", dict(zip(edge_keys, row, strict=True)))
    ET.indent(root, " ")
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def to_geojson(graph: DependencyGraph) -> bytes:
    """Return a point for every location and a line for every edge.

    Without coordinates the geometry is null.
    """
    places = graph.locations
    at = np.column_stack([places.lon, places.lat])
    features = []
    for n, (identity, name) in enumerate(zip(places.ids, places.names, strict=True)):
        properties = {"id": identity, "name": name, "degree": int(graph.degrees[n])}
        features.append(_feature("Point", at[n], properties))
    for row, pair in zip(to_table(graph).to_pylist(), graph.pairs, strict=True):
        features.append(_feature("LineString", at[pair], row))
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, ensure_ascii=False, allow_nan=False).encode()


def _to_csv(graph: DependencyGraph) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(to_table(graph), sink)
    return sink.getvalue()


def _to_parquet(graph: DependencyGraph) -> bytes:
    sink = io.BytesIO()
    pq.write_table(to_table(graph), sink, compression="zstd")
    return sink.getvalue()


def _add_data(element: ET.Element, domain: str, columns: dict[str, Any]) -> None:
    """Add the known values, numbers at full precision; characters invalid in XML become �."""
    for name, value in columns.items():
        if isinstance(value, float) and np.isnan(value):
            continue
        text = value if isinstance(value, str) else repr(value.item())
        data = ET.SubElement(element, "data", key=f"{domain}_{name}")
        data.text = _NOT_XML.sub("\ufffd", text)


def _feature(
    kind: str, at: Float64[np.ndarray, "*points 2"], properties: dict[str, Any]
) -> dict[str, Any]:
    geometry = {"type": kind, "coordinates": at.tolist()} if np.isfinite(at).all() else None
    return {"type": "Feature", "geometry": geometry, "properties": properties}


_FORMATS: dict[str, Callable[[DependencyGraph], bytes]] = {
    ".graphml": to_graphml,
    ".geojson": to_geojson,
    ".csv": _to_csv,
    ".parquet": _to_parquet,
}
