"""Harder tables as people have them: pivots, ledgers, events, readings at odd times, exports.

Each is written as its source writes it, with no regard to how this project reads.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tests.everyday_tables import DAY, HOUR, MONTH, WEEK, Everyday, Truth, comma, draw_counts, text
from tests.workbooks import write_sheet, write_sheets

QUARTER = 131_490
Written = tuple[list[Path], Truth]


def _sum(*columns: Sequence[float] | np.ndarray) -> float:
    return float(sum(np.sum(column) for column in columns))


def _pivot_with_totals(folder: Path) -> Written:
    """A pivot table with titles above it, and totals on its right and below."""
    times, path = pd.date_range("2022-01-01", periods=420), folder / "pivot.xlsx"
    columns = [draw_counts(times, 80 * (n + 1), n) for n in range(3)]
    rows: list[list[object]] = [
        ["Sales report 2022", None, None, None, None],
        ["Sum of Units", "Store", None, None, None],
        ["Row Labels", "Leeds", "York", "Hull", "Grand Total"],
    ]
    rows += [[t, *map(int, r), int(sum(r))] for t, *r in zip(times, *columns, strict=True)]
    rows.append(["Grand Total", *(int(c.sum()) for c in columns), int(np.sum(columns))])
    write_sheet(rows, path)
    return [path], Truth(3, DAY, 420, _sum(*columns))


def _jitter(folder: Path) -> Written:
    """Sensors that report every five minutes, some seconds late, with a status."""
    generator, path = np.random.default_rng(5), folder / "sensors.csv"
    times, rows = pd.date_range("2023-05-01", periods=288 * 9, freq="5min"), []
    total = 0.0
    for number, device in enumerate(("A1", "B7", "C3")):
        warm = np.round(15 + 5 * np.sin(np.arange(len(times)) / 46 + number), 2)
        total += float(warm.sum())
        late = pd.to_timedelta(generator.integers(0, 5, len(times)), unit="s")
        states = generator.choice(["OK", "OK", "WARN"], len(times))
        rows += [
            [f"{t:%Y-%m-%d %H:%M:%S}", device, w, s]
            for t, w, s in zip(times + late, warm, states, strict=True)
        ]
    path.write_text(text([["timestamp", "device", "temp_c", "status"], *sorted(rows)]))
    return [path], Truth(3, 5, len(times), total)


def _income(folder: Path) -> Written:
    """Accounts: losses in parentheses, dollars, and a total below."""
    times, path = pd.date_range("2013-01-01", periods=120, freq="MS"), folder / "p&l.csv"
    income = np.round(200 + 900 * np.sin(np.arange(120)), 2)

    def dollars(amount: float) -> str:
        return f"${amount:,.2f}" if amount >= 0 else f"(${-amount:,.2f})"

    rows = [[f"{t:%b %Y}", dollars(v)] for t, v in zip(times, income, strict=True)]
    path.write_text(text([["Month", "Net Income"], *rows, ["Total", dollars(income.sum())]]))
    return [path], Truth(1, MONTH, 120, float(income.sum()))


def _tills(folder: Path) -> Written:
    """Receipts of two shops, each with a number of its own, while they are open."""
    generator, path, total = np.random.default_rng(2), folder / "pos_export.csv", 0
    rows: list[list[object]] = []
    for day in pd.date_range("2023-01-02", periods=61):
        for seconds in np.sort(generator.integers(8 * 3600, 20 * 3600, 97)):
            quantity, time = int(generator.integers(1, 4)), day + pd.Timedelta(seconds=seconds)
            total += quantity
            shop = generator.choice(["Main St", "Harbour"])
            rows.append([f"T{len(rows)}", f"{time:%Y-%m-%d}", f"{time:%H:%M:%S}", shop, quantity,
                         f"${quantity * 2.5:,.2f}"])  # fmt: skip
    path.write_text(text([["Transaction ID", "Date", "Time", "Store", "Qty", "Paid"], *rows]))
    return [path], Truth(2, HOUR, 60 * 24 + 12, float(total))


def _tickets(folder: Path) -> Written:
    """Tickets: one row each, with nothing to add up."""
    generator, path = np.random.default_rng(3), folder / "tickets.csv"
    seconds = np.sort(generator.integers(0, 90 * 86_400, 3_607))
    seconds[[0, -1]] = 0, 90 * 86_400 - 1
    times = pd.Timestamp("2023-01-01") + pd.to_timedelta(seconds, unit="s")
    rows = [[5_000 + n, f"{t:%Y-%m-%d %H:%M:%S}", "open" if n % 9 else "closed"]
            for n, t in enumerate(times)]  # fmt: skip
    path.write_text(text([["ticket_id", "created_at", "state"], *rows]))
    return [path], Truth(2, HOUR, 90 * 24, 3_607.0)


def _json_lines(folder: Path) -> Written:
    """What a queue writes: an object for each line, packed."""
    times, path = (
        pd.date_range("2023-01-01", periods=24 * 40, freq="h"),
        folder / "counts.jsonl.gz",
    )
    columns = {name: draw_counts(times, 20, n) for n, name in enumerate(("a", "b"))}
    lines = [
        json.dumps({"time": f"{t:%Y-%m-%dT%H:%M:%SZ}", "sensor": n, "count": int(c[i])})
        for i, t in enumerate(times)
        for n, c in columns.items()
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return [path], Truth(2, HOUR, len(times), _sum(*columns.values()))


def _answer(folder: Path) -> Written:
    """What an interface answers: rows inside an object, milliseconds, nested values."""
    times, path = pd.date_range("2023-01-01", periods=24 * 30, freq="h"), folder / "answer.json"
    values = draw_counts(times, 90, 3)
    milliseconds = (times - pd.Timestamp("1970-01-01")) // pd.Timedelta(milliseconds=1)
    rows = [
        {"ts": int(t), "reading": {"value": int(v), "quality": "A"}}
        for t, v in zip(milliseconds, values, strict=True)
    ]
    path.write_text(json.dumps({"status": "ok", "meta": {"unit": "kWh"}, "data": rows}))
    return [path], Truth(1, HOUR, len(times), _sum(values))


def _single_quotes(folder: Path) -> Written:
    """Cells in single quotes, with commas inside."""
    times, path = pd.date_range("2023-01-01", periods=24 * 40, freq="h"), folder / "flow.csv"
    lines, total = ["'Date','Site','Flow, m3/h'"], 0.0
    for number, site in enumerate(("Pump 1, north", "Pump 2")):
        flow = draw_counts(times, 40, number) / 4
        total += float(flow.sum())
        lines += [f"'{t:%Y-%m-%d %H:%M}','{site}','{v}'" for t, v in zip(times, flow, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return [path], Truth(2, HOUR, len(times), total)


def _epidemic(folder: Path) -> Written:
    """Cases by day across, as 1/22/20, and provinces that some countries do not have."""
    times, path = pd.date_range("2020-01-22", periods=420), folder / "confirmed.csv"
    days = [f"{t.month}/{t.day}/{t:%y}" for t in times]
    rows: list[list[object]] = [["Province/State", "Country/Region", "Lat", "Long", *days]]
    total = 0.0
    for number, place in enumerate((("", "Austria"), ("Hubei", "China"), ("Hebei", "China"))):
        cases = np.cumsum(draw_counts(times, 60, number))
        total += float(cases.sum())
        rows.append([*place, 47.5 + number, 14.5, *cases])
    path.write_text(text(rows))
    return [path], Truth(3, DAY, 420, total)


def _spares(folder: Path) -> Written:
    """Sales of spare parts: only days with sales have a row."""
    generator, path, rows = np.random.default_rng(5), folder / "spares.csv", []
    times, total = pd.date_range("2022-01-01", periods=500), 0
    for time in times:
        for shop in ("S1", "S2", "S3"):
            sold = int(generator.poisson(1.2)) + (time in (times[0], times[-1]))
            total += sold
            rows += [[f"{time:%Y-%m-%d}", shop, sold]] if sold else []
    path.write_text(text([["date", "shop", "units_sold"], *rows]))
    return [path], Truth(3, DAY, 500, float(total))


def _native_load(folder: Path) -> Written:
    """The load of a grid by region, hours that end from 01:00 to 24:00, and the whole grid."""
    times, path = (
        pd.date_range("2023-01-01", periods=24 * 50, freq="h"),
        folder / "Native_Load.csv",
    )
    columns = [np.round(draw_counts(times, 9_000 + n, n) / 7, 2) for n in range(3)]
    lines = ["Hour Ending,COAST,EAST,NORTH,ERCOT"]
    for time, *loads in zip(times, *columns, strict=True):
        cells = ",".join(f'"{load:,.2f}"' for load in (*loads, sum(loads)))
        lines.append(f"{time:%m/%d/%Y} {time.hour + 1:02d}:00,{cells}")
    path.write_text("\n".join(lines) + "\n")
    return [path], Truth(3, HOUR, len(times), _sum(*columns))


def _competition_ids(folder: Path) -> Written:
    """A competition: a number for each row, stores and families of goods."""
    times, path = pd.date_range("2016-01-01", periods=200), folder / "train.csv"
    rows: list[list[object]] = [["id", "date", "store_nbr", "family", "sales", "onpromotion"]]
    sold = {
        (s, f): draw_counts(times, 30 + s, s + len(f))
        for s in (1, 2, 3)
        for f in ("DAIRY", "EGGS")
    }
    for day, time in enumerate(times):
        for (store, family), values in sold.items():
            sales, promoted = float(values[day]), day % 3
            rows.append([len(rows) - 1, f"{time:%Y-%m-%d}", store, family, sales, promoted])
    path.write_text(text(rows))
    return [path], Truth(6, DAY, 200, _sum(*sold.values()))


def _months_as_sheets(folder: Path) -> Written:
    """A workbook with a sheet for each month, each with its total."""
    path, sheets, total = folder / "restaurant.xlsx", {}, 0
    for month in range(1, 7):
        first = pd.Timestamp(2023, month, 1)
        times = pd.date_range(first, periods=first.days_in_month)
        guests = draw_counts(times, 80, month)
        total += int(guests.sum())
        rows: list[list[object]] = [["Date", "Guests", "Revenue"]]
        rows += [[t, int(n), float(n) * 31.5] for t, n in zip(times, guests, strict=True)]
        sheets[f"{first:%b}"] = [*rows, ["Total", int(guests.sum()), guests.sum() * 31.5]]
    write_sheets({"Notes": [["Contact"], ["the office"]], **sheets}, path)
    return [path], Truth(1, DAY, 181, float(total))


def _ledger(folder: Path) -> Written:
    """A list of SAP: bars around its rows, ruled lines, a minus behind numbers."""
    times, path = pd.date_range("2022-01-01", periods=400), folder / "MB51.txt"
    ruling, total = "-" * 44, 0.0
    lines = ["List output 12.03.2023", "", ruling, "|Werk|Buchungsdatum|       Menge|ME |", ruling]
    for number, plant in enumerate((1000, 2000)):
        moved = (draw_counts(times, 60, number) - 60.0) / 4
        total += float(moved.sum())
        for time, value in zip(times, moved, strict=True):
            amount = comma(abs(value)) + ("-" if value < 0 else "")
            lines.append(f"|{plant}|{time:%d.%m.%Y}|{amount:>12}|ST |")
    path.write_bytes("\r\n".join([*lines, ruling]).encode("cp1252"))
    return [path], Truth(2, DAY, 400, total)


def _calls(folder: Path) -> Written:
    """A call centre: intervals of a day as spans, several measures, closed at night."""
    path, total = folder / "intervals.csv", 0.0
    rows: list[list[object]] = [["Date", "Interval", "Queue", "Offered", "Abandoned", "AHT (s)"]]
    for day in pd.bdate_range("2023-01-02", periods=60):
        times = pd.date_range(day + pd.Timedelta(hours=8), periods=24, freq="30min")
        for queue, level in (("Sales", 20), ("Support", 35)):
            offered = draw_counts(times, level, day.day)
            total += float(offered.sum())
            for time, calls in zip(times, offered, strict=True):
                span = f"{time:%H:%M}-{time + pd.Timedelta(minutes=30):%H:%M}"
                rows.append([f"{day:%d/%m/%Y}", span, queue, calls, calls // 9, 280 + calls])
    path.write_text(text(rows))
    return [path], Truth(2, 30, 48 * 81 + 24, total)


def _tourism(folder: Path) -> Written:
    """An office of statistics: months across, flags behind numbers, a colon for missing."""
    times, path = pd.date_range("2010-01-01", periods=120, freq="MS"), folder / "tour_occ.tsv"
    lines = ["freq,unit,geo\\TIME_PERIOD\t" + "\t".join(f"{t:%Y-%m} " for t in times)]
    total = 0.0
    for number, place in enumerate(("AT", "BE", "CZ")):
        nights = draw_counts(times, 40_000, number)
        cells = [f"{v} p" if n % 40 == 3 else f"{v} " for n, v in enumerate(nights)]
        cells[5] = ": "
        total += float(nights.sum() - nights[5])
        lines.append(f"M,NR,{place}\t" + "\t".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return [path], Truth(3, MONTH, 120, total)


def _fiscal(folder: Path) -> Written:
    """Quarters in a column of their own beside fiscal years."""
    path, total = folder / "revenue_fy.csv", 0.0
    rows: list[list[object]] = [["Fiscal Year", "Quarter", "Region", "Net revenue ($M)"]]
    for number in range(60):
        for place, region in enumerate(("Americas", "EMEA", "APAC")):
            revenue = 100.5 + 37 * ((number + 5 * place) % 11)
            total += revenue
            rows.append([2008 + number // 4, f"Q{number % 4 + 1}", region, f"${revenue:,.1f}"])
    path.write_text(text(rows))
    return [path], Truth(3, QUARTER, 60, total)


def _greenhouse(folder: Path) -> Written:
    """Two measures of one greenhouse, which are no two places."""
    times, path = pd.date_range("2023-01-01", periods=24 * 40, freq="h"), folder / "greenhouse.csv"
    warm, moist = draw_counts(times, 200, 1) / 10, np.minimum(draw_counts(times, 60, 2), 100)
    rows = [[f"{t:%Y-%m-%d %H:%M}", *r] for t, *r in zip(times, warm, moist, strict=True)]
    path.write_text(text([["Date", "Temperature (°C)", "Humidity (%)"], *rows]), encoding="utf-8")
    return [path], Truth(1, HOUR, len(times), _sum(warm))


def _leaking(folder: Path) -> Written:
    """Orders of two stores, beside the total of their month."""
    times, path = pd.date_range("2022-01-01", periods=400), folder / "orders.csv"
    rows: list[list[object]] = [["date", "store", "orders", "orders_total_month", "temp"]]
    total = 0.0
    for store in ("a", "b"):
        orders = pd.Series(draw_counts(times, 50, ord(store)), index=times)
        total += float(orders.sum())
        months = orders.groupby(times.month + 12 * times.year).transform("sum")
        rows += [
            [f"{t:%Y-%m-%d}", store, orders[t], months[t], round(9 + 8 * np.sin(n / 58), 1)]
            for n, t in enumerate(times)
        ]
    path.write_text(text(rows))
    return [path], Truth(2, DAY, 400, total)


def _weeks(folder: Path) -> Written:
    """Hospitals by ISO week: several measures, some rows given twice, n/a and dashes."""
    generator, path, total = np.random.default_rng(8), folder / "admissions.csv", 0.0
    rows: list[list[object]] = []
    for number, time in enumerate(pd.date_range("2019-01-07", periods=200, freq="7D")):
        year, week, _ = time.isocalendar()
        for hospital, level in (("St Mary", 120), ("General", 310)):
            admitted, full = int(generator.poisson(level)), f"{generator.uniform(70, 99):.1f}%"
            total += admitted
            cells = [admitted, "-" if number % 31 == 4 else admitted - 3, full]
            rows.append([f"{year}-W{week:02d}", hospital, *cells])
    repeated = [rows[n] for n in (7, 50, 51, 301)]
    header = ["Week", "Hospital", "Admissions", "Beds", "Occupancy %"]
    path.write_text(text([header, *rows, *repeated]))
    return [path], Truth(2, WEEK, 200, total)


HARDER = (
    Everyday("a pivot with totals", _pivot_with_totals),
    Everyday("readings some seconds late", _jitter),
    Everyday("losses in parentheses", _income),
    Everyday("receipts of tills", _tills),
    Everyday("tickets", _tickets),
    Everyday("lines of JSON", _json_lines),
    Everyday("an answer in JSON", _answer),
    Everyday("single quotes", _single_quotes),
    Everyday("an epidemic across", _epidemic),
    Everyday("days with sales alone", _spares),
    Everyday("regions and their grid", _native_load),
    Everyday("a number for each row", _competition_ids),
    Everyday("months as sheets", _months_as_sheets),
    Everyday("a ledger with bars", _ledger),
    Everyday("a call centre", _calls),
    Everyday("flags behind numbers", _tourism),
    Everyday("fiscal quarters", _fiscal),
    Everyday("two measures", _greenhouse),
    Everyday("a month's total beside its days", _leaking),
    Everyday("weeks of hospitals", _weeks),
)
