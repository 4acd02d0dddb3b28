"""Draws the figures of the documentation as SVG: `python docs/figures/draw.py`.

Colours are CSS variables. In the site they are those of `assets/site.css` and follow its light and
dark palettes; alone, each figure carries the same colours for both.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
STYLE = """<style>
svg { --fig-ink: #1f2430; --fig-muted: #5d6472; --fig-line: #8a93a6; --fig-box: #f2f4fa;
  --fig-accent: #3949ab; --fig-accent-box: #e3e7f8; --fig-warm: #b45309; --fig-warm-box: #fbeeda; }
@media (prefers-color-scheme: dark) {
  svg { --fig-ink: #e6e8ef; --fig-muted: #a9b0c0; --fig-line: #79829a;
    --fig-box: #2b2f3d;
    --fig-accent: #9fa8ff; --fig-accent-box: #31375c;
    --fig-warm: #f0b35e; --fig-warm-box: #47371f; }
}
</style>
"""
FONT = "font-family:system-ui,sans-serif"
KINDS = {  # fill and border of a box
    "plain": ("--fig-box", "--fig-line"),
    "accent": ("--fig-accent-box", "--fig-accent"),
    "warm": ("--fig-warm-box", "--fig-warm"),
}

WORTH_OF_OTHERS = {  # +3 against own past alone, %: factors, lasso and factors, lagged and factors
    "city, travel 0": (-1.4, -1.3, -1.4),
    "city, travel 0.5": (-3.7, -4.1, -4.5),
    "city, travel 1": (-7.1, -7.3, -9.1),
    "zones of Manhattan": (-9.1, -9.7, -10.0),
    "Hangzhou's metro": (-8.8, -6.5, -8.8),
    "grid of Manhattan": (-0.8, -3.2, -4.7),
    "Uber": (-5.4, -5.3, -5.4),
    "Los-loop": (-1.1, -1.2, -1.1),
}


class Figure:
    """A drawing in units of pixels, built up from boxes, arrows and texts."""

    def __init__(self, name: str, width: int, height: int) -> None:
        self.name, self.width, self.height = name, width, height
        self.parts: list[str] = []

    def box(
        self, at: tuple[float, float], size: tuple[float, float], lines: Sequence[str], kind: str
    ) -> None:
        """A rounded box; its first line is a title, the others are smaller."""
        (x, y), (w, h) = at, size
        fill, border = KINDS[kind]
        style = f"fill:var({fill});stroke:var({border});stroke-width:1.3"
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" style="{style}"/>'
        )
        top = y + h / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            title = number == 0
            self.text((x + w / 2, top + number * 18), line, bold=title, small=not title)

    def text(
        self, at: tuple[float, float], text: str, *, bold: bool = False, small: bool = False,
        anchor: str = "middle", color: str = "",
    ) -> None:  # fmt: skip
        """A line of text."""
        color = color or ("--fig-muted" if small else "--fig-ink")
        style = f"{FONT};font-size:{14 if small else 15}px;fill:var({color})"
        style += ";font-weight:600" if bold else ""
        x, y = at
        head = f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{style}">'
        self.parts.append(f"{head}{escape(text)}</text>")

    def line(
        self, points: Sequence[tuple[float, float]], *, color: str = "--fig-line",
        width: float = 1.5, arrow: bool = False, dash: str = "",
    ) -> None:  # fmt: skip
        """A line through points, with an arrow at its end if asked."""
        path = " ".join(
            f"{'M' if n == 0 else 'L'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(points)
        )
        style = f"fill:none;stroke:var({color});stroke-width:{width};stroke-linejoin:round"
        style += f";stroke-dasharray:{dash}" if dash else ""
        self.parts.append(f'<path d="{path}" style="{style}"/>')
        if arrow:
            self._head(points[-2], points[-1], color)

    def area(self, points: Sequence[tuple[float, float]], color: str) -> None:
        """A filled outline."""
        path = " ".join(
            f"{'M' if n == 0 else 'L'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(points)
        )
        self.parts.append(f'<path d="{path} Z" style="fill:var({color});stroke:none"/>')

    def dot(self, at: tuple[float, float], kind: str, radius: float = 6) -> None:
        """A filled circle."""
        fill, border = KINDS[kind]
        style = f"fill:var({fill});stroke:var({border});stroke-width:1.5"
        self.parts.append(
            f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="{radius:g}" style="{style}"/>'
        )

    def write(self) -> None:
        """Writes the figure beside this file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}">\n'
        )
        content = head + STYLE + "\n".join(self.parts) + "\n</svg>\n"
        (FOLDER / f"{self.name}.svg").write_text(content, encoding="utf-8")

    def _head(self, begin: tuple[float, float], end: tuple[float, float], color: str) -> None:
        (x0, y0), (x1, y1) = begin, end
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        u, v = (x1 - x0) / length, (y1 - y0) / length
        back = x1 - 8 * u, y1 - 8 * v
        left, right = (back[0] - 4 * v, back[1] + 4 * u), (back[0] + 4 * v, back[1] - 4 * u)
        self.area([end, left, right], color)


def overview() -> None:
    """The path of the data, from raw files to a page."""
    figure = Figure("overview", 1010, 200)
    steps = [
        (("raw data", "trips, tables,", "weather"), "plain", ""),
        (("panel", "locations × steps,", "covariates"), "accent", "ingest"),
        (("graph", "which locations", "depend on which"), "plain", "graphical lasso"),
        (("run", "a fitted", "estimator"), "accent", "training"),
        (("forecasts", "K steps ahead,", "with quantiles"), "plain", "forecast"),
        (("page, report", "live forecasts,", "comparisons"), "warm", "serve, report"),
    ]
    for number, (lines, kind, verb) in enumerate(steps):
        x = 5 + number * 173
        figure.box((x, 50), (135, 88), lines, kind)
        if number:
            figure.line([(x - 37, 94), (x - 2, 94)], arrow=True)
            figure.text((x - 19, 36), verb, small=True)
    figure.line([(245, 139), (245, 168), (591, 168), (591, 140)], arrow=True)
    figure.text((418, 190), "windows of the panel", small=True)
    figure.write()


def lags() -> None:
    """The 76 lags of a window."""
    figure = Figure("lags", 900, 250)
    x0, x1 = 150, 880
    hour = (x1 - x0) / 16
    labels = ["today", "1 day before", "… 6 days before", "1 week before", "… 4 weeks before"]
    for row, label in enumerate(labels):
        y = 40 + row * 38
        figure.text((x0 - 14, y + 4), label, small=True, anchor="end")
        figure.line([(x0, y), (x1, y)], width=0.8)
        for step in range(-7, 9):
            x = x0 + (step + 7.5) * hour
            history, targets = (range(-5, 1), range(1, 4)) if row == 0 else (range(-1, 6), ())
            kind = "accent" if step in history else "warm" if step in targets else "plain"
            figure.dot((x, y), kind, 2 if kind == "plain" else 6.5)
    origin = x0 + 7.5 * hour
    figure.line([(origin + hour / 2, 22), (origin + hour / 2, 212)], dash="4 4")
    figure.text((origin + hour / 2, 14), "origin t", bold=True)
    figure.text((origin + 2.2 * hour, 241), "time of day →", small=True)
    figure.dot((x0 + 8, 236), "accent", 6.5)
    figure.text((x0 + 22, 240), "history: 6 + 6 · 7 + 4 · 7 = 76", small=True, anchor="start")
    figure.dot((x1 - 150, 236), "warm", 6.5)
    figure.text((x1 - 136, 240), "targets: K = 3", small=True, anchor="start")
    figure.write()


def sparse_layer() -> None:
    """A sparse linear layer over three locations in a chain."""
    figure = Figure("sparse-layer", 860, 330)
    names = ["location 1", "location 2", "location 3", "auxiliary"]
    tops = [30, 110, 190, 270]
    links = {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)}
    auxiliary = {(3, n) for n in range(4)} | {(n, 3) for n in range(3)}
    for begin, end in sorted(links | auxiliary):
        line = [(421, tops[begin] + 22), (639, tops[end] + 22)]
        if (begin, end) in auxiliary:
            figure.line(line, color="--fig-warm", width=1)
        else:
            figure.line(line, color="--fig-accent", width=2.2)
    for row, (name, top) in enumerate(zip(names, tops, strict=True)):
        kind = "warm" if row == len(names) - 1 else "accent"
        for x, label in ((270, f"in: {name}"), (640, f"out: {name}")):
            figure.box((x, top), (150, 44), (label,), kind)
    for x, y in ((80, 52), (80, 132), (80, 212)):
        figure.dot((x, y), "accent", 15)
    figure.line([(80, 67), (80, 117)], color="--fig-accent", width=2.2)
    figure.line([(80, 147), (80, 197)], color="--fig-accent", width=2.2)
    for number, y in enumerate((52, 132, 212), 1):
        figure.text((80, y + 5), str(number), bold=True)
    figure.text((80, 250), "the graph: 1 – 2 – 3", small=True)
    figure.text((190, 132), "→", bold=True)
    figure.text((530, 18), "weights exist along edges only", small=True)
    figure.write()


def level() -> None:
    """How the preset `best` takes a window apart."""
    from math import pi, sin  # noqa: PLC0415

    figure = Figure("level", 960, 300)
    hours = range(96)

    def profile(hour: int) -> float:
        return 0.45 + 0.32 * sin(2 * pi * (hour - 8) / 24) + 0.12 * sin(4 * pi * (hour - 5) / 24)

    def wobble(hour: int) -> float:
        return 0.07 * sin(hour / 2.3) + 0.05 * sin(hour / 5.1 + 1) + 0.04 * sin(hour * 1.7)

    share = 0.6
    values = [share * profile(hour) + 0.8 * wobble(hour) * profile(hour) ** 0.5 for hour in hours]

    def points(series: Sequence[float], top: float, scale: float) -> list[tuple[float, float]]:
        return [
            (40 + 6 * hour, top - scale * value) for hour, value in zip(hours, series, strict=True)
        ]

    figure.line(points([profile(hour) for hour in hours], 180, 165), dash="5 4")
    expected = [share * profile(hour) for hour in hours]
    figure.line(points(expected, 180, 165), color="--fig-accent", width=2)
    figure.line(points(values, 180, 165), color="--fig-warm", width=2)
    figure.line([(40, 182), (612, 182)], width=0.8)
    deviations = [
        (v - u) / (0.2 * max(u, 0.05) ** 0.5) for v, u in zip(values, expected, strict=True)
    ]
    figure.line([(40, 246), (612, 246)], width=0.8)
    figure.line(points(deviations, 246, 60), color="--fig-ink", width=1.6)
    labels = [
        (52, "--fig-muted", "seasonal profile p (dashed)"),
        (92, "--fig-accent", "expected u = m · p at the window's level m"),
        (132, "--fig-warm", "observed x"),
        (236, "--fig-ink", "deviation r = (x − u) / σ:"),
        (256, "--fig-ink", "what the network sees"),
    ]
    for y, color, label in labels:
        figure.text((630, y + 4), label, small=True, anchor="start", color=color)
    figure.write()


def explanations() -> None:
    """Three ways to ask what carried a forecast."""
    figure = Figure("explanations", 900, 200)
    boxes = [
        ("attention", ("which past steps", "does the network look at?"), "plain"),
        ("gradient", ("how much does the forecast", "move with an input?"), "plain"),
        ("ablation", ("what is the forecast", "without the input?"), "accent"),
    ]
    figure.box((10, 58), (150, 76), ("a window", "past steps,", "neighbours"), "plain")
    for number, (name, lines, kind) in enumerate(boxes):
        y = 8 + number * 64
        figure.box((250, y), (370, 52), (name, " ".join(lines)), kind)
        figure.line([(161, 96), (248, y + 26)], arrow=True)
        figure.line([(621, y + 26), (698, 96)], arrow=True)
    figure.box(
        (700, 60),
        (180, 70),
        ("explanation", "contributions, and how", "far the methods agree"),
        "warm",
    )
    figure.write()


def request() -> None:
    """The journey of a trip: into the panel, through the service, to the page."""
    figure = Figure("request", 1000, 540)
    rows = [
        ("Prepare: trips become a panel", 40, [
            (("trips, tables", "raw files"), "plain"),
            (("ingest/", "counts per location", "and step"), "accent"),
            (("panel/", "values, covariates;", "Parquet, manifest"), "accent"),
            (("serve/service", "opens run, panel", "and store"), "accent"),
        ]),
        ("Write: an observation becomes part of a new snapshot", 180, [
            (("client", "POST", "/v1/observations"), "plain"),
            (("http/write", "checks every value"), "accent"),
            (("data/store", "SQLite: on disk", "before the answer"), "accent"),
            (("data/snapshot", "a new immutable", "state"), "accent"),
        ]),
        ("Read: a snapshot becomes a forecast", 320, [
            (("page", "GET /v1/forecast"), "warm"),
            (("http/read", "parameters, ETag,", "encoding"), "accent"),
            (("forecasting/engine", "cache by model,", "data, origin"), "accent"),
            (("forecasting/predictor", "cuts the panel that", "an origin may see"), "accent"),
        ]),
    ]  # fmt: skip
    for title, y, boxes in rows:
        figure.text((10, y - 13), title, bold=True, anchor="start")
        for number, (lines, kind) in enumerate(boxes):
            x = 10 + number * 255
            figure.box((x, y), (205, 80), lines, kind)
            if number:
                figure.line([(x - 48, y + 40), (x - 3, y + 40)], arrow=True)
    figure.line([(877, 121), (877, 177)], arrow=True)
    figure.line([(877, 261), (877, 317)], arrow=True)
    figure.text((868, 294), "read once per request", small=True, anchor="end")
    bottom = [
        (("models/", "the network:", "x̂ of K steps"), "plain"),
        (("estimators/networks", "scaled inputs", "of the window"), "plain"),
        (("estimators/", "match locations, fill", "missing, quantiles"), "plain"),
    ]
    for number, (lines, kind) in enumerate(bottom):
        x = 265 + number * 255
        figure.box((x, 450), (205, 80), lines, kind)
        if number:
            figure.line([(x - 2, 490), (x - 47, 490)], arrow=True)
    figure.line([(877, 401), (877, 447)], arrow=True)
    figure.line([(367, 449), (367, 403)], arrow=True)
    figure.text((357, 430), "forecast, quantiles", small=True, anchor="end")
    figure.write()


def training() -> None:
    """The journey of a window into a gradient."""
    figure = Figure("training", 1000, 250)
    top = [
        (("panel, splits", "fit(panel, splits)", "estimators/base"), "plain"),
        (("training data", "test steps hidden,", "windows cut once"), "accent"),
        (("batches", "origins → index", "windows/batches"), "accent"),
        (("network", "history + ahead → x̂", "models/"), "accent"),
    ]
    bottom = [
        (("run", "weights with the lowest", "validation loss"), "warm"),
        (("validation", "roll out, early stop,", "checkpoint"), "plain"),
        (("optimiser", "clip, AdamW, EMA", "training/loop"), "accent"),
        (("loss (Eq. 7)", "η RMSE² + MAPE, and", "pinball of quantiles"), "accent"),
    ]
    for y, boxes in ((20, top), (150, bottom)):
        for number, (lines, kind) in enumerate(boxes):
            figure.box((10 + number * 250, y), (195, 80), lines, kind)
    for number in range(1, 4):
        x = 10 + number * 250
        figure.line([(x - 53, 60), (x - 3, 60)], arrow=True)
        figure.line([(x - 2, 190), (x - 52, 190)], arrow=True)
    figure.line([(857, 101), (857, 147)], arrow=True)
    figure.line([(607, 149), (607, 103)], arrow=True)
    figure.text((617, 130), "next batch", small=True, anchor="start")
    figure.write()


def layers() -> None:
    """The layers of the package: each imports only those below it."""
    rows = [
        (("cli",), "the command", "warm"),
        (("pipeline",), "whole runs: panel, graph, training, comparison", "warm"),
        (("report", "serve"), "pages about comparisons; the HTTP service", "warm"),
        (("explain",), "explanations of single forecasts", "accent"),
        (("evaluation",), "backtests, comparisons", "accent"),
        (("estimators",), "fit, forecast, save, load; intervals", "accent"),
        (("training",), "the training loop, checkpoints", "accent"),
        (("versions",), "runs in versions, and the current one", "accent"),
        (("artifact",), "saved runs", "accent"),
        (("models",), "networks as torch modules", "accent"),
        (("kernels", "graph"), "sparse products, dependency graph", "plain"),
        (("ingest", "synthetic"), "raw data, generated city", "plain"),
        (("windows", "metrics", "paired"), "batches, scores, better by more than chance", "plain"),
        (("splits",), "training, validation, test", "plain"),
        (("panel",), "the central type: values, covariates, locations", "plain"),
        (("clock", "recipe"), "time zones and lags; one run's settings", "plain"),
        (
            ("publish", "config", "reading", "databases"),
            "atomic writes; sections of a recipe; tables",
            "plain",
        ),
        (
            ("errors", "compiled", "choices", "remaining"),
            "errors, numba, allowed values, time left",
            "plain",
        ),
    ]
    figure = Figure("layers", 960, 36 + 40 * len(rows))
    for number, (names, text, kind) in enumerate(rows):
        y = 10 + number * 40
        width = (540 - 10 * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            figure.box((14 + column * (width + 10), y), (width, 32), (name,), kind)
        figure.text((574, y + 21), text, small=True, anchor="start")
    figure.line([(5, 10), (5, 2 + 40 * len(rows))], width=2, arrow=True)
    note = "imports run downwards only; the four packages kernels … synthetic are one layer"
    figure.text((14, 24 + 40 * len(rows)), note, small=True, anchor="start")
    figure.write()


def intervals() -> None:
    """A week of forecasts of a generated city with their 80 % interval, as computed."""
    import numpy as np  # noqa: PLC0415

    import forecaster as fc  # noqa: PLC0415

    panel = fc.make_city(locations=12, hours=24 * 150).panel
    splits = fc.Splits.by_share(panel, validation=0.1, test=0.2)
    model = fc.Ridge().fit(panel, splits)
    origins = np.arange(len(panel.times) - 24 * 8, len(panel.times) - 24 * 3)
    busiest = int(np.nanargmax(np.nanmean(panel.values, axis=0)))
    forecast = model.predict(panel, origins)[:, 0, busiest]
    low, _, high = model.predict_quantiles(panel, origins)[:, :, 0, busiest].T
    values = panel.values[origins + 1, busiest]
    figure = Figure("intervals", 900, 300)
    top = float(max(high.max(), values.max()))
    xs = np.linspace(50, 880, len(origins))

    def points(series: Sequence[float]) -> list[tuple[float, float]]:
        return [(x, 250 - 220 * y / top) for x, y in zip(xs, series, strict=True)]

    figure.area(points(high) + points(low)[::-1], "--fig-accent-box")
    figure.line(points(forecast), color="--fig-accent", width=1.8)
    for point in points(values):
        figure.dot(point, "warm", 2.2)
    figure.line([(50, 250), (880, 250)], width=0.8)
    for value in (0, round(top / 2, -1), round(top, -1)):
        figure.text((44, 254 - 220 * value / top), f"{value:g}", small=True, anchor="end")
    for number, when in enumerate(panel.clock.local(panel.times[origins + 1])):
        if str(when)[11:13] == "00":
            figure.line([(xs[number], 250), (xs[number], 255)], width=0.8)
            figure.text((xs[number], 270), str(when)[5:10], small=True)
    inside = 100 * float(np.mean((values >= low) & (values <= high)))
    figure.dot((60, 288), "warm", 3)
    figure.text((70, 292), "observed", small=True, anchor="start")
    figure.line([(160, 288), (190, 288)], color="--fig-accent", width=2)
    figure.text((198, 292), "forecast, one hour ahead", small=True, anchor="start")
    figure.area([(380, 281), (410, 281), (410, 295), (380, 295)], "--fig-accent-box")
    text = f"80 % interval: {inside:.0f} % of these {len(values)} hours lie inside"
    figure.text((418, 292), text, small=True, anchor="start")
    figure.write()


def others() -> None:
    """What others' past is worth in a linear forecast three steps ahead (docs/graph.md)."""
    figure = Figure("others", 900, 60 + 34 * len(WORTH_OF_OTHERS))
    x0, x1, lowest = 180, 880, -12.0
    bottom = figure.height - 48

    def x_of(change: float) -> float:
        return x1 - 30 + (x1 - 30 - x0) * change / -lowest

    for tick in range(int(lowest), 3, 2):
        figure.line([(x_of(tick), 12), (x_of(tick), bottom)], width=1.2 if tick == 0 else 0.4)
        sign = "−" if tick < 0 else "+" if tick else ""
        figure.text((x_of(tick), bottom + 18), f"{sign}{abs(tick)} %", small=True)
    kinds = ("plain", "warm", "accent")
    for row, (name, changes) in enumerate(WORTH_OF_OTHERS.items()):
        y = 28 + 34 * row
        figure.text((x0 - 16, y + 5), name, small=True, anchor="end")
        figure.line([(x_of(min(changes)), y), (x_of(max(changes)), y)], width=0.8)
        for change, kind in zip(changes, kinds, strict=True):
            figure.dot((x_of(change), y), kind)
    names = ("factors alone", "lasso and factors", "lagged edges and factors")
    for place, name, kind in zip((250, 440, 650), names, kinds, strict=True):
        figure.dot((place, figure.height - 10), kind)
        figure.text((place + 12, figure.height - 5), name, small=True, anchor="start")
    figure.write()


if __name__ == "__main__":
    for draw in (
        overview, lags, sparse_layer, level, explanations, request, training, layers, intervals,
        others,
    ):  # fmt: skip
        draw()
