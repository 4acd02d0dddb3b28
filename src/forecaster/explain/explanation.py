"""The explanation of one forecast: effects of past steps and locations, and their agreement."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

MIN_RANKED = 3  # fewer items give no meaningful rank correlation
GOOD, FAIR = 0.7, 0.4  # rank correlations
PLAIN_METHODS = {
    "free gradient": "gradient incl. city-wide",
    "free ablation": "ablation incl. city-wide",
}  # names in `Agreement.methods`, in plain words


@dataclass(frozen=True)
class StepForecast:
    """The forecast of one step, and the forecast from a history at its seasonal profile."""

    ds: str
    ds_local: str
    y_hat: float
    usual: float  # the baseline forecast
    is_open: bool = True  # False: the location is closed, and neither number is served


@dataclass(frozen=True)
class StepEffect:
    """The effect of a past step on the forecast; shares are relative to all past steps."""

    ds: str
    ds_local: str
    lag: str
    group: str  # recent, days, weeks
    days: int  # before the origin
    value: float | None  # at the location; None: missing and filled
    share: float  # of attention or of ablation (`shares_by`), the mean over the forecast steps
    shares: tuple[float, ...]  # for each forecast step
    rolled: float | None  # attention rolled back through the encoder; None: no attention
    gradient: float  # integrated gradients, in units of the forecast, the mean over its steps
    ablation: float  # the same by ablation of all locations at that step


@dataclass(frozen=True)
class LocationEffect:
    """The effect of a location on the forecast, in its units, as the mean over its steps."""

    id: str
    name: str
    hops: int | None  # edges to the explained one; None: no path, or no graph at all
    strength: float | None  # of the edge, if there is one; of several delays the largest
    gradient: float  # along the value path
    gradients: tuple[float, ...]  # for each forecast step
    share: float  # of the effects of all other locations along the value path
    ablation: float  # of the location's history, along the value path
    ablation_free: float  # of the location's history, in the whole network
    city_wide: float  # by gradient, outside the value path
    delays: tuple[int, ...] | None = None  # steps of its edges; None: the graph has no delays


@dataclass(frozen=True)
class CityWideLocation:
    """A location with an effect outside the value path."""

    id: str
    name: str
    gradient: float


@dataclass(frozen=True)
class CityWideEffect:
    """The effect of other locations through network parts that see all locations at once."""

    share: float  # of the total effect of other locations, by gradient
    gradient: float  # of all other locations, in units of the forecast, mean over its steps
    ablation: float  # of all other locations: whole network minus value path
    places: tuple[CityWideLocation, ...]  # with the largest effects


@dataclass(frozen=True)
class Agreement:
    """Spearman's rank correlation of the effect sizes by two methods."""

    of: str  # neighbours, or the name of past steps: hours
    methods: tuple[str, str]
    correlation: float | None  # None: nothing to compare
    text: str


@dataclass(frozen=True)
class Explanation:
    """The effects of past steps and other locations on one forecast, by several methods."""

    estimator: str  # class of the model
    origin: str  # forecast origin, UTC
    origin_local: str  # the same on the wall clock
    location: str  # id of the location
    name: str  # name of the location
    forecast: tuple[StepForecast, ...]  # the forecast of each step ahead
    step: str  # name of the panel's step: hour, day, minute, or step
    shares_by: str  # the method of the shares: attention, or ablation without attention
    hours: tuple[StepEffect, ...]  # effects of past steps, oldest first
    groups: dict[str, float]  # sums of shares, by group
    own: LocationEffect  # effect of its own history
    neighbours: tuple[LocationEffect, ...]  # effects of others, largest share first
    reach: int | None  # edges over which values can travel; None: no graph, no limit
    reached: int  # locations within that reach
    city_wide: CityWideEffect  # effect of others beyond the graph
    agreement: tuple[Agreement, ...]  # of pairs of methods
    notes: tuple[str, ...]  # how to read it
    fallback: str | None = None  # the simple model that is served here; None: the network

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-compatible data; delays only of a directed graph."""
        content = {**asdict(self), "sentence": self.sentence}
        for place in (content["own"], *content["neighbours"]):
            if place["delays"] is None:
                del place["delays"]
        return content

    @property
    def has_delays(self) -> bool:
        """Whether the graph is directed, so that edges have delays."""
        return self.own.delays is not None

    @property
    def ablation_shares(self) -> tuple[float, ...]:
        """The share of each past step by ablation."""
        sizes = [abs(hour.ablation) for hour in self.hours]
        return tuple(size / (sum(sizes) or 1.0) for size in sizes)

    @property
    def sentence(self) -> str:
        """The agreement of the methods in words, and whether another forecast is served."""
        parts: dict[str, list[str]] = {}
        for agreement in self.agreement:
            parts.setdefault(agreement.of, []).append(agreement.text)
        sentences = (
            f"{of.capitalize()}: {'; '.join(dict.fromkeys(texts))}." for of, texts in parts.items()
        )
        text = " ".join(sentences)
        if any(agreement.correlation is not None for agreement in self.agreement):
            text += " Rank correlations in brackets."
        if self.fallback is None:
            return text
        return (
            f"The network's own forecast is explained. {self.fallback} is served at this "
            f"location, since it was better here on validation by more than chance. {text}"
        )


def name_method(method: str) -> str:
    """Return a method of `Agreement.methods` in plain words."""
    return PLAIN_METHODS.get(method, method)


def compare_orders(
    of: str,
    methods: tuple[str, str],
    first: Float64[np.ndarray, " n"],
    second: Float64[np.ndarray, " n"],
) -> Agreement:
    """Compare how two methods rank the same items by the size of their effects."""
    from scipy.stats import rankdata  # noqa: PLC0415 (takes long)

    ranks = [rankdata(np.abs(sizes)) for sizes in (first, second)]
    if len(first) < MIN_RANKED:
        text = f"only {len(first)} with an effect, too few to compare the methods"
        return Agreement(of, methods, None, text if len(first) else "none has an effect")
    a, b = map(name_method, methods)
    for method, order in zip((a, b), ranks, strict=True):
        if np.ptp(order) == 0:
            return Agreement(of, methods, None, f"all have the same effect by {method}")
    rank_correlation = float(np.corrcoef(*ranks)[0, 1])
    verb = "agree" if rank_correlation >= GOOD else "agree in part"
    verb = verb if rank_correlation >= FAIR else "do not agree"
    figure = f"{rank_correlation:.2f}".replace("-", "−")
    return Agreement(of, methods, rank_correlation, f"{a} and {b} {verb} ({figure})")
