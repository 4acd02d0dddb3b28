"""A town that answers like the service: data of the built-in city, forecasts by a plain rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from forecaster.synthetic.city import City, make_city
from forecaster.synthetic.dependencies import DependencyEdges
from forecaster.synthetic.locations import draw_street_grid

HORIZON, WEEK = 3, 168
LEVELS = (0.1, 0.5, 0.9)
SPREAD = {"q10": -1.28, "q50": 0.0, "q90": 1.28}  # of a normal distribution
NEW_YORK = "America/New_York"
ORIGIN = "2014-10-15T14:00:00-04:00"
SIMULATED = 97  # more locations repeat these: a large city takes minutes to draw


@dataclass
class Town:
    """What the service knows; tests move the origin and the data version."""

    ids: list[str]
    names: list[str]
    lat: np.ndarray
    lon: np.ndarray
    values: np.ndarray  # steps × locations
    start: datetime
    edges: list[dict[str, Any]]
    origin: int
    zone: str = NEW_YORK
    data_version: int = 1
    age_seconds: int = 300
    stale: bool = False
    degraded: str | None = None
    doubts: dict[str, str] = field(default_factory=dict)  # by location
    new: set[str] = field(default_factory=set)  # locations that the run has never met
    waiting: set[str] = field(default_factory=set)  # of these, those without a day of data

    def time(self, step: int) -> dict[str, str]:
        utc = self.start + timedelta(hours=step)
        local = utc.astimezone(ZoneInfo(self.zone))
        return {"ds": utc.strftime("%Y-%m-%dT%H:%M:%SZ"), "ds_local": local.isoformat()}

    def week_before(self, step: int) -> int:
        """Return the step with the same local time a week before."""
        local = (self.start + timedelta(hours=step)).astimezone(ZoneInfo(self.zone))
        before = (local - timedelta(days=7)).astimezone(
            UTC
        )  # local arithmetic: the clock may change
        return round((before - self.start) / timedelta(hours=1))

    def common(self) -> dict[str, Any]:
        time = self.time(self.origin)
        return {
            "model": "5ca1ab1e0ddf",
            "data_version": self.data_version,
            "origin": time["ds"],
            "origin_local": time["ds_local"],
            "data_age_seconds": self.age_seconds,
            "stale": self.stale,
            "degraded": self.degraded,
        }

    def locations(self) -> dict[str, Any]:
        means = self.values[: self.origin].mean(0)
        rows = zip(self.ids, self.names, self.lat, self.lon, means, strict=True)
        return {
            "zone": self.zone,
            "kind": "count",
            "step_minutes": 60,
            "horizon": HORIZON,
            "quantiles": LEVELS,
            "locations": [
                {
                    "id": i,
                    "name": n,
                    "lat": number(y),
                    "lon": number(x),
                    "mean": round(float(m), 2),
                    "new": i in self.new,
                }
                for i, n, y, x, m in rows
            ],
        }

    def graph(self, location: str | None = None) -> dict[str, Any]:
        """Return all edges, or those of a location."""
        if location is None:
            return {"edges": self.edges}
        return {"edges": [edge for edge in self.edges if location in (edge["a"], edge["b"])]}

    def forecast(self) -> dict[str, Any]:
        steps = np.arange(self.origin + 1, self.origin + HORIZON + 1)
        expected = self.expect(steps)
        week_before = self.values[[self.week_before(int(step)) for step in steps]]
        last = self.values[self.origin]
        spread = np.sqrt(expected + 1.0) * (1.0 + 0.15 * np.arange(HORIZON))[:, None]
        columns = {"y_hat": expected, "usual": week_before} | {
            name: np.maximum(expected + width * spread, 0.0) for name, width in SPREAD.items()
        }
        forecasts = [
            {"id": id_, "last": number(last[i])}
            | {name: numbers(column[:, i]) for name, column in columns.items()}
            | ({"degraded": reasons} if (reasons := self.reasons(id_)) else {})
            for i, id_ in enumerate(self.ids)
            if id_ not in self.waiting
        ]
        times = [self.time(int(step)) for step in steps]
        return self.common() | {"steps": times, "forecasts": forecasts}

    def reasons(self, identity: str) -> str:
        """Return what makes the forecast of a location less certain."""
        new = ["new location", "65 of 76 past values missing"] if identity in self.new else []
        return "; ".join([*new, *([self.doubts[identity]] if identity in self.doubts else [])])

    def expect(self, steps: np.ndarray) -> np.ndarray:
        """Return the mean of the last weeks, pulled towards how the last hours went."""
        weeks = np.mean([self.values[steps - week * WEEK] for week in (1, 2, 3)], axis=0)
        recent = np.arange(self.origin - 2, self.origin + 1)
        before = np.mean([self.values[recent - week * WEEK] for week in (1, 2, 3)], axis=0)
        return np.asarray(weeks * (self.values[recent].sum(0) + 5.0) / (before.sum(0) + 5.0))

    def history(self, query: Mapping[str, str]) -> dict[str, Any]:
        column = self.ids.index(query["location"])
        first = max(self.origin + 1 - int(query.get("hours", 2 * WEEK)), 0)
        return {
            "id": query["location"],
            "name": self.names[column],
            "steps": [self.time(step) for step in range(first, self.origin + 1)],
            "values": numbers(self.values[first : self.origin + 1, column]),
        }

    def explanation(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return reasons in the form of the service; the same hour is looked at twice."""
        column = self.ids.index(query["location"])
        hours = [(1, 0.2), (1, 0.4), (24, 0.3), (WEEK, 0.1)]  # steps ago, share
        place = {"gradients": [0.4, 0.5, -0.6]}
        return self.common() | {
            "location": self.ids[column],
            "name": self.names[column],
            "forecast": [
                {**self.time(self.origin + k), "y_hat": 58.0, "usual": 41.0}
                for k in range(1, HORIZON + 1)
            ],
            "step": "hour",
            "shares_by": "attention",
            "hours": [
                {**self.time(self.origin - ago), "value": 7.0, "shares": [share] * HORIZON}
                for ago, share in hours
            ],
            "own": {"id": self.ids[column], "name": self.names[column], **place},
            "neighbours": [{"id": self.ids[0], "name": self.names[0], **place}],
            "city_wide": {"share": 0.37, "gradient": 1.4, "places": [{"id": self.ids[0]}]},
            "sentence": "Hours: attention and ablation agree (rank correlation 0.81).",
        }

    def accuracy(self) -> dict[str, Any]:
        scores = {"rmse": 8.41, "mape": 0.262, "bias": 0.012, "coverage": 0.812}
        scores |= {"naive_rmse": 12.6, "last_value_rmse": 10.5}
        return (
            self.common()
            | scores
            | {
                "hours": WEEK,
                "naive_mape": 0.391,
                "last_value_mape": 0.35,
                "mape_of": "y_hat",
                "bias_by_size": [{"locations": 3, "size": 7.0, "bias": 0.012}],
                "bias_by_hour": [0.012] * 24,
                "expected_coverage": 0.8,
                "terms": 48_888,
                "by_step": [{"step": step + 1} | scores for step in range(HORIZON)],
                "shadow": None,
                "ledger": [],
            }
        )

    def run(self) -> dict[str, Any]:
        drift = {"advice": "nothing", "text": "as on validation: nothing to do", "weeks": 3,
                 "watches": [{"name": "errors larger", "validation": -1.2, "last_week": -1.1,
                              "alarm_share": 0.31, "is_drifting": False}],
                 "silent": [], "silent_locations": 0}  # fmt: skip
        return {"model": "0123456789ab", "version": "v0003", "estimator": "Forecaster",
                "learned_until": "2015-09-30T00:00:00Z", "refused": None, "shadow": None,
                "drift": drift}  # fmt: skip


def number(value: float) -> float | None:
    """Return a number as the service writes it: missing is null."""
    return None if np.isnan(value) else round(float(value), 6)


def numbers(values: np.ndarray) -> list[float | None]:
    return [number(value) for value in values]


def make_town(locations: int, origin: str = ORIGIN, weeks: int = 5) -> Town:
    """Return a town whose last observed hour is the origin, in New York's local time."""
    start = datetime.fromisoformat(origin).astimezone(UTC) - timedelta(weeks=weeks)
    few = min(locations, SIMULATED)
    begin = start.astimezone(ZoneInfo(NEW_YORK)).strftime("%Y-%m-%dT%H:%M")
    city = draw_city(few, begin, weeks * WEEK + 1)
    places = city.locations
    if locations > few:
        places = draw_street_grid(locations, np.random.default_rng(7)).to_locations()
    values = np.tile(city.panel.values, -(-locations // few))[:, :locations]
    return Town(
        ids=list(places.ids),
        names=list(places.names),
        lat=np.array(places.lat, dtype=np.float64),
        lon=np.array(places.lon, dtype=np.float64),
        values=values.astype(np.float64),
        start=start,
        edges=repeat_edges(city.edges, places.ids, few),
        origin=weeks * WEEK,
    )


@cache
def draw_city(locations: int, start: str, hours: int) -> City:
    return make_city(locations, start, hours, seed=7)


def repeat_edges(edges: DependencyEdges, ids: Sequence[str], every: int) -> list[dict[str, Any]]:
    """Return the edges of a small city, again for every so many locations of a larger one."""
    known = list(zip(edges.first, edges.second, edges.correlation, strict=True))
    return [
        {"a": ids[i + shift], "b": ids[j + shift], "strength": round(float(strength), 4)}
        for shift in range(0, len(ids), every)
        for i, j, strength in known
        if max(i, j) + shift < len(ids)
    ]
