"""An explanation of one forecast: past hours, neighbours, and how far the methods agree."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.stats import rankdata

LEAST = 3  # things that can be put in an order worth comparing
WELL, PARTLY = 0.7, 0.4  # rank correlations


@dataclass(frozen=True)
class Step:
    """One forecast, and what it had been with every past value as usual at its hour."""

    ds: str
    ds_local: str
    y_hat: float
    usual: float


@dataclass(frozen=True)
class Hour:
    """A past step and its part in the forecast; shares are of all past steps."""

    ds: str
    ds_local: str
    lag: str
    group: str  # recent, days, weeks
    days: int  # earlier
    value: float | None  # at the location; None: it was missing and filled
    share: float  # of attention or of ablation (`shares_by`), the mean over the forecast steps
    shares: tuple[float, ...]  # for each of them
    rolled: float | None  # of attention before the encoder has mixed the steps; None: no attention
    gradient: float  # in units of the forecast, the mean over its steps
    ablation: float  # the same, measured: with all locations as usual at that step


@dataclass(frozen=True)
class Place:
    """A location and its part in the forecast, in units of the forecast, mean over its steps."""

    id: str
    name: str
    hops: int | None  # edges from the location; None: no path, or no graph at all
    strength: float | None  # of the edge, if there is one
    gradient: float  # along the value path: what sees every location held
    gradients: tuple[float, ...]  # for each forecast step
    share: float  # of what all other locations bring along that path
    ablation: float  # along the same path, measured: with the location's history as usual
    ablation_free: float  # with nothing held: what really becomes of the forecast
    city_wide: float  # by gradient, through what sees every location alone


@dataclass(frozen=True)
class Felt:
    """A location that is felt through what sees all of them at once, and how much."""

    id: str
    name: str
    gradient: float


@dataclass(frozen=True)
class CityWide:
    """What other locations do through what sees all of them at once; none: there is no such."""

    share: float  # of everything that other locations do, by gradient
    gradient: float  # in units of the forecast, mean over its steps: all others together
    ablation: float  # the same, measured: all others as usual, free less held
    places: tuple[Felt, ...]  # those with the largest part


@dataclass(frozen=True)
class Agreement:
    """How alike two methods put something in order: Spearman's rank correlation of sizes."""

    of: str  # neighbours, or what past steps are called
    methods: tuple[str, str]
    correlation: float | None  # None: nothing to compare
    text: str


@dataclass(frozen=True)
class Explanation:
    """What carried the forecast of one location from one origin."""

    estimator: str
    origin: str
    origin_local: str
    location: str
    name: str
    forecast: tuple[Step, ...]
    step: str  # what a step of the panel is called: hour, day, minute, or step
    shares_by: str  # what shares of past steps are of: attention, or ablation without any
    hours: tuple[Hour, ...]  # oldest first
    groups: dict[str, float]  # shares of hours, summed
    own: Place
    neighbours: tuple[Place, ...]  # the largest share first
    reach: int | None  # edges over which values can come; None: no graph, from everywhere
    reached: int  # locations within them
    city_wide: CityWide
    agreement: tuple[Agreement, ...]
    notes: tuple[str, ...]  # how to read it

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can say it."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def ablation_shares(self) -> tuple[float, ...]:
        """How much each past step does by ablation, of what all of them do."""
        sizes = [abs(hour.ablation) for hour in self.hours]
        return tuple(size / (sum(sizes) or 1.0) for size in sizes)

    @property
    def sentence(self) -> str:
        """How far the methods agree, in words."""
        parts: dict[str, list[str]] = {}
        for one in self.agreement:
            parts.setdefault(one.of, []).append(one.text)
        said = (f"{of.capitalize()}: {'; '.join(texts)}." for of, texts in parts.items())
        return f"{' '.join(said)} In brackets: rank correlation."


def compare_orders(
    of: str,
    methods: tuple[str, str],
    first: Float64[np.ndarray, " n"],
    second: Float64[np.ndarray, " n"],
) -> Agreement:
    """Return how alike two methods order the same things by the size of what they say of each."""
    ranks = [rankdata(np.abs(sizes)) for sizes in (first, second)]
    a, b = methods
    if len(first) < LEAST or any(np.ptp(order) == 0 for order in ranks):
        return Agreement(of, methods, None, f"{a} and {b} cannot be compared")
    rank_correlation = float(np.corrcoef(*ranks)[0, 1])
    how = "agree" if rank_correlation >= WELL else "agree in part"
    how = how if rank_correlation >= PARTLY else "do not agree"
    text = f"{a} and {b} {how} ({rank_correlation:.2f})"
    return Agreement(of, methods, rank_correlation, text.replace("-", "−"))
