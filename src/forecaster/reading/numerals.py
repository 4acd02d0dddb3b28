"""Numbers written as text: decimal commas, groups of thousands, and units such as $, % or kWh.

Negative ones may be written as (112.50) or 112.50-.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from forecaster.choices import DecimalMark

_SPACES = "'’\u00a0\u202f "  # between thousands, beside the other mark
# A shared sign of money or percent, or a unit after a space: letters alone may belong to an id.
_UNIT = re.compile(
    r"[+-]?(?P<before>[$€£¥₹]|(?:USD|EUR|GBP|CHF)(?=\s))?\s*"
    rf"[+-]?(?:\d[\d.,{_SPACES}]*?|[.,]\d+)"
    r"\s*(?P<after>[%‰€$£¥°µ][^\d\s]{0,5}|(?<=\s)[^\W\d][^\d\s]{0,7})?"
)
_IN_PARENTHESES = r"^\((.*\d.*)\)$"  # as accounts write what is negative
_MINUS_BEHIND = r"^([^-+(]*\d[^-]*)-$"  # as SAP does
_PLACEHOLDERS = (
    *("-", "--", "---", "–", "—", ".", "..", "...", "…", ":", "*", "n.a.", "k.A.", "n/v", "N/V"),
    *("NaT", "nil", "#REF!", "#VALEUR!", "#NAME?", "#NUM!", "#NULL!"),
    *("unavailable", "unknown", "No data", "no data", "NoData"),
    *("closed", "geschlossen", "fermé", "ferme", "cerrado", "chiuso", "gesloten", "fechado"),
    *("Closed", "Geschlossen", "Fermé", "Ferme", "Cerrado", "Chiuso", "Gesloten", "Fechado"),
    *("zamknięte", "休業", "休館", "定休日"),
)  # in place of a number
_SAMPLE = 200  # texts by which the unit of a column is found
_GROUPS = {",": f"[.{_SPACES}]", ".": f"[,{_SPACES}]"}


def convert_numerals(
    table: pa.Table,
    decimal: DecimalMark,
    missing: Sequence[str] = (),
    texts: Collection[str] = (),
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return a table whose text columns of numbers are numbers, and what was read as missing.

    Where most texts of a column are numbers, `-`, `..` and the like are missing; other texts stay
    as they are, and are refused later with their rows.

    Args:
        table: as it was read.
        decimal: the decimal mark.
        missing: texts that stand for a missing value.
        texts: columns that stay as they are written, in small letters.
    """
    placeholders = Counter[str]()
    for index, field in enumerate(table.schema):
        if field.type == pa.string() and field.name.strip().lower() not in texts:
            column = _convert(table.column(index), decimal, missing, placeholders)
            table = table.set_column(index, field.name, column)
    return table, tuple(f"{text!r} read as missing ({n:,})" for text, n in placeholders.items())


def without_unit(text: str) -> str:
    """Return a number without its unit: `5,216.25` of `$5,216.25`; other texts as they are."""
    text = re.sub(_MINUS_BEHIND, r"-\1", re.sub(_IN_PARENTHESES, r"-\1", text.strip()))
    before, after = _affixes([text])
    return text.replace(before, "", 1).removesuffix(after).strip()


def _affixes(texts: Iterable[str]) -> tuple[str, str]:
    """Return the first sign before or after a number of some texts."""
    for match in filter(None, (_UNIT.fullmatch(text.strip()) for text in texts)):
        if match["before"] or match["after"]:
            return match["before"] or "", match["after"] or ""
    return "", ""


def _without_units(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    before, after = _affixes(texts.slice(0, _SAMPLE).drop_null().to_pylist())
    if before:
        texts = pc.replace_substring_regex(texts, rf"^([+-]?){re.escape(before)}\s*", r"\1")
    return pc.replace_substring_regex(texts, rf"\s*{re.escape(after)}$", "") if after else texts


def _convert(
    column: pa.ChunkedArray,
    decimal: DecimalMark,
    missing: Sequence[str],
    placeholders: Counter[str],
) -> pa.ChunkedArray:
    texts = pc.utf8_trim_whitespace(column)
    if missing:
        marked = pc.is_in(texts, value_set=pa.array(missing, pa.string()))
        texts = pc.if_else(marked, pa.scalar(None, pa.string()), texts)
    plain = texts if missing else column
    texts = pc.replace_substring_regex(texts, _IN_PARENTHESES, r"-\1")
    texts = pc.replace_substring_regex(texts, _MINUS_BEHIND, r"-\1")
    texts = _without_units(texts)
    group = _GROUPS[decimal]
    mark = "," if decimal == "," else r"\."
    number = rf"^[+-]?(\d{{1,3}}({group}\d{{3}})+|\d+)?({mark}\d*)?([eE][+-]?\d+)?$"
    has_digit = pc.match_substring_regex(texts, r"^[^\pL]*\d")
    matches = pc.and_(pc.match_substring_regex(texts, number), has_digit)
    padded = pc.match_substring_regex(texts, r"^[+-]?0\d")  # an id such as 007
    share = pc.sum(matches).as_py() or 0
    count = len(texts) - texts.null_count
    if not count or share * 2 < count or pc.any(padded).as_py():
        return plain
    plain = pc.replace_substring_regex(texts, group, "")
    plain = pc.replace_substring(plain, ",", ".") if decimal == "," else plain
    if share < count:
        stand_in = pc.is_in(texts, value_set=pa.array(_PLACEHOLDERS, pa.string()))
        placeholders.update(texts.filter(stand_in).to_pylist())
        plain = pc.if_else(stand_in, pa.scalar(None, pa.string()), plain)
        matches = pc.or_(matches, stand_in)
    if (pc.sum(matches).as_py() or 0) == count:
        return plain.cast(pa.float64())
    return pc.if_else(matches, plain, texts)
