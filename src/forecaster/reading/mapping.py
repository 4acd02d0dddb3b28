"""Column mappings given as text: `time=when,lat=y,lon=x`; a name with a comma stands in quotes."""

from collections.abc import Sequence

from forecaster.errors import Faults, nearest_name


def quote_name(column: str) -> str:
    """Return the name of a column as it stands in a mapping."""
    return f'"{column}"' if "," in column else column


def split_quoted(text: str) -> list[str]:
    """Return the parts of a text between its commas; those in double quotes divide nothing."""
    parts = [""]
    quoted = False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def parse_pairs(text: str, fields: Sequence[str], example: str, faults: Faults) -> dict[str, str]:
    """Return the column of each field; malformed parts are added to the faults."""
    columns: dict[str, str] = {}
    for part in split_quoted(text):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column or field not in fields:
            hint = "" if field in fields else nearest_name(field, list(fields))
            faults.add(f"{part!r} is not a mapping{hint}; give e.g. {example}")
        elif field in columns:
            faults.add(f"{field}: given twice, as {columns[field]!r} and {column!r}")
        else:
            columns[field] = column
    return columns
