"""Opening hours: at which local times a place is open, in a part of OpenStreetMap's notation.

Rules are separated by `;`. A rule is days, then times: `Mon-Fri 05:00-23:00`. Of the rules that
apply to a day the last one counts, with all its times; times after midnight (`22:00-02:00`) belong
to the day on which they begin. Where no rule applies to a day it is closed; but if no rule without
dates opens anything, the rules are exceptions, and all other times are open.

| days | means |
| --- | --- |
| none | every day |
| `Mon-Fri`, `Mo,We`, `Sat`, `PH` | weekdays, and public holidays of the panel's country |
| `2019-12-24`, `2019-08-01 - 2019-08-31` | dates |
| `12-24`, `08-01 - 08-31`, `Aug`, `Nov-Feb` | days of every year |

Dates may be followed by weekdays: `Aug Mon-Fri 08:00-12:00`. Times are `05:00-23:00`, several with
commas, `off`, or nothing: the whole day. A step of a panel is open if its beginning is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from forecaster.clock.zone import Times
from forecaster.errors import ConfigError, Faults

ALWAYS = "always"  # in place of rules: never closed
DAY_SECONDS = 24 * 3600
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EXAMPLE = (
    "give rules such as Mon-Fri 05:00-23:00; Sat 06:00-24:00; Sun,PH off; 2019-12-24 05:00-14:00; "
    "08-01 - 08-31 off"
)
_MAX_TEXT = 2_000  # characters
_FULL_DATE, _DAY_OF_YEAR = r"\d{4}-\d{2}-\d{2}", r"\d{2}-\d{2}(?!:)(?!-)"
_DATES = re.compile(rf"({_FULL_DATE})(?:\s*-\s*({_FULL_DATE}))?(?=\s|$)")
_YEARLY = re.compile(rf"({_DAY_OF_YEAR})(?:\s*-\s*({_DAY_OF_YEAR}))?(?=\s|$)")
_MONTH_NAMES = re.compile(r"([a-z]{3,9})(?:\s*-\s*([a-z]{3,9}))?(?=\s|$)")
_TIMES = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_LATEST = 48 * 3600


@dataclass(frozen=True)
class Rule:
    """The times at which places are open on some days; none: closed."""

    spans: tuple[tuple[int, int], ...]  # seconds of the day, the end may lie in the next one
    weekdays: frozenset[int] | None = None  # Monday is 0; None: not by weekday
    holidays: bool = False  # also on public holidays, or only on them if `weekdays` is empty
    first: str = ""  # a date, or month and day; both included
    last: str = ""

    @property
    def is_dated(self) -> bool:
        """Whether it is for some dates of one year or of every year."""
        return bool(self.first)

    def applies(
        self, days: Shaped[np.ndarray, " D"], holiday: Bool[np.ndarray, " D"]
    ) -> Bool[np.ndarray, " D"]:
        """On which days the rule applies."""
        inside = np.ones(len(days), dtype=bool)
        if self.weekdays is not None:
            inside = np.isin(
                (days.astype(np.int64) + 3) % 7, list(self.weekdays)
            )  # 1970: Thursday
            if self.holidays:
                inside |= holiday
        if len(self.first) > len("MM-DD"):
            first, last = np.datetime64(self.first, "D"), np.datetime64(self.last, "D")
            inside &= (days >= first) & (days <= last)
        elif self.first:
            months = days.astype("datetime64[M]")
            day = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
            place = (months.astype(np.int64) % 12 + 1) * 100 + day
            low, high = (int(end.replace("-", "")) for end in (self.first, self.last))
            after, before = place >= low, place <= high
            inside &= (after & before) if low <= high else (after | before)
        return np.asarray(inside)


@dataclass(frozen=True)
class OpeningHours:
    """The rules of one place, or of all places with the same hours."""

    rules: tuple[Rule, ...]

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> "OpeningHours":
        """Return the hours that a text describes; all its faults are named in one error."""
        faults = Faults(f"opening hours {text[:_MAX_TEXT]!r}")
        if len(text) > _MAX_TEXT:
            faults.add(f"{len(text):,} characters; at most {_MAX_TEXT:,} are read")
        parts = [part.strip() for part in text[:_MAX_TEXT].lower().split(";")]
        rules = [_parse_rule(part, faults) for part in parts if part]
        if not rules:
            faults.add("no rule")
        if faults.messages:
            faults.messages[-1] += f"; {_EXAMPLE}"
        faults.raise_any(ConfigError)
        return OpeningHours(tuple(rule for rule in rules if rule is not None))

    @property
    def needs_holidays(self) -> bool:
        """Whether a rule is for public holidays."""
        return any(rule.holidays for rule in self.rules)

    def is_open(self, local: Times, holidays: Sequence[str] = ()) -> Bool[np.ndarray, "*shape"]:
        """At which local times it is open.

        Args:
            local: local times.
            holidays: dates of public holidays: 2014-07-04.
        """
        if not local.size:
            return np.zeros(local.shape, dtype=bool)
        day = local.astype("datetime64[D]")
        second = (local - day).astype("timedelta64[s]").astype(np.int64)
        first = day.min() - np.timedelta64(1, "D")
        days = np.arange(first, day.max() + np.timedelta64(1, "D"))
        rule_of_day = self._rule_of_day(days, holidays)
        number = (day - first).astype(np.int64)
        today, yesterday = rule_of_day[number], rule_of_day[number - 1]
        is_open = np.asarray(today == self._unruled)
        for n, rule in enumerate(self.rules):
            for begin, end in rule.spans:
                is_open |= (today == n) & (second >= begin) & (second < end)
                if end > DAY_SECONDS:
                    is_open |= (yesterday == n) & (second < end - DAY_SECONDS)
        return is_open

    @property
    def _unruled(self) -> int:
        """The number of days without a rule if they are open: -1; else one that no day has."""
        opens = any(rule.spans and not rule.is_dated for rule in self.rules)
        return -2 if opens else -1

    def _rule_of_day(
        self, days: Shaped[np.ndarray, " D"], holidays: Sequence[str]
    ) -> Int64[np.ndarray, " D"]:
        """The number of the rule that counts on each day; −1: none applies."""
        holiday = np.isin(days, np.array(holidays, dtype="datetime64[D]"))
        numbers = np.full(len(days), -1, dtype=np.int64)
        for n, rule in enumerate(self.rules):
            numbers[rule.applies(days, holiday)] = n
        return numbers


def normal_hours(text: str) -> str:
    """Return the text of hours without spaces around it, empty if a place is always open."""
    stripped = text.strip()
    return "" if stripped.lower() == ALWAYS else stripped


def weekly_hours(open_slots: Bool[np.ndarray, "7 D"], step_minutes: int) -> str:
    """Return the text of hours that repeat by the week: `Mon-Fri 05:30-24:00; Sat-Sun off`.

    Where days are open as a whole or not at all, only those that are not are named: `Sun off`.

    Args:
        open_slots: which of the D steps of each weekday are open.
        step_minutes: the length of a step.
    """
    texts = [_day_text(slots, step_minutes) for slots in open_slots]
    if len(set(texts)) == 1:
        return texts[0]
    only_days = set(texts) == {"", "off"}
    rules, numbers = [], range(len(_DAYS))
    for text, run in groupby(numbers, key=lambda n: texts[n]):
        days = [_DAYS[n].capitalize() for n in run]
        names = days[0] if len(days) == 1 else f"{days[0]}-{days[-1]}"
        if text or not only_days:
            rules.append(f"{names} {text or '00:00-24:00'}")
    return "; ".join(rules)


def _day_text(slots: Bool[np.ndarray, " D"], step_minutes: int) -> str:
    """The times of one day: `05:30-24:00`, `off`, or nothing for the whole day."""
    if slots.all():
        return ""
    if not slots.any():
        return "off"
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slots, [False]]).astype(np.int8)))
    ends = [min(edge * step_minutes, 24 * 60) for edge in edges.tolist()]
    times = [f"{minutes // 60:02d}:{minutes % 60:02d}" for minutes in ends]
    return ",".join(f"{a}-{b}" for a, b in zip(times[::2], times[1::2], strict=True))


def _parse_rule(text: str, faults: Faults) -> Rule | None:
    """Return one rule; what is wrong with it is added to the faults."""
    first, last, undated = _parse_dates(text, text, faults)
    weekdays, holidays, times = _parse_weekdays(undated, text, faults)
    spans = _parse_times(times, text, faults)
    if spans is None:
        return None
    return Rule(spans, weekdays, holidays, first, last)


def _parse_dates(text: str, rule: str, faults: Faults) -> tuple[str, str, str]:
    """Return the first and last date of a rule, empty if it has none, and the rest of its text."""
    match = _DATES.match(text) or _YEARLY.match(text)
    if match is not None:
        first, last = match[1], match[2] or match[1]
        for end in sorted({first, last}):
            if not _is_date(end):
                faults.add(f"{rule!r}: {end} is not a date")
        if len(first) > len("MM-DD") and last < first:
            faults.add(f"{rule!r}: ends before it begins; swap its dates")
        return first, last, text[match.end() :].strip()
    match = _MONTH_NAMES.match(text)
    names = [name[:3] for name in match.groups() if name] if match is not None else []
    if match is None or not all(name in _MONTHS for name in names):
        return "", "", text
    numbers = [_MONTHS.index(name) + 1 for name in (names[0], names[-1])]
    return f"{numbers[0]:02d}-01", f"{numbers[1]:02d}-31", text[match.end() :].strip()


def _parse_weekdays(
    text: str, rule: str, faults: Faults
) -> tuple[frozenset[int] | None, bool, str]:
    """Return the weekdays of a rule, whether it has public holidays, and the rest of its text."""
    names, weekdays, holidays = re.match(r"[a-z,\s-]*", text)[0], set(), False  # type: ignore[index]
    words = re.sub(r"\s*([,-])\s*", r"\1", names).strip()
    head, _, state = words.rpartition(" ") if words.endswith(" off") else (words, "", "")
    if head == "off" or not head:
        return None, False, text
    for item in head.split(","):
        if item == "ph":
            holidays = True
            continue
        ends = [_weekday(name) for name in item.split("-")]
        if None in ends or len(ends) > len(("first", "last")):
            faults.add(f"{rule!r}: {item!r} is no weekday, month, PH or off")
            continue
        low, high = ends[0] or 0, ends[-1] or 0
        weekdays |= {(low + n) % 7 for n in range((high - low) % 7 + 1)}
    return frozenset(weekdays), holidays, state or text[len(names) :].strip()


def _parse_times(text: str, rule: str, faults: Faults) -> tuple[tuple[int, int], ...] | None:
    """Return the times of a rule in seconds of the day; None: they cannot be read."""
    if text in ("", "24/7"):
        return ((0, DAY_SECONDS),)
    if text == "off":
        return ()
    spans = []
    for item in text.split(","):
        match = _TIMES.fullmatch(item.strip())
        if match is None:
            faults.add(f"{rule!r}: {item.strip()!r} is not a time such as 05:00-23:00")
            continue
        first, last = (int(match[n]) * 3600 + int(match[n + 1]) * 60 for n in (1, 3))
        last += DAY_SECONDS if last <= first else 0
        if max(int(match[2]), int(match[4])) > 59 or first >= DAY_SECONDS or last > _LATEST:  # noqa: PLR2004
            faults.add(f"{rule!r}: {item.strip()!r} is beyond 00:00-24:00")
            continue
        spans.append((first, last))
    return tuple(spans)


def _weekday(name: str) -> int | None:
    """Return the number of a weekday by a name such as Mo, Mon or Monday."""
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    places = [n for n, day in enumerate(full) if len(name) > 1 and day.startswith(name)]
    return places[0] if len(places) == 1 else None


def _is_date(text: str) -> bool:
    """Whether a text is a date, or a day of a leap year."""
    try:
        date.fromisoformat(text if len(text) > len("MM-DD") else f"2000-{text}")
    except ValueError:
        return False
    return True
