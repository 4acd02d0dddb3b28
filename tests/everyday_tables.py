"""Tables as people have them: spreadsheets, sensors, shops, meters and portals of open data.

Each is written as its source writes it, with no regard to how this project reads.
"""

import csv
import gzip
import io
import lzma
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.workbooks import write_sheet

Quoting = Literal[0, 1, 2, 3]  # of the module csv
Rows = Iterable[Sequence[object]]
HOUR, DAY = 60, 1440  # minutes
WEEK, MONTH, YEAR = 7 * DAY, 43_830, 525_960


@dataclass(frozen=True)
class Truth:
    """What a table holds, in the mind of the one who wrote it."""

    places: int
    minutes: int  # of a step
    steps: int
    total: float  # of all values


@dataclass(frozen=True)
class Everyday:
    """A table of daily life: how it is written, and what it holds."""

    name: str
    write: Callable[[Path], tuple[list[Path], Truth]]


def draw_counts(times: pd.DatetimeIndex, level: float, seed: int) -> np.ndarray:
    """Return counts with a day, a week and a year in them."""
    generator = np.random.default_rng(seed)
    day = 1 + 0.6 * np.sin(2 * np.pi * (times.hour + times.minute / 60 - 7) / 24)
    week = 1 - 0.3 * (times.day_of_week >= 5)
    year = 1 + 0.2 * np.cos(2 * np.pi * (times.day_of_year - 180) / 365)
    return generator.poisson(level * np.asarray(day * week * year))


def text(rows: Rows, delimiter: str = ",", end: str = "\n", quoting: Quoting = 0) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return buffer.getvalue()


def comma(number: float, digits: int = 2) -> str:
    """Return 1.234,50."""
    return f"{number:,.{digits}f}".translate(str.maketrans(",.", ".,"))


# -------------------------------------------------------------------------- the first twenty


def _takings(folder: Path) -> tuple[list[Path], Truth]:
    """Daily takings of three shops, saved by a German spreadsheet."""
    times, path = pd.date_range("2022-01-01", "2023-12-31"), folder / "Umsatz.csv"
    shops = {"Köln": 1900, "Düsseldorf": 2600, "Münster": 900}
    sold = {n: draw_counts(times, level, i) + 0.5 for i, (n, level) in enumerate(shops.items())}
    rows = [["Datum", "Filiale", "Umsatz in €"]]
    for day, time in enumerate(times):
        rows += [[f"{time:%d.%m.%Y}", n, comma(sold[n][day])] for n in shops]
    path.write_bytes(text(rows, ";", "\r\n").encode("cp1252"))
    return [path], Truth(3, DAY, len(times), float(sum(map(np.sum, sold.values()))))


def _museums(folder: Path) -> tuple[list[Path], Truth]:
    """Visitors of museums in a workbook, with a title above the header."""
    times, path = pd.date_range("2022-03-01", periods=500), folder / "Besucherzahlen.xlsx"
    names = ["Stadtmuseum", "Naturkunde", "Galerie"]
    columns = [draw_counts(times, 120 * (n + 1), n) for n in range(3)]
    title: list[list[object]] = [["Besucherzahlen der Museen", None, None, None], [None] * 4]
    rows = [[time, *map(int, row)] for time, *row in zip(times, *columns, strict=True)]
    write_sheet([*title, ["Datum", *names], *rows], path)
    return [path], Truth(3, DAY, 500, float(np.sum(columns)))


def _logger(folder: Path) -> tuple[list[Path], Truth]:
    """A logger of a greenhouse: milliseconds, units in the header, NA and -999."""
    times, path = pd.date_range("2023-02-01", periods=48 * 60, freq="30min"), folder / "logger.csv"
    columns = [draw_counts(times, level, n) / 10 for n, level in enumerate((180, 90, 600))]
    columns[1] -= 4.0
    texts = [[f"{value:.1f}" for value in column] for column in columns]
    lost = 0.0
    for row, column, word in ((70, 0, "NA"), (71, 0, "NA"), (400, 1, "-999"), (401, 1, "-999")):
        lost += float(columns[column][row]) * (column == 0)
        texts[column][row] = word
    milliseconds = (times - pd.Timestamp("1970-01-01")) // pd.Timedelta(milliseconds=1)
    header = ["Timestamp [ms]", "T_in [°C]", "T_out [°C]", "RH [%]"]
    path.write_text(text([header, *zip(milliseconds, *texts, strict=True)]), encoding="utf-8")
    inside = float(columns[0].sum()) - lost  # the others are measures beside it
    return [path], Truth(1, 30, len(times), inside)


def _promotions(folder: Path) -> tuple[list[Path], Truth]:
    """Units sold of items in two stores, with price and promotion."""
    times, path = pd.date_range("2022-06-01", periods=400), folder / "sales_history.csv"
    rows: list[list[object]] = [["date", "store", "item", "units_sold", "price", "promo"]]
    total, generator = 0, np.random.default_rng(7)
    for store in ("S01", "S02"):
        for number, item in enumerate(("milk", "bread", "coffee")):
            sold = draw_counts(times, 20 * (number + 1), number)
            total += int(sold.sum())
            for time, units in zip(times, sold, strict=True):
                promo = int(generator.random() < 0.1)
                price = round(1.5 + number - 0.3 * promo, 2)
                rows.append([f"{time:%Y-%m-%d}", store, item, units, price, promo])
    path.write_text(text(rows))
    return [path], Truth(6, DAY, 400, total)


def _meters(folder: Path) -> tuple[list[Path], Truth]:
    """Smart meters: a row for each day, a column for each hour."""
    times, path = pd.date_range("2023-01-01", periods=24 * 120, freq="h"), folder / "smart.csv"
    rows: list[list[object]] = [["meter", "date", *(f"{hour:02d}:00" for hour in range(24))]]
    total = 0.0
    for number in range(3):
        load = draw_counts(times, 90 * (number + 1), number) / 100
        total += float(load.sum())
        for day in range(120):
            hours = [f"{value:.2f}" for value in load[24 * day : 24 * day + 24]]
            rows.append([f"DE00{4711 + number}", f"{times[24 * day]:%Y-%m-%d}", *hours])
    path.write_text(text(rows))
    return [path], Truth(3, HOUR, len(times), total)


def _bicycles(folder: Path) -> tuple[list[Path], Truth]:
    """Counters of bicycles on a French portal."""
    times = pd.date_range("2023-04-01", periods=24 * 60, freq="h", tz="Europe/Paris")
    path, total = folder / "comptage-velo.csv", 0
    header = ["Identifiant du compteur", "Nom du compteur", "Comptage horaire",
              "Date et heure de comptage", "Coordonnées géographiques"]  # fmt: skip
    rows: list[list[object]] = []
    streets = ("12 rue de la Huchette", "Quai d'Orsay E-O", "27 Bd Diderot N-S", "Pont Neuf")
    for number, street in enumerate(streets):
        counts = draw_counts(times, 30 * (number + 1), number)
        total += int(counts.sum())
        for time, count in zip(times, counts, strict=True):
            place = f"48.8{number}1,2.3{number}5"
            rows.append([f"1000{number}-1010", street, count, time.isoformat(), place])
    np.random.default_rng(3).shuffle(rows)
    path.write_text(text([header, *rows], ";"), encoding="utf-8-sig")
    return [path], Truth(4, HOUR, len(times), total)


def _entries(folder: Path) -> tuple[list[Path], Truth]:
    """Entries of American stations: 12-hour clock, groups of thousands."""
    times = pd.date_range("2022-11-01", periods=24 * 61, freq="h")
    path, total = folder / "Station_Entries_Hourly.csv", 0
    rows: list[list[object]] = [["Station", "Date", "Entries"]]
    for number, station in enumerate(("Harvard", "Park St", "Back Bay")):
        counts = draw_counts(times, 800 * (number + 1), number)
        total += int(counts.sum())
        for time, count in zip(times, counts, strict=True):
            clock = f"{time.month}/{time.day}/{time.year} {time.hour % 12 or 12}:{time:%M %p}"
            rows.append([station, clock, f"{count:,}"])
    path.write_text(text(rows))
    return [path], Truth(3, HOUR, len(times), total)


def _gauge(folder: Path) -> tuple[list[Path], Truth]:
    """A gauge of a river: the day and the clock in two columns."""
    times, path = pd.date_range("2022-12-20", periods=96 * 30, freq="15min"), folder / "Pegel.txt"
    level = draw_counts(times, 2000, 1) / 10
    rows = [["Datum", "Uhrzeit", "Pegel [cm]"]]
    rows += [
        [f"{t:%d.%m.%Y}", f"{t:%H:%M}", comma(v, 1)] for t, v in zip(times, level, strict=True)
    ]
    path.write_bytes(text(rows, ";", "\r\n").encode("cp1252"))
    return [path], Truth(1, 15, len(times), float(level.sum()))


def _unicode_text(folder: Path) -> tuple[list[Path], Truth]:
    """What Excel saves as "Unicode text"."""
    times, path = pd.date_range("2021-01-01", periods=700), folder / "Calls.txt"
    columns = [draw_counts(times, 700 * (n + 1), n) for n in range(3)]
    rows: list[list[object]] = [["Date", "North", "South", "East"]]
    for time, *row in zip(times, *columns, strict=True):
        rows.append([f"{time:%m/%d/%Y}", *(f"{n:,}" for n in row)])
    path.write_bytes(text(rows, "\t", "\r\n").encode("utf-16"))
    return [path], Truth(3, DAY, 700, float(np.sum(columns)))


def _devices(folder: Path) -> tuple[list[Path], Truth]:
    """What a broker of messages writes: times of JSON, with Z and fractions."""
    times, path = (
        pd.date_range("2023-03-01", periods=144 * 25, freq="10min"),
        folder / "export.csv",
    )
    rows: list[list[object]] = [["time", "device", "value"]]
    total = 0.0
    for number in range(3):
        values = draw_counts(times, 300, number) / 10
        total += float(values.sum())
        for time, value in zip(times, values, strict=True):
            rows.append([f"{time:%Y-%m-%dT%H:%M:%S}.000Z", f"sensor-{number}", f"{value:.1f}"])
    path.write_text(text(rows, quoting=csv.QUOTE_ALL))
    return [path], Truth(3, 10, len(times), total)


def _counters(folder: Path) -> tuple[list[Path], Truth]:
    """Pedestrians, a column for each station, with the index of a frame before them."""
    times = pd.date_range("2022-01-01", periods=24 * 90, freq="h")
    names = ["Bourke St Mall (North)", "Town Hall (West)", "Flinders St/Elizabeth", "Birrarung"]
    frame = pd.DataFrame({n: draw_counts(times, 90 * (i + 1), i) for i, n in enumerate(names)})
    total = float(frame.to_numpy().sum())
    frame.insert(0, "Date_Time", times.strftime("%Y-%m-%d %H:%M:%S"))
    path = folder / "pedestrians.csv"
    frame.to_csv(path)
    return [path], Truth(4, HOUR, len(times), total)


def _weekly(folder: Path) -> tuple[list[Path], Truth]:
    """Weekly takings in dollars."""
    times, path = pd.date_range("2020-01-04", periods=150, freq="7D"), folder / "weekly sales.csv"
    rows: list[list[object]] = [["Week ending", "Region", "Sales"]]
    total = 0.0
    for number, region in enumerate(("East", "West")):
        sold = draw_counts(times, 22_000 * (number + 1), number) + 0.25
        total += float(sold.sum())
        rows += [
            [f"{t.month}/{t.day}/{t.year}", region, f"${v:,.2f}"]
            for t, v in zip(times, sold, strict=True)
        ]
    path.write_text(text(rows))
    return [path], Truth(2, WEEK, 150, total)


def _passengers(folder: Path) -> tuple[list[Path], Truth]:
    """Passengers of airlines by month, as in every course on time series."""
    times, path = (
        pd.date_range("1949-01-01", "1960-12-01", freq="MS"),
        folder / "AirPassengers.csv",
    )
    values = draw_counts(times, 250, 4)
    rows: list[list[object]] = [["Month", "#Passengers"]]
    rows += [[f"{t:%Y-%m}", v] for t, v in zip(times, values, strict=True)]
    path.write_text(text(rows))
    return [path], Truth(1, MONTH, 144, float(values.sum()))


def _two_years(folder: Path) -> tuple[list[Path], Truth]:
    """A city in two files, one for each year."""
    paths, total, steps = [], 0, 0
    for year in ("2022", "2023"):
        times = pd.date_range(f"{year}-01-01", f"{year}-12-31")
        rows: list[list[object]] = [["zone", "day", "trips"]]
        for zone in (4, 12, 13):
            counts = draw_counts(times, 9 * zone, zone + int(year))
            total += int(counts.sum())
            rows += [[zone, f"{t:%Y-%m-%d}", n] for t, n in zip(times, counts, strict=True)]
        paths.append(folder / f"trips-{year}.csv")
        paths[-1].write_text(text(rows))
        steps += len(times)
    return paths, Truth(3, DAY, steps, total)


def _pickups(folder: Path) -> tuple[list[Path], Truth]:
    """Counts out of a database, packed by gzip."""
    times = pd.date_range("2023-05-01", periods=24 * 70, freq="h")
    path, total = folder / "pickups.csv.gz", 0
    rows: list[list[object]] = [["PULocationID", "pickup_hour", "n_pickups"]]
    for zone in (79, 132, 161, 236):
        counts = draw_counts(times, zone / 2, zone)
        total += int(counts.sum())
        rows += [[zone, f"{t:%Y-%m-%d %H:%M:%S}", n] for t, n in zip(times, counts, strict=True)]
    path.write_bytes(gzip.compress(text(rows).encode()))
    return [path], Truth(4, HOUR, len(times), total)


def _household(folder: Path) -> tuple[list[Path], Truth]:
    """The power of a household: two measures, ? for missing, packed by zstd."""
    times = pd.date_range("2006-12-16 17:15", periods=96 * 40, freq="15min")
    power, volts = draw_counts(times, 90, 1) / 30, 230 + draw_counts(times, 40, 2) / 10
    rows: list[list[object]] = [["Date", "Time", "Global_active_power", "Voltage"]]
    lost = 0.0
    for number, (time, p, v) in enumerate(zip(times, power, volts, strict=True)):
        unknown = 1000 <= number < 1006
        lost += p if unknown else 0.0
        numbers = ["?", "?"] if unknown else [f"{p:.3f}", f"{v:.3f}"]
        rows.append([f"{time.day}/{time.month}/{time.year}", f"{time:%H:%M:%S}", *numbers])
    path = folder / "household_power.txt.zst"
    with pa.CompressedOutputStream(path, "zstd") as stream:
        stream.write(text(rows, ";").encode())
    return [path], Truth(1, 15, len(times), float(np.round(power, 3).sum() - lost))


def _air(folder: Path) -> tuple[list[Path], Truth]:
    """The air at stations, several measures beside each other, packed by xz."""
    times, path = pd.date_range("2023-01-01", periods=24 * 60, freq="h"), folder / "air.csv.xz"
    rows: list[list[object]] = [["station", "datetime", "PM10", "PM2.5", "NO2"]]
    total = 0.0
    for number, station in enumerate(("DEBE010", "DEBE034")):
        measures = [
            draw_counts(times, level, number + 2 * i) for i, level in enumerate((25, 12, 33))
        ]
        total += float(measures[0].sum())
        for time, *row in zip(times, *measures, strict=True):
            rows.append([station, f"{time:%Y-%m-%d %H:%M}", *row])
    path.write_bytes(lzma.compress(text(rows).encode()))
    return [path], Truth(2, HOUR, len(times), total)


def _nights(folder: Path) -> tuple[list[Path], Truth]:
    """Official statistics: a title, the year and the month in two columns, notes at the end."""
    months = ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September",
              "Oktober", "November", "Dezember")  # fmt: skip
    times, path = pd.date_range("2012-01-01", periods=132, freq="MS"), folder / "45412-0012.csv"
    values = draw_counts(times, 4_000, 9)
    lines = [
        "Tabelle: 45412-0012",
        "Ankünfte und Übernachtungen;;",
        ";;",
        "Jahr;Monat;Übernachtungen",
    ]
    lines += [f"{t.year};{months[t.month - 1]};{v}" for t, v in zip(times, values, strict=True)]
    lines += ["__________", "(c) Statistisches Bundesamt, 2023 | Stand: 11.10.2023 / 10:13:27"]
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return [path], Truth(1, MONTH, 132, float(values.sum()))


def _appended(folder: Path) -> tuple[list[Path], Truth]:
    """Files of single days one after the other, with their headers, the last line cut off."""
    times, path = pd.date_range("2023-09-01", periods=24 * 45, freq="h"), folder / "all.csv"
    counts = {name: draw_counts(times, 25, n) for n, name in enumerate(("gate-a", "gate-b"))}
    parts = []
    for day in range(45):
        part: list[list[object]] = [["timestamp", "sensor", "count"]]
        for hour in range(24 * day, 24 * day + 24):
            part += [[f"{times[hour]:%Y-%m-%dT%H:%M}", n, c[hour]] for n, c in counts.items()]
        parts.append(text(part))
    path.write_text("".join(parts).rstrip("\n"))
    return [path], Truth(2, HOUR, len(times), float(sum(c.sum() for c in counts.values())))


def _parking(folder: Path) -> tuple[list[Path], Truth]:
    """How full car parks are: quoted numbers, percent signs, empty columns at the end."""
    times, path = pd.date_range("2022-01-01", periods=400), folder / "parking.csv"
    rows: list[list[object]] = [["Car park", "Date", "Occupancy", "", ""]]
    total = 0.0
    for number, name in enumerate(("Central", "Station")):
        full = np.minimum(draw_counts(times, 450 + 100 * number, number) / 10, 100)
        total += float(full.sum())
        rows += [
            [name, f"{t:%Y-%m-%d}", f"{v:.1f}%", "", ""] for t, v in zip(times, full, strict=True)
        ]
    path.write_text(text(rows, quoting=csv.QUOTE_ALL))
    return [path], Truth(2, DAY, 400, total)


TABLES = (
    Everyday("a German spreadsheet of takings", _takings),
    Everyday("a workbook with a title", _museums),
    Everyday("a logger in milliseconds", _logger),
    Everyday("items of stores with prices", _promotions),
    Everyday("smart meters by day", _meters),
    Everyday("a French portal", _bicycles),
    Everyday("an American portal", _entries),
    Everyday("a day and a clock", _gauge),
    Everyday("Unicode text of Excel", _unicode_text),
    Everyday("devices with times of JSON", _devices),
    Everyday("a column for each station", _counters),
    Everyday("weekly sales in dollars", _weekly),
    Everyday("passengers by month", _passengers),
    Everyday("a city in two files", _two_years),
    Everyday("counts packed by gzip", _pickups),
    Everyday("a household packed by zstd", _household),
    Everyday("the air packed by xz", _air),
    Everyday("official statistics with notes", _nights),
    Everyday("days one after the other", _appended),
    Everyday("percent in quotes", _parking),
)


# ------------------------------------------------------- ten more, not seen while mending these


def _grid(folder: Path) -> tuple[list[Path], Truth]:
    """The load of a grid: each time is a span."""
    times, path = pd.date_range("2023-01-01", periods=24 * 50, freq="h"), folder / "Total Load.csv"
    load = [draw_counts(times, level, n) for n, level in enumerate((52_000, 51_000))]
    rows: list[list[object]] = [["Time (UTC)", "Day-ahead Total Load Forecast [MW] - DE",
                                 "Actual Total Load [MW] - DE"]]  # fmt: skip
    for time, *row in zip(times, *load, strict=True):
        end = time + pd.Timedelta(hours=1)
        rows.append([f"{time:%d.%m.%Y %H:%M} - {end:%d.%m.%Y %H:%M}", *row])
    path.write_text(text(rows, quoting=csv.QUOTE_ALL))
    return [path], Truth(2, HOUR, len(times), float(np.sum(load)))


def _weather_service(folder: Path) -> tuple[list[Path], Truth]:
    """A station of a weather service: 2023010100 is an hour, cells are padded, eor ends rows."""
    times, path = pd.date_range("2023-01-01", periods=24 * 60, freq="h"), folder / "produkt_tu.txt"
    warm, moist = draw_counts(times, 120, 1) / 10 - 4, np.minimum(draw_counts(times, 60, 2), 100)
    lines = ["STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor"]
    for time, t, r in zip(times, warm, moist, strict=True):
        lines.append(f"       1048;{time:%Y%m%d%H};    3;{t:6.1f};{r:7.1f};eor")
    path.write_text("\n".join(lines) + "\n")
    marks = 3 * len(times)  # of quality: nothing says that they are no measure
    total = float(np.round(warm, 1).sum() + moist.sum() + marks)
    return [path], Truth(3, HOUR, len(times), total)


def _settlements(folder: Path) -> tuple[list[Path], Truth]:
    """British demand: 48 numbered half hours of each day."""
    times, path = pd.date_range("2023-01-01", periods=48 * 40, freq="30min"), folder / "demand.csv"
    load = draw_counts(times, 29_000, 5)
    rows: list[list[object]] = [["SETTLEMENT_DATE", "SETTLEMENT_PERIOD", "ND"]]
    for number, (time, value) in enumerate(zip(times, load, strict=True)):
        rows.append([f"{time:%d-%b-%Y}".upper(), number % 48 + 1, value])
    path.write_text(text(rows))
    return [path], Truth(1, 30, len(times), float(load.sum()))


def _rainfall(folder: Path) -> tuple[list[Path], Truth]:
    """Rain by month: a row for each year, a column for each month."""
    times, path = pd.date_range("1990-01-01", "2019-12-01", freq="MS"), folder / "rainfall.csv"
    rain = draw_counts(times, 700, 3) / 10
    names = [f"{time:%b}" for time in times[:12]]
    rows: list[list[object]] = [["Year", *names]]
    rows += [
        [year, *map(float, rain[12 * n : 12 * n + 12])] for n, year in enumerate(range(1990, 2020))
    ]
    path.write_text(text(rows))
    return [path], Truth(1, MONTH, len(times), float(rain.sum()))


def _competition(folder: Path) -> tuple[list[Path], Truth]:
    """Rented bicycles of a competition, the count in the last column."""
    times, path = pd.date_range("2011-01-01", periods=24 * 60, freq="h"), folder / "train.csv"
    casual, registered = draw_counts(times, 20, 1), draw_counts(times, 90, 2)
    rows: list[list[object]] = [["datetime", "season", "holiday", "workingday", "weather", "temp",
                                 "humidity", "casual", "registered", "count"]]  # fmt: skip
    for n, time in enumerate(times):
        working = int(time.weekday() < 5)
        sums = [casual[n], registered[n], casual[n] + registered[n]]
        warm = round(10 + 5 * np.sin(n / 100), 2)
        rows.append(
            [f"{time:%Y-%m-%d %H:%M:%S}", 1, 0, working, 1 + n % 3, warm, 60 + n % 30, *sums]
        )
    path.write_text(text(rows))
    return [path], Truth(1, HOUR, len(times), float(casual.sum() + registered.sum()))


def _drugstores(folder: Path) -> tuple[list[Path], Truth]:
    """Drug stores of a competition: newest rows first, closed on Sundays."""
    times, path = pd.date_range("2014-01-01", periods=500), folder / "train.csv"
    sold = {store: draw_counts(times, 5_000 + 100 * store, store) for store in (1, 2, 3)}
    for values in sold.values():
        values[times.day_of_week == 6] = 0
    rows: list[list[object]] = [["Store", "DayOfWeek", "Date", "Sales", "Customers", "Open",
                                 "Promo", "StateHoliday", "SchoolHoliday"]]  # fmt: skip
    for day in reversed(range(500)):
        weekday = times[day].weekday() + 1
        for store, values in sold.items():
            customers, is_open = values[day] // 9, int(weekday < 7)
            rows.append([store, weekday, f"{times[day]:%Y-%m-%d}", values[day], customers, is_open,
                         int(day % 14 < 5), "0" if day % 50 else "a", 0])  # fmt: skip
    path.write_text(text(rows, quoting=csv.QUOTE_NONNUMERIC))
    return [path], Truth(3, DAY, 500, float(sum(v.sum() for v in sold.values())))


def _customers(folder: Path) -> tuple[list[Path], Truth]:
    """Electricity of customers: a frame's index without a name, decimal commas."""
    times, path = pd.date_range("2012-01-01", periods=96 * 30, freq="15min"), folder / "LD2011.txt"
    load = [draw_counts(times, 300 * (n + 1), n) / 100 for n in range(3)]
    header: list[object] = ["", "MT_001", "MT_002", "MT_003"]
    rows = [[f"{t:%Y-%m-%d %H:%M:%S}", *(f"{v:.2f}".replace(".", ",") for v in row)]
            for t, *row in zip(times, *load, strict=True)]  # fmt: skip
    path.write_text(text([header, *rows], ";"))
    return [path], Truth(3, 15, len(times), float(np.sum(load)))


def _world(folder: Path) -> tuple[list[Path], Truth]:
    """Indicators of countries: lines above, years across, empty cells."""
    path, generator = folder / "API_SP.POP.csv", np.random.default_rng(1)
    years = range(1960, 2023)
    rows: list[list[object]] = [["Data Source", "World Development Indicators", ""], [],
                                ["Last Updated Date", "2023-10-26", ""], [],
                                ["Country Name", "Country Code", "Indicator Name",
                                 "Indicator Code", *years, ""]]  # fmt: skip
    total = 0
    for name, code in (("Austria", "AUT"), ("Chad", "TCD"), ("Peru", "PER")):
        values = (generator.uniform(4e6, 7e6) * np.exp(0.01 * np.arange(63))).astype(int)
        total += int(values[:-1].sum())
        cells = [*map(int, values[:-1]), ""]
        rows.append([name, code, "Population, total", "SP.POP.TOTL", *cells, ""])
    path.write_text(text(rows, quoting=csv.QUOTE_ALL), encoding="utf-8-sig")
    return [path], Truth(3, YEAR, 63, float(total))  # the last has no value yet


def _flux(folder: Path) -> tuple[list[Path], Truth]:
    """What a database of time series exports, with its annotations."""
    times, path = pd.date_range("2023-06-01", periods=288 * 12, freq="5min"), folder / "influx.csv"
    lines = ["#group,false,false,true,true,false,false,true,true",
             "#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string",
             "#default,mean,,,,,,,",
             ",result,table,_start,_stop,_time,_value,_field,host"]  # fmt: skip
    total = 0.0
    for number, host in enumerate(("web-1", "web-2")):
        values = draw_counts(times, 300, number) / 10
        total += float(values.sum())
        ends = f"{times[0]:%Y-%m-%dT%H:%M:%SZ},{times[-1]:%Y-%m-%dT%H:%M:%SZ}"
        for time, value in zip(times, values, strict=True):
            lines.append(f",,{number},{ends},{time:%Y-%m-%dT%H:%M:%SZ},{value},usage_user,{host}")
    path.write_text("\r\n".join(lines) + "\r\n")
    return [path], Truth(2, 5, len(times), total)


def _pivot(folder: Path) -> tuple[list[Path], Truth]:
    """A pivot table in a workbook: the branch stands in the first row of its block alone."""
    times, path = pd.date_range("2022-01-01", periods=300), folder / "Pivot.xlsx"
    rows: list[list[object]] = [["Sum of Amount", None, None], ["Branch", "Day", "Amount"]]
    total = 0
    for number, branch in enumerate(("Leeds", "York")):
        values = draw_counts(times, 300, number)
        total += int(values.sum())
        for day, (time, value) in enumerate(zip(times, values, strict=True)):
            rows.append([None if day else branch, time, int(value)])
        rows.append([f"{branch} Total", None, int(values.sum())])
    rows.append(["Grand Total", None, total])
    write_sheet(rows, path)
    return [path], Truth(2, DAY, 300, float(total))


FURTHER = (
    Everyday("spans of time", _grid),
    Everyday("a weather service", _weather_service),
    Everyday("half hours by number", _settlements),
    Everyday("months across", _rainfall),
    Everyday("bicycles of a competition", _competition),
    Everyday("drug stores of a competition", _drugstores),
    Everyday("an index without a name", _customers),
    Everyday("years across", _world),
    Everyday("annotations of a database", _flux),
    Everyday("a pivot table", _pivot),
)
