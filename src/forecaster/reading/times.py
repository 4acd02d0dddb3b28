"""Times written as text or numbers, read by the whole column.

A column of `05/06/2022` is day-first if any of its first numbers is above 12, month-first if any
of its second ones is. Where both fit, the reader asks.
"""

import re
from collections.abc import Mapping
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64, Shaped

from forecaster.choices import DateOrder
from forecaster.errors import Faults, count_of, name_some, setting

_ISO = (
    r"^(?P<clock>\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?)?)?)"
    r"(?P<offset>Z|[+-](?:0\d|1[0-5]):?[0-5]\d)?$"  # all UTC offsets are below 16 hours
)
_CLOCK = (
    r"(?:[T ,_:-]+(?P<hour>\d{1,2})[:.h](?P<minute>\d\d)(?:[:.](?P<second>\d\d(?:[.,]0+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
)
_OFFSET = r"\s*(?P<offset>Z|UTC|GMT|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)?$"
_WEEKDAY = (  # in English, German, French and Spanish; it tells nothing that the date does not
    r"^(?:(?i:mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so|lun|mar|mer|jeu|ven|sam|dim|mié|jue"
    r"|vie|sáb|dom)[^\W\d_]*[.,]{0,2} +)?"
)
_MONTH = r"(?P<word>[^\W\d_]{3,10})\.?"
_DAY_AND_MONTH = (
    _WEEKDAY + r"(?P<one>\d{1,2})(?P<mark>[./-])(?P<two>\d{1,2})[./-](?P<year>\d{4}|(?<!-)\d\d)"
)
# The forms beside ISO 8601; each has a named group for what it tells.
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + _CLOCK + _OFFSET,
        _DAY_AND_MONTH + _CLOCK + _OFFSET,
        r"^(?P<year>(?:19|20)\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>[0-3]\d)"
        r"(?:[T :_-]?(?P<hour>[01]\d|2[0-4])(?::?(?P<minute>[0-5]\d)(?::?(?P<second>[0-5]\d))?)?)?"
        + _OFFSET,
        _WEEKDAY
        + r"(?P<day>\d{1,2})[-. /]+"
        + _MONTH
        + r"[-. ,/]+(?P<year>\d{4})"
        + _CLOCK
        + _OFFSET,
        _WEEKDAY + _MONTH + r"[ -](?P<day>\d{1,2}),? +(?P<year>\d{4})" + _CLOCK + _OFFSET,
        r"^" + _MONTH + r"[-. /]+(?P<year>\d{4})$",
        r"^" + _MONTH + r"[-. /']+(?P<year>\d\d)$",  # not the day: see `_to_iso`
        r"^(?P<year>\d{4})(?:[/.]| ?M)(?P<month>\d{1,2})$",
        r"^(?P<month>\d{1,2})[/.-](?P<year>\d{4})$",
        r"^(?P<year>(?:19|20)\d\d)(?P<month>0[1-9]|1[0-2])$",
        r"^(?P<year>\d{4})[- ]?Q(?P<quarter>[1-4])$",
        r"^Q(?P<quarter>[1-4])[- /]?(?P<year>\d{4})$",
        r"^(?P<year>\d{4})-?W(?P<week>\d\d)$",
        r"^(?P<epoch>\d{9,10}|\d{12,13}|\d{15,16}|\d{18,19})(?:\.0*)?$",
    )
)
_EPOCH_DIGITS = {9: 1, 10: 1, 12: 10**3, 13: 10**3, 15: 10**6, 16: 10**6, 18: 10**9, 19: 10**9}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MONTHS: Mapping[str, int] = {  # by the beginnings of English, German, French and Spanish names
    name: number
    for number, names in enumerate(
        ("jan ene", "feb fév fev", "mar mär mrz maer", "apr avr abr", "may mai", "jun juin",
         "jul juil", "aug aoû aou ago", "sep set", "oct okt", "nov", "dec dez déc dic"),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_SPAN = re.compile(r"(?<=\d)\s+[-–]\s+\d[\d/.:T -]*$")  # the end of one such as 01:00 - 02:00
_LONGEST_MONTH = 10  # letters
_CENTURY = 69  # two digits from here on are of the last century, as in POSIX
_EXAMPLE = "give e.g. 2014-06-01T08:00-04:00"


def parse_times(
    column: pa.ChunkedArray, name: str, faults: Faults, dates: DateOrder | None = None
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    """Return seconds since 1970 and whether they are local times (without offset).

    Args:
        column: texts, times, or whole numbers such as 1640995200 or 20220101.
        name: of the column, for messages.
        faults: gets what is no time.
        dates: whether days or months come first in 05/06/2022; None: as the column tells.
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(column.type):
        return _read_timestamps(column, name, faults)
    texts = as_texts(column)
    if texts is not None:
        return _parse_texts(texts, name, faults, dates)
    faults.add(f"column {name!r}: {column.type} is not a time; {_EXAMPLE}")
    return np.zeros(len(column), dtype=np.int64), False


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column of texts or whole numbers as texts; None for another type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:  # fractions
            return None
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    return column.cast(pa.string()) if pa.types.is_integer(column.type) else None


def looks_like_time(text: str) -> bool:
    """Whether a text is written as a time."""
    text = _SPAN.sub("", text.strip())
    return re.match(_ISO, text) is not None or any(form.match(text) for form in _FORMS)


def is_calendar_date(text: str) -> bool:
    """Whether a text is written as a day of a year, with or without a time of day."""
    return bool(
        re.match(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})", text)
    )


def _read_timestamps(
    column: pa.ChunkedArray, name: str, faults: Faults
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    nulls = np.flatnonzero(pc.is_null(column).to_numpy())
    if len(nulls):
        count = count_of(len(nulls), "row")
        faults.add(f"column {name!r}: {count} without a time: {name_rows(nulls)}")
    ticks = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    _refuse_fractions(ticks % _PER_SECOND[column.type.unit] != 0, name, faults)
    return ticks // _PER_SECOND[column.type.unit], column.type.tz is None


def _parse_texts(
    column: pa.ChunkedArray, name: str, faults: Faults, dates: DateOrder | None
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pandas().str.strip().str.replace(_SPAN, "", regex=True)
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    parts = _to_iso(texts, name, faults, dates).str.extract(_ISO)
    clock = pd.to_datetime(parts["clock"], format="ISO8601", errors="coerce")
    bad = np.append(clock.isna().to_numpy(dtype=bool), True)[codes]  # the last is for null
    if bad.any():
        at = np.flatnonzero(bad)
        first = name_some(f"row {i + 1} ({column[int(i)]})" for i in at)
        problem = f"column {name!r}: {count_of(len(at), 'row')} without a time: {first}"
        faults.add(f"{problem}; {_EXAMPLE}")
    offset = _offset_seconds(parts["offset"])
    naive = np.append(parts["offset"].isna().to_numpy(dtype=bool), False)[codes] & ~bad
    aware = ~naive & ~bad
    if naive.any() and aware.any():
        problem = f"column {name!r}: {count_of(int(naive.sum()), 'time')} without an offset"
        first = f"{int(aware.sum()):,} with one (row {int(np.argmax(aware)) + 1})"
        faults.add(f"{problem}, {first}; give all times with an offset, or none")
    micros = clock.to_numpy("datetime64[us]").astype(np.int64)
    micros[clock.isna().to_numpy(dtype=bool)] = 0
    _refuse_fractions(np.append(micros % 1_000_000 != 0, False)[codes], name, faults)
    seconds = np.append(micros // 1_000_000 - offset, 0)[codes]
    return seconds, bool(naive.any())


def _to_iso(
    texts: "pd.Series[str]", name: str, faults: Faults, dates: DateOrder | None
) -> "pd.Series[str]":
    """Return the texts of other forms in that of ISO 8601; what is no time stays as it is."""
    # A year stays a year, and 202212 is a month: no offset or epoch begins so.
    remaining = ~texts.str.match(_ISO) & texts.notna()
    spelled = texts.copy()
    for form in _FORMS:
        if not remaining.any():
            break
        parts = texts[remaining].str.extract(form)
        parts = parts[parts.notna().any(axis=1)]
        if "word" in parts and "day" not in parts:
            parts = _without_days(parts)
        if "one" in parts and len(parts):
            parts = _order_days(parts, texts, name, faults, dates)
        if len(parts):
            spelled[parts.index] = _spell(parts)
            remaining[parts.index] = False
    return spelled


def _without_days(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of months, none where `Jan 15` would be a day: its month then lasts."""
    short = parts["year"].str.len() == 2  # noqa: PLR2004
    words = parts["word"][short]
    lasts = int((words == words.shift()).sum())
    return parts[~short] if 0 < len(words) <= 2 * lasts else parts


def _order_days(
    parts: pd.DataFrame,
    texts: "pd.Series[str]",
    name: str,
    faults: Faults,
    dates: DateOrder | None,
) -> pd.DataFrame:
    """Return the parts with a day and a month, told apart by all rows."""
    one, two = parts["one"].astype(int), parts["two"].astype(int)
    fits = {"day-first": bool((two <= 12).all()), "month-first": bool((one <= 12).all())}  # noqa: PLR2004
    if dates is None:
        dotted = (parts["mark"] == ".").all()  # nowhere is the month first there
        orders = [o for o in ("day-first", "month-first") if fits[o]]
        orders = orders[:1] if dotted or set(one) == set(two) == {1} else orders
        if len(orders) != 1:
            shown = texts[parts.index[0]]
            reason = "may be a day or a month first" if orders else "neither order fits all rows"
            ask = f"give {setting('dates', 'day-first')} or {setting('dates', 'month-first')}"
            faults.add(f"column {name!r}: {shown}: {reason}; {ask}")
        dates = "month-first" if orders == ["month-first"] else "day-first"
    named = {"day": one, "month": two} if dates == "day-first" else {"day": two, "month": one}
    return parts.assign(**named)


def _spell(parts: pd.DataFrame) -> "pd.Series[str]":
    """Return ISO 8601 texts of the parts of a form."""
    if "epoch" in parts:
        seconds = parts["epoch"].map(lambda t: int(t) // _EPOCH_DIGITS[len(t)])
        return pd.to_datetime(seconds, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    year = parts["year"].astype(int)
    short = parts["year"].str.len() == 2  # noqa: PLR2004
    year = year.where(~short, year + np.where(year < _CENTURY, 2000, 1900))
    if "week" in parts:
        return _weeks(year, parts["week"].astype(int))
    month = _months(parts)
    spelled = _padded(year, 4) + "-" + _padded(month, 2)
    if "day" not in parts:
        return spelled
    spelled = spelled + "-" + _padded(parts["day"].astype(int), 2)
    if "hour" not in parts or parts["hour"].isna().all():
        return spelled + _offsets(parts).where(spelled.isna(), "")
    return _with_clock(spelled, parts) + _offsets(parts)


def _with_clock(days: "pd.Series[str]", parts: pd.DataFrame) -> "pd.Series[str]":
    """Return days with their time of day; 24:00 is the beginning of the next day."""
    hour = parts["hour"].fillna("0").astype(int)
    half = parts["half"].str.lower().str[0] if "half" in parts else pd.Series(None, parts.index)
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    rest = parts["minute"].fillna("00") + ":" + parts["second"].str[:2].fillna("00")
    ends = (hour == 24) & (rest == "00:00")  # noqa: PLR2004
    if ends.any():
        next_day = pd.to_datetime(days[ends], errors="coerce") + pd.Timedelta(days=1)
        days = days.copy()
        days[ends] = next_day.dt.strftime("%Y-%m-%d")
    return days + "T" + _padded(hour.where(~ends, 0), 2) + ":" + rest


def _months(parts: pd.DataFrame) -> "pd.Series[int]":
    if "quarter" in parts:
        return 3 * parts["quarter"].astype(int) - 2
    if "word" not in parts:
        return parts["month"].astype(int)
    words = parts["word"].str.lower()
    return words.str[:4].map(_MONTHS).fillna(words.str[:3].map(_MONTHS)).fillna(0).astype(int)


def month_number(name: str) -> int | None:
    """Return the number of a month by its name, `Mar` or `März`; None for another text."""
    word = name.lower()
    letters = word.isalpha() and len(word) <= _LONGEST_MONTH
    return (_MONTHS.get(word[:4]) or _MONTHS.get(word[:3])) if letters else None


def _weeks(year: "pd.Series[int]", week: "pd.Series[int]") -> "pd.Series[str]":
    """Return the Mondays of ISO weeks."""

    def monday(year: int, week: int) -> str:
        try:
            return date.fromisocalendar(year, week, 1).isoformat()
        except ValueError:
            return ""

    return pd.Series([monday(y, w) for y, w in zip(year, week, strict=True)], index=year.index)


def _offsets(parts: pd.DataFrame) -> "pd.Series[str]":
    if "offset" not in parts:
        return pd.Series("", index=parts.index)
    texts = parts["offset"].fillna("").replace({"UTC": "Z", "GMT": "Z"})
    return texts.where(texts.str.len() != 3, texts + ":00")  # noqa: PLR2004 (+02)


def _padded(numbers: "pd.Series[int]", width: int) -> "pd.Series[str]":
    return numbers.astype(str).str.zfill(width)


def _offset_seconds(texts: "pd.Series[str]") -> Int64[np.ndarray, " K"]:
    digits = texts.fillna("+0000").replace("Z", "+0000").str.replace(":", "")
    sign = np.where(digits.str[0] == "-", -1, 1)
    hours, minutes = (digits.str[a:b].to_numpy().astype(np.int64) for a, b in ((1, 3), (3, 5)))
    return np.asarray(sign * (hours * 3600 + minutes * 60), dtype=np.int64)


def _refuse_fractions(wrong: Bool[np.ndarray, " rows"], name: str, faults: Faults) -> None:
    if wrong.any():
        at = np.flatnonzero(wrong)
        count = count_of(len(at), "time")
        faults.add(f"column {name!r}: {count} with fractions of a second: {name_rows(at)}")


def name_rows(at: Shaped[np.ndarray, " K"]) -> str:
    """Return the first rows of a fault: `row 2, row 4`."""
    return name_some(f"row {i + 1}" for i in at)
