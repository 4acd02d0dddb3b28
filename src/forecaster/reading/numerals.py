"""Numbers written as text: decimal commas, groups of thousands, and units such as $, % or kWh."""

import re
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
_SAMPLE = 200  # texts by which the unit of a column is found
_GROUPS = {",": f"[.{_SPACES}]", ".": f"[,{_SPACES}]"}


def convert_numerals(
    table: pa.Table,
    decimal: DecimalMark,
    missing: Sequence[str] = (),
    texts: Collection[str] = (),
) -> pa.Table:
    """Return a table whose text columns of numbers are numbers.

    Where most texts of a column are numbers, the others stay as they are, and are refused later
    with their rows.

    Args:
        table: as it was read.
        decimal: the decimal mark.
        missing: texts that stand for a missing value.
        texts: columns that stay as they are written, in small letters.
    """
    for index, field in enumerate(table.schema):
        if field.type == pa.string() and field.name.strip().lower() not in texts:
            column = _convert(table.column(index), decimal, missing)
            table = table.set_column(index, field.name, column)
    return table


def without_unit(text: str) -> str:
    """Return a number without its unit: `5,216.25` of `$5,216.25`; other texts as they are."""
    before, after = _affixes([text])
    return text.strip().replace(before, "", 1).removesuffix(after).strip()


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
    column: pa.ChunkedArray, decimal: DecimalMark, missing: Sequence[str]
) -> pa.ChunkedArray:
    texts = pc.utf8_trim_whitespace(column)
    if missing:
        marked = pc.is_in(texts, value_set=pa.array(missing, pa.string()))
        texts = pc.if_else(marked, pa.scalar(None, pa.string()), texts)
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
        return column if not missing else texts
    plain = pc.replace_substring_regex(texts, group, "")
    plain = pc.replace_substring(plain, ",", ".") if decimal == "," else plain
    if share == count:
        return plain.cast(pa.float64())
    return pc.if_else(matches, plain, texts)
