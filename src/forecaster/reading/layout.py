"""Which columns of a table are its times, its locations and its values.

Columns are recognised by what they hold, and by name where several could be meant. What stays
unclear is asked for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.errors import ConfigError, DataError, Faults, name_some, setting
from forecaster.reading.mapping import parse_pairs, quote_name
from forecaster.reading.times import as_texts, looks_like_time, parse_times

FIELDS = ("time", "id", "value")
TIME_NAMES = ("ds", "time", "timestamp", "datetime", "date_time", "date", "hour", "zeit", "datum",
              "zeitstempel", "datum_zeit", "datum_uhrzeit", "date_heure", "fecha", "data",
              "time_utc", "timestamp_utc", "utc_timestamp", "ts", "epoch", "begin", "start", "von",
              "from")  # fmt: skip
PERIOD_NAMES = ("day", "week", "month", "quarter", "year", "jahr", "monat", "quartal", "tag",
                "woche", "time_period", "period", "mois", "mes", "semaine", "semana", "trimestre",
                "annee", "année", "año", "jour", "dia", "día")  # if no other is one  # fmt: skip
CLOCK_NAMES = ("time", "hour", "uhrzeit", "stunde", "zeit", "heure", "hora", "von", "from", "ora")
CALENDAR_PARTS = (
    ("year", "jahr", "annee", "année", "ano", "año", "yr", "yyyy", "fiscal_year", "fy"),
    ("month", "monat", "mois", "mes", "mm"),
    ("day", "tag", "jour", "dia", "día", "dd", "day_of_month"),
    ("hour", "stunde", "heure", "hora", "hr", "hh"),
)  # fmt: skip
QUARTER_NAMES = ("quarter", "quartal", "qtr", "trimestre")
WEEK_NAMES = ("week", "woche", "kw", "semaine", "semana", "week_number", "iso_week", "weeknum")
ID_NAMES = ("unique_id", "id", "location", "location_id", "station", "station_id", "sensor",
            "sensor_id", "zone", "zone_id", "site", "node", "region", "cell", "store", "shop",
            "store_id", "item", "item_id", "meter", "meter_id", "device", "device_id", "filiale",
            "standort", "messstelle", "zaehlpunkt", "zählpunkt", "geo", "country", "plant",
            "werk", "metric", "series")  # fmt: skip
VALUE_NAMES = ("y", "value", "count", "demand", "pickups", "trips", "flow", "load", "cases",
               "sales", "values", "obs_value", "wert", "messwert", "menge", "umsatz", "absatz",
               "verbrauch", "kwh", "consumption", "concentration", "quantity", "qty", "valeur",
               "valor", "visitors", "passengers", "close", "volume", "total")  # fmt: skip
CALENDAR_NAMES = ("year", "month", "day", "weekday", "day_of_week", "dayofweek", "hour", "week",
                  "quarter", "minute", "jahr", "monat", "tag", "wochentag", "stunde", "is_weekend",
                  "dow", "kw", "doy", "day_of_year")  # the clock gives them  # fmt: skip
PLACE_NAMES = ("lat", "lon", "lng", "latitude", "longitude", "x", "y_coord", "x_coord", "altitude",
               "elevation")  # fmt: skip
LABEL_NAMES = ("unit", "units", "uom", "einheit", "unité", "unidad", "variable", "parameter",
               "status", "quality", "type", "source")  # texts that name no location  # fmt: skip
ROW_NAMES = ("index", "row", "unnamed_0", "nr", "no", "lfd_nr", "record", "rec")
_NUMBERED_WORDS = {"receipt", "invoice", "order", "ticket", "transaction", "entry", "number",
                   "row", "record", "doc", "beleg", "rechnung", "bon"}  # fmt: skip
PERIODS_OF_DAY = ((1, 48), (1, 96))  # first and last number of half and quarter hours
_SAMPLE = 500  # rows by which a column is recognised
_CLOCK = re.compile(  # or a span of them, 08:00-08:30
    r"\s*\d{1,2}[:.]\d\d(:\d\d)?\s*([AaPp][Mm])?(\s*[-–]\s*\d{1,2}[:.]\d\d(:\d\d)?)?\s*"
)
_MIDNIGHT = re.compile(r"[T ]00:00(:00)?$")  # of days as workbooks write them
_FEW_ROWS = 20  # below them a table may have a row for each place
_MOST_KEYS = 3  # columns that name a location together
# Texts that say yes or no.
_FLAGS = {"yes", "no", "y", "n", "true", "false", "t", "f", "ja", "nein", "j", "nee", "oui", "non",
          "si", "sì", "sí", "não", "nao", "sim", "tak", "nie", "да", "нет", "ok", "error", "err",
          "fail", "failed", "fehler", "errore", "alarm", "normal", "on", "off", "ein", "aus",
          "good", "bad", "valid", "invalid", "ungültig", "gültig"}  # fmt: skip
_PLACE_WORDS = {*ID_NAMES, "gate", "branch", "dock", "line", "door", "lane", "queue", "terminal",
                "warehouse", "depot", "hub", "ward", "room", "building", "place", "city", "stop",
                "platform", "counter", "machine", "pump", "turbine", "lager", "linie", "stadt",
                "raum", "gebäude", "tor", "tür", "magasin", "porte", "gare", "ligne", "tienda",
                "sucursal", "puerta", "línea", "negozio", "porta", "linea", "loja", "sklep",
                "linia", "winkel"} - {"id", "item", "series", "metric"}  # of a name  # fmt: skip
_TIME_WORDS = ("time", "timestamp", "datetime", "date", "datum", "zeit", "fecha", "ts", "epoch",
               "unix", "utc")  # fmt: skip
_VALUE_WORDS = (*VALUE_NAMES, "units", "sold", "entries", "exits", "rides", "riders", "ridership",
                "calls", "orders", "anzahl", "besucher", "fahrten", "ventes", "comptage", "ventas",
                "usage", "generation", "production", "revenue", "bestellungen", "amount", "betrag",
                "montant", "importe", "attendances", "admissions", "arrivals", "offered", "power",
                "energy", "kwh", "mwh", "mw", "quantity", "requests", "sessions", "users",
                "customers", "downloads", "views", "visits", "people", "patients", "parcels",
                "covers", "nights", "bookings", "clicks", "steps", "calories", "guests",
                "transactions", "items")  # fmt: skip
_SIDE_WORDS = ("temp", "temperature", "temperatur", "humidity", "feuchte", "pressure", "druck",
               "wind", "rain", "regen", "precipitation", "snow", "cloud", "dew", "voltage", "volt",
               "volts", "price", "prices", "preis", "prix", "precio", "cost", "costs", "kosten",
               "discount", "rabatt", "promo", "promotion", "onpromotion", "flag", "holiday",
               "school", "weekend", "open", "high", "low", "cpi", "unemployment", "fuel", "pct",
               "percent", "share", "anteil", "rate", "ratio", "yoy", "change", "veränderung",
               "growth", "delta", "diff", "index", "aht", "duration", "balance", "saldo",
               "battery", "quality", "score", "profit", "margin", "tax", "mwst", "vat", "weight",
               "age", "season")  # of what stands beside the values  # fmt: skip
_OPPOSITES = ({"in", "out"}, {"inflow", "outflow"}, {"entries", "exits"}, {"import", "export"},
              {"imports", "exports"}, {"arrivals", "departures"}, {"boardings", "alightings"},
              {"credit", "debit"}, {"bezug", "einspeisung"}, {"up", "down"}, {"entry", "exit"},
              {"inbound", "outbound"}, {"imported", "exported"})  # fmt: skip
_UNIT = re.compile(r"[\[(]\s*([^\])]{1,12}?)\s*[\])]\s*$")  # at the end of a name: [°C]
_INTENSIVE_WORDS = ("power", "load", "flow", "mw", "kw", "level", "concentration", "speed", "cpu",
                    "usage", "state", "occupancy", "utilisation", "utilization", "depth", "ph",
                    "pm10", "pm2", "no2", "o3", "so2", "co2", "co", "stand")  # fmt: skip
_YEAR = re.compile(r"(1[6-9]|20)\d\d")
_NAMELESS = re.compile(r"column \d+")  # as the reader numbers them
_ID = re.compile(  # of stationID, station_id and store_nbr; not of GRID
    r"[a-z\d_ .-](ID|Id)$|[_ .-]ids?$|_IDS$|[_ .-](nbr|number|no|nr|code|Nbr|Number|No|Nr|Code)$"
)
EVENTS = "number of rows"  # the value of a table in which each row is an event
JOIN = "+"  # between columns that are meant together


Meaning = Literal["additive", "intensive", "unknown"]  # whether values of a step are added up


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table.

    With an id it is long. With a value alone it is one series. With neither it is wide: every
    other column is a location.
    """

    time: str  # of two columns such as a day and a clock, `date+hour`
    id: str | None = None
    value: str | None = None
    further: tuple[str, ...] = ()  # columns of numbers beside the values
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was taken for granted, and how it is changed

    def __str__(self) -> str:
        ignored = f"; ignored: {name_some(self.ignored)}" if self.ignored else ""
        if self.value is None:
            return f"wide: time = {self.time}, every other column a location{ignored}"
        if self.id is None:
            return f"one series: time = {self.time}, value = {self.value}{ignored}"
        return f"long: time = {self.time}, id = {self.id}, value = {self.value}{ignored}"

    def mapping(self) -> str:
        """The layout as an option: `time=when,id=sensor,value=flow`."""
        value = None if self.value == EVENTS else self.value
        named = {"time": self.time, "id": self.id, "value": value}
        return ",".join(f"{name}={quote_name(column)}" for name, column in named.items() if column)


def parse_layout(text: str) -> TableLayout:
    """Return the layout of `time=when` (wide) or `time=when,id=sensor,value=flow` (long)."""
    faults = Faults(f"columns {text!r}")
    columns = parse_pairs(text, FIELDS, "time=when,id=sensor,value=flow", faults)
    if set(columns) not in ({"time"}, {"time", "value"}, {"time", "id"}, set(FIELDS)):
        faults.add("give time, of one series also value, and of a long table also id and value")
    faults.raise_any(ConfigError)
    return TableLayout(columns["time"], columns.get("id"), columns.get("value"))


def complete_layout(layout: TableLayout, table: pa.Table) -> TableLayout:
    """Return a layout with the further columns of the table: those of numbers, and others."""
    used = {p for c in (layout.time, layout.id, layout.value) if c for p in parts_of(table, c)}
    remaining = [c for c in table.column_names if c not in used]
    numbers = [c for c in remaining if _is_covariate(table, c)]
    if layout.value is None:
        ignored = [c for c in remaining if not _is_location(table, c)]
        return replace(layout, ignored=() if len(ignored) == len(remaining) else tuple(ignored))
    ignored = [c for c in remaining if c not in numbers]
    return replace(layout, further=tuple(numbers), ignored=tuple(ignored))


def parts_of(table: pa.Table, column: str) -> list[str]:
    """Return the columns that are meant by a name: itself, or those of `date+hour`."""
    return [column] if column in table.column_names else column.split(JOIN)


def guess_layout(table: pa.Table, name: str) -> TableLayout:
    """Return the layout that a table suggests; an unclear one is refused."""
    time = find_time(table, name)
    identity = _find_id(table, time)
    is_long = identity is not None or not _are_keys(table, parts_of(table, time))
    taken = {*parts_of(table, time), *(parts_of(table, identity) if identity else ())}
    remaining = [c for c in table.column_names if c not in taken]
    if not is_long:
        return _guess_by_time(table, time, remaining)
    plausible = _vary_within(table, parts_of(table, identity) if identity else (), remaining)
    value = _find_value(table, plausible)
    if value is None and len(_best_values(table, plausible)) > 1:
        rivals = _best_values(table, plausible)
        raise DataError(f"{name}: {_explain_rivals(time, identity, rivals)}")
    layout = complete_layout(TableLayout(time, identity, value or EVENTS), table)
    return _note_choice(table, layout)


def _guess_by_time(table: pa.Table, time: str, remaining: Sequence[str]) -> TableLayout:
    """Return the layout of a table with one row for each time: wide, or one series."""
    value = _name_value(table, remaining)
    alone = value is not None and normal_name(value) in VALUE_NAMES
    place = _only([c for c in remaining if _names_all(table, c)])
    numbers = [c for c in remaining if _is_location(table, c)]
    if place is not None and value is not None and [value] == numbers and not alone:
        return complete_layout(TableLayout(time, place, value), table)
    if alone and value is not None and not (normal_name(value) == "total" and len(numbers) > 2):  # noqa: PLR2004
        return complete_layout(TableLayout(time, value=value), table)
    if not numbers and value is None:
        place = _find_id(table, time, is_long=True)
        return complete_layout(TableLayout(time, place, EVENTS), table)
    if _are_measures(numbers):
        value = _choose_value(table, numbers)
        layout = complete_layout(TableLayout(time, value=value), table)
        wide = setting("columns", TableLayout(time).mapping())
        others = name_some([c for c in numbers if c != value])
        note = f"other measures beside {value!r} are covariates: {others}; if each column is a "
        return replace(layout, notes=(f"{note}location give {wide}",))
    return complete_layout(TableLayout(time), table)


def _note_choice(table: pa.Table, layout: TableLayout) -> TableLayout:
    """Return the layout with a note where another column could have been the values."""
    if layout.value in (None, EVENTS):
        return layout
    most = _NAMED if normal_name(str(layout.value)) in VALUE_NAMES else _PLAIN
    identity = parts_of(table, layout.id) if layout.id else ()
    plausible = _vary_within(table, identity, [str(layout.value), *layout.further])
    rivals = [c for c in layout.further if c in plausible and _rank(table, c) <= most]
    if not rivals:
        return layout
    other = setting("columns", replace(layout, value=rivals[0]).mapping())
    note = f"values taken from {layout.value!r}; for those of {rivals[0]!r} give {other}"
    return replace(layout, notes=(note,))


def _explain_rivals(time: str, identity: str | None, rivals: Sequence[str]) -> str:
    """Say which columns may be the values, and how to give one."""
    either = (setting("columns", TableLayout(time, identity, c).mapping()) for c in rivals)
    return f"{name_some(map(repr, rivals))} may be the values: give {' or '.join(either)}"


def explain_events(layout: TableLayout) -> str:
    """Say that no column of values is recognised, and how to give it, or count the rows."""
    example = setting("columns", replace(layout, value="…").mapping())
    zone = f",zone={layout.id}" if layout.id else ""
    return (
        f"no column of values is recognised; give {example} (if each row is one event, such as a "
        f"trip: {setting('combine', 'count')} counts the rows of a step, and forecaster ingest "
        f"trips FILE --zones {setting('columns', f'time={layout.time}{zone}')} --out PANEL those "
        "of many files)"
    )


# ---------------------------------------------------------------------------------- times


def find_time(table: pa.Table, name: str) -> str:
    """Return the column of times, or a day and a clock joined; an unclear one is refused."""
    time = _find_time(table)
    if time is None:
        columns = name_some(table.column_names, 20)
        long, wide = setting("columns", "time=…,id=…,value=…"), setting("columns", "time=…")
        ask = f"give {long} (long) or {wide} (wide)"
        raise DataError(f"{name}: no unique time column; found: {columns}; {ask}")
    return time


def _find_time(table: pa.Table) -> str | None:
    """Return the column of times, or a day and a clock joined."""
    named = _by_name(table.column_names)
    calendar = _calendar_columns(table, named)
    times = [
        column
        for column in table.column_names
        if column not in calendar
        and normal_name(column) not in ID_NAMES
        and _is_time(table, column)
    ]
    time = next((named[n] for n in TIME_NAMES if n in named and named[n] not in calendar
                 and not _is_clock(table, named[n])), None)  # fmt: skip
    time = time or (times[0] if len(times) == 1 else _first_begin(table, times))
    time = time or _named_by_a_word(table, named, calendar)
    if time is None and calendar:
        return JOIN.join(calendar)
    time = time or next((named[n] for n in PERIOD_NAMES if n in named), None)
    if time is None or not are_days(table, time):
        return time
    clocks = [c for c in table.column_names if c != time and _is_clock(table, c)]
    return f"{time}{JOIN}{clocks[0]}" if clocks else time


def _named_by_a_word(
    table: pa.Table, named: Mapping[str, str], calendar: Sequence[str]
) -> str | None:
    """Return the only column with a word such as date in its name that holds times."""
    columns = [
        column
        for name, column in named.items()
        if set(name.split("_")) & {*_TIME_WORDS} and column not in calendar
    ]
    return _only([c for c in columns if all(map(looks_like_time, _sample_texts(table, c)))])


def _calendar_columns(table: pa.Table, named: Mapping[str, str]) -> list[str]:
    """Return the columns of years and months, and those of days and hours that follow them."""
    columns: list[str] = []
    for names in CALENDAR_PARTS:
        column = next((named[name] for name in names if name in named), None)
        if column is None:
            break
        columns.append(column)
    part = next((named[n] for n in (*QUARTER_NAMES, *WEEK_NAMES) if n in named), None)
    if len(columns) == 1 and part is not None:
        columns.append(part)
    return columns if len(columns) > 1 and is_year(table, columns[0]) else []


def is_year(table: pa.Table, column: str) -> bool:
    """Whether a column holds years."""
    texts = _sample_texts(table, column)
    return bool(texts) and all(_YEAR.fullmatch(text) for text in texts)


def _first_begin(table: pa.Table, times: Sequence[str]) -> str | None:
    """Return that of several columns of times which is the earliest one in every row."""
    if len(times) < 2:  # noqa: PLR2004
        return None
    head = table.slice(0, _SAMPLE)
    seconds = np.column_stack([parse_times(head[c], c, Faults(c))[0] for c in times])
    earliest = (seconds <= seconds.min(axis=1, keepdims=True)).all(axis=0)
    return times[int(np.argmax(earliest))] if earliest.any() else None


def _is_time(table: pa.Table, column: str) -> bool:
    kind = table[column].type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    texts = _sample_texts(table, column)
    return bool(texts) and _is_text(table, column) and all(map(looks_like_time, texts))


def are_days(table: pa.Table, column: str) -> bool:
    """Whether a column of times holds days without a time of day."""
    kind = table[column].type
    if pa.types.is_date(kind):
        return True
    if pa.types.is_timestamp(kind):
        head = table[column].slice(0, _SAMPLE).drop_null()
        return bool(pc.all(pc.equal(head, pc.floor_temporal(head, unit="day"))).as_py())
    return not any(":" in _MIDNIGHT.sub("", text)[6:] for text in _sample_texts(table, column))


def _is_clock(table: pa.Table, column: str) -> bool:
    """Whether a column holds times of day: 13:05, hours from 0 to 24, or numbered periods."""
    if _is_text(table, column):
        texts = _sample_texts(table, column)
        return bool(texts) and all(_CLOCK.fullmatch(text) for text in texts)
    is_named = normal_name(column) in CLOCK_NAMES or normal_name(column).endswith("period")
    if not is_named or not pa.types.is_integer(table[column].type):
        return False
    ends = pc.min_max(table[column]).as_py()
    if normal_name(column) in CLOCK_NAMES:
        return ends["min"] is not None and ends["min"] >= 0 and 20 <= ends["max"] <= 24  # noqa: PLR2004
    return (ends["min"], ends["max"]) in PERIODS_OF_DAY


# -------------------------------------------------------------------------------- locations


def _find_id(table: pa.Table, time: str, is_long: bool = False) -> str | None:
    """Return the column, or the few columns, that tell apart the rows of one time.

    Args:
        table: of which it is a column.
        time: the column of times.
        is_long: whether there is such a column, though all times differ.
    """
    taken = parts_of(table, time)
    named = _by_name([c for c in table.column_names if c not in taken])
    first = next((named[n] for n in ID_NAMES if n in named and _repeats(table, [named[n]])), None)
    if first is not None and _are_keys(table, [*taken, first]):
        return first
    if first is None and not is_long and _are_keys(table, taken):
        return None
    candidates = [
        column
        for column in named.values()
        if column != first and _can_tell_apart(table, column) and _repeats(table, [column])
    ]
    most = _MOST_KEYS - (first is not None)
    for count in range(1, most + 1):
        for chosen in combinations(candidates, count):
            columns = [*((first,) if first else ()), *chosen]
            is_named = any(not table[column].null_count for column in columns)
            if is_named and _repeats(table, columns) and _are_keys(table, [*taken, *columns]):
                return JOIN.join(columns)
    places = [column for column in candidates if _words(column) & _PLACE_WORDS]
    return first or _only(places) or _only(candidates)


def _repeats(table: pa.Table, columns: Sequence[str]) -> bool:
    """Whether columns may name places: most rows share theirs with others, as numbers do not."""
    if len(table) < _FEW_ROWS:
        return True
    distinct = table.select(list(columns)).group_by(list(columns)).aggregate([])
    return bool(2 * distinct.num_rows <= len(table))


def _names_all(table: pa.Table, column: str) -> bool:
    """Whether a column holds the same text in every row: the name of the only location."""
    values = table[column]
    is_same = not values.null_count and len(values.unique()) == 1
    return _is_text(table, column) and is_same and normal_name(column) not in LABEL_NAMES


def _can_tell_apart(table: pa.Table, column: str) -> bool:
    """Whether a column of texts, or of numbers named as ids, has more than one."""
    is_number = pa.types.is_integer(table[column].type) and _ID.search(column) is not None
    is_value = normal_name(column) in VALUE_NAMES or not (_is_text(table, column) or is_number)
    if is_value or _is_time(table, column) or _is_flag(table, column):
        return False
    return bool(pc.count_distinct(table[column]).as_py() > 1)


def _is_flag(table: pa.Table, column: str) -> bool:
    """Whether the texts of a column say yes or no: SI and NO, OK and ERROR."""
    if not _is_text(table, column):
        return False
    texts = {text.strip().lower() for text in _sample_texts(table, column)} - {""}
    return bool(texts) and texts <= _FLAGS


def _are_keys(table: pa.Table, columns: Sequence[str]) -> bool:
    """Whether no two rows agree in all columns."""
    distinct = table.select(list(columns)).group_by(list(columns)).aggregate([])
    return bool(distinct.num_rows == table.num_rows)


# ----------------------------------------------------------------------------------- values


def _find_value(table: pa.Table, remaining: Sequence[str]) -> str | None:
    """Return the column of values: by its name, else the most plausible one of numbers.

    Two that are equally plausible, such as inflow and outflow, are asked about.
    """
    value = _name_value(table, remaining)
    if value is not None:
        return value
    best = _best_values(table, remaining)
    return best[0] if len(best) == 1 else None


def _vary_within(
    table: pa.Table, identity: Sequence[str], columns: Sequence[str]
) -> Sequence[str]:
    """Return the columns without numbers that stay the same in each location: its capacity.

    If all do, they are returned; so is one that is named as values.
    """
    numbers = [c for c in columns if _is_covariate(table, c)]
    if not identity or not numbers:
        return columns
    ends = [(c, end) for c in numbers for end in ("min", "max")]
    spans = table.select([*identity, *numbers]).group_by([*identity]).aggregate(ends)
    same = {
        c
        for c in numbers
        if normal_name(c) not in VALUE_NAMES
        and pc.all(pc.equal(spans[f"{c}_min"], spans[f"{c}_max"])).as_py()
    }
    return columns if len(same) == len(numbers) else [c for c in columns if c not in same]


def _name_value(table: pa.Table, remaining: Sequence[str]) -> str | None:
    """Return the column named as values, or the only one of numbers, or the only one."""
    named = _by_name(remaining)
    value = next((named[n] for n in VALUE_NAMES if n in named), None)
    numbers = [c for c in remaining if _is_covariate(table, c)]
    written = [c for c in remaining if _is_text(table, c) and _begin_with_digits(table, c)]
    return value or _only(numbers) or (None if numbers else _only(written))


def _begin_with_digits(table: pa.Table, column: str) -> bool:
    """Whether most texts of a column are written as numbers with something behind them."""
    texts = _sample_texts(table, column)
    return 2 * sum(text.lstrip("+-$€£( ")[:1].isdigit() for text in texts) > len(texts)


def _best_values(table: pa.Table, remaining: Sequence[str]) -> list[str]:
    """Return the most plausible column of values, and those that are equally so."""
    numbers = [c for c in remaining if _is_covariate(table, c)]
    if not numbers:
        return []
    ranks = {column: _rank(table, column) for column in numbers}
    best = _choose_value(table, numbers)
    return [best, *(c for c in numbers if ranks[c] == ranks[best] and _are_opposites(best, c))]


def _choose_value(table: pa.Table, numbers: Sequence[str]) -> str:
    """Return the first of the columns that are most plausible by name and content."""
    return min(numbers, key=lambda column: _rank(table, column))


_NAMED, _PLAIN, _BESIDE, _CONSTANT = range(4)  # ranks of columns of values


def _rank(table: pa.Table, column: str) -> int:
    """Return how plausible a column of values is: named so, plain, beside them, or constant."""
    words = _words(column)
    distinct = pc.count_distinct(table[column]).as_py()
    if distinct <= 1 or (distinct == 2 and pc.max(table[column]).as_py() == 1):  # noqa: PLR2004
        return _CONSTANT
    if words & {*_SIDE_WORDS, "total", "cumulative", "cum", "kumuliert"} or "%" in column:
        return _BESIDE
    return _NAMED if words & {*_VALUE_WORDS} else _PLAIN


def meaning_of(column: str) -> Meaning:
    """Return whether values add up as sales do, or not as temperatures; by their name."""
    words = {*re.split(r"[_\d]+", normal_name(column)), *normal_name(column).split("_")}
    if words & {*_SIDE_WORDS, *_INTENSIVE_WORDS} or "%" in column:
        return "intensive"
    additive = {*_VALUE_WORDS} - {"y", "value", "values", "wert", "valeur", "valor", "obs_value"}
    return "additive" if words & additive else "unknown"


def _are_opposites(one: str, two: str) -> bool:
    """Whether two names differ in a pair of opposites alone, such as `in` and `out`."""
    words = [_words(name) for name in (one, two)]
    return words[0] ^ words[1] in _OPPOSITES


def _are_measures(columns: Sequence[str]) -> bool:
    """Whether columns are several measures of one place: by their units, or by their names."""
    units = {match[1].lower() for c in columns if (match := _UNIT.search(c))}
    with_unit = sum(_UNIT.search(c) is not None for c in columns)
    if len(columns) > 1 and with_unit == len(columns):
        return len(units) > 1
    if any(_are_opposites(one, two) for one, two in combinations(columns, 2)):
        return False  # such as what comes in and goes out: both are forecast
    named = [words for c in columns if (words := _words(c) & {*_VALUE_WORDS})]
    if len(named) > 1 and not set.intersection(*named):
        return True
    beside = [_words(c) & {*_SIDE_WORDS} for c in columns]
    plain = sum(not words for words in beside)
    distinct = {word for words in beside for word in words}
    return plain == 1 < len(columns) or (plain == 0 and len(distinct) > 1)


def _is_covariate(table: pa.Table, column: str) -> bool:
    """Whether a column of numbers says more than the clock, the map or a row's number."""
    name = normal_name(column)
    told = (*CALENDAR_NAMES, *PLACE_NAMES, *ROW_NAMES, *ID_NAMES)
    is_id = name in told or _ID.search(column) is not None
    is_id = is_id or _numbers_rows(table, column)
    return _is_number(table, column) and not is_id and pc.count(table[column]).as_py() > 0


def _is_location(table: pa.Table, column: str) -> bool:
    """Whether a column of a wide table may be one.

    These are numbers, but no part of the calendar, no numbers of rows and no id of all of them.
    """
    is_named_id = normal_name(column) in ID_NAMES or _ID.search(column) is not None
    is_row_id = is_named_id and not _repeats(table, [column])
    is_index = normal_name(column) in ROW_NAMES or _NAMELESS.fullmatch(column) is not None
    is_told = normal_name(column) in CALENDAR_NAMES or (is_index and _counts_rows(table, column))
    is_same_id = _ID.search(column) is not None and pc.count_distinct(table[column]).as_py() == 1
    is_id = is_same_id or is_row_id
    is_id = is_id or _numbers_rows(table, column)
    return _is_number(table, column) and not is_told and not is_id


def _numbers_rows(table: pa.Table, column: str) -> bool:
    """Whether a column numbers rows, by its name and content: receipts, orders, tickets."""
    return bool(_words(column) & _NUMBERED_WORDS) and _counts_rows(table, column)


def _counts_rows(table: pa.Table, column: str) -> bool:
    """Whether a column of whole numbers goes up by one from row to row."""
    values = table[column]
    if not pa.types.is_integer(values.type) or values.null_count or len(values) < 2:  # noqa: PLR2004
        return False
    return bool(pc.all(pc.equal(pc.pairwise_diff(values.combine_chunks()).slice(1), 1)).as_py())


def _only(columns: Sequence[str]) -> str | None:
    return columns[0] if len(columns) == 1 else None


def _by_name(columns: Sequence[str]) -> Mapping[str, str]:
    """Return the columns by their plain names; of two alike the first."""
    named: dict[str, str] = {}
    for column in columns:
        named.setdefault(normal_name(column), column)
    return named


def normal_name(column: str) -> str:
    """Return a name in small letters, without its unit: `Verbrauch [kWh]` is `verbrauch`."""
    plain = re.sub(r"[\[(].*?[\])]", "", column).strip() or column
    return re.sub(r"[^\w]+", "_", plain.lower()).strip("_")


def _words(column: str) -> set[str]:
    """Return the words of a name, without its numbers."""
    return {*re.split(r"[_\d]+", normal_name(column))} - {""}


def _sample_texts(table: pa.Table, column: str) -> list[str]:
    texts = as_texts(table[column].slice(0, _SAMPLE))
    return [] if texts is None else pc.unique(texts.drop_null()).to_pylist()


def _is_text(table: pa.Table, column: str) -> bool:
    kind = table[column].type
    return bool(pa.types.is_string(kind) or pa.types.is_dictionary(kind))


def _is_number(table: pa.Table, column: str) -> bool:
    kind = table[column].type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_decimal(kind))
