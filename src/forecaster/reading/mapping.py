"""Column mappings given as text: `time=when,lat=y,lon=x`."""

from collections.abc import Sequence

from forecaster.errors import Faults, nearest_name


def parse_pairs(text: str, fields: Sequence[str], example: str, faults: Faults) -> dict[str, str]:
    """Return the column of each field; malformed parts are added to the faults."""
    columns: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column or field not in fields:
            hint = "" if field in fields else nearest_name(field, list(fields))
            faults.add(f"{part!r} is not a mapping{hint}; give e.g. {example}")
        elif field in columns:
            faults.add(f"{field}: given twice, as {columns[field]!r} and {column!r}")
        else:
            columns[field] = column
    return columns
