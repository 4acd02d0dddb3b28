"""The stages: a frozen model of every section of a recipe."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from forecaster.choices import (
    Ambiguous,
    Choose,
    DiffusionInputs,
    Gaps,
    GraphKind,
    Kind,
    Nonexistent,
    PositionKind,
    Precision,
    Subtract,
    Weather,
)

Eta = Annotated[float, Field(ge=0.0)] | Literal["balanced"]
Range = tuple[str, str]


class Stage(BaseModel):
    """One section of a recipe: fixed once read, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class PanelConfig(Stage):
    """What the panel's numbers and times mean."""

    timezone: str = "UTC"  # IANA name; lags and calendar follow its wall clock
    kind: Kind = "count"  # counts are ≥ 0; measurements have any sign
    step_minutes: int = Field(default=60, ge=1, le=366 * 24 * 60)
    country: str | None = None  # whose holidays, as in "US" or "US-NY"
    ambiguous: Ambiguous = "null"  # local times shown twice: both unknown, or half each
    nonexistent: Nonexistent = "refuse"  # local times never shown that hold a value
    gaps: Gaps = "refuse"  # steps without any row: refused, or completed as missing

    @field_validator("step_minutes")
    @classmethod
    def _step_fits_a_day(cls, minutes: int) -> int:
        if (24 * 60) % minutes and minutes % (24 * 60):
            raise ValueError(f"{minutes}: must divide a day, as 5, 15, 60 do, or be whole days")
        return minutes

    @model_validator(mode="after")
    def _only_counts_can_be_moved(self) -> "PanelConfig":
        if self.kind != "count" and (self.ambiguous == "split" or self.nonexistent == "next"):
            raise ValueError('ambiguous = "split" and nonexistent = "next" are for counts only')
        return self


class TripsConfig(Stage):
    """How raw trips become demand at locations (section 3.1.1 and its footnote)."""

    files: tuple[str, ...] = ()  # in the data folder; patterns such as yellow_*.parquet
    candidates: str | None = None  # a file of places; None: where trips begin
    candidate_columns: str | None = None  # id=…,name=…,lat=…,lon=…
    columns: str | None = None  # time=…,lat=…,lon=… or time=…,zone=…; None: a known schema
    zones: bool = False  # places are zone ids, not coordinates
    min_demand: float = Field(default=10.0, ge=0.0)  # mean rides per step at a chosen location
    demand_hours: str | None = None  # FROM:TO, whose mean that is; None: all covered hours
    max_distance_m: float = Field(default=200.0, gt=0.0)  # from every candidate: rejected
    bbox: tuple[float, float, float, float] | None = None  # south, west, north, east
    covers: str | None = None  # FROM:TO that the files hold; None: the month in a TLC name
    max_reject: float = Field(default=0.05, ge=0.0, le=1.0)  # share of faulty rows


class TableConfig(Stage):
    """How a long or wide table becomes a panel."""

    file: str = ""  # in the data folder
    locations: str | None = None  # a file of id, name, lat, lon
    location_columns: str | None = None  # id=…,name=…,lat=…,lon=…
    columns: str | None = None  # time=… (wide) or time=…,id=…,value=… (long); None: by name
    min_demand: float | None = Field(default=None, ge=0.0)  # mean of a location that is kept
    demand_hours: str | None = None  # FROM:TO, whose mean that is; None: all


class WeatherConfig(Stage):
    """How a station's reports become the seven weather covariates."""

    file: str = ""  # in the data folder
    columns: str  # time=…,temperature=…:F,wind=…:mph,precipitation=…:in,visibility=…:mi
    timezone: str | None = None  # of the station: an IANA name, or an offset such as -05:00
    max_gap: int = Field(default=3, ge=0)  # hours that may be filled


class Season(Stage):
    """Similar steps of past days: x_{t+i−j·days}, i = −before…after, j = 1…count."""

    days: int = Field(ge=1, le=3_660)
    count: int = Field(ge=1, le=1_000)
    before: int = Field(default=1, ge=0, le=10_000)
    after: int = Field(default=5, ge=0, le=10_000)


class LagConfig(Stage):
    """Which past steps a forecast sees (section 3.1.2): 6 + 7·6 + 7·4 = 76."""

    recent: int = Field(default=6, ge=1, le=100_000)  # x_{t−i}, i = 0…5
    seasons: tuple[Season, ...] = (Season(days=1, count=6), Season(days=7, count=4))
    horizon: int = Field(default=3, ge=1, le=10_000)  # T′

    @property
    def length(self) -> int:
        """How many past steps a window holds: L."""
        similar = (season.count * (season.before + season.after + 1) for season in self.seasons)
        return self.recent + sum(similar)


class SplitsConfig(Stage):
    """Which days are learned from, chosen on and tested on (section 3.1); none: by share."""

    train: tuple[Range, ...] = ()  # [first, last] day or time, both included; several may be given
    validation: tuple[Range, ...] = ()
    test: tuple[Range, ...] = ()

    @model_validator(mode="after")
    def _all_or_none(self) -> "SplitsConfig":
        given = [bool(ranges) for ranges in (self.train, self.validation, self.test)]
        if any(given) and not all(given):
            raise ValueError(
                "train, validation and test: give ranges for all of them, or for none"
            )
        return self


class GraphConfig(Stage):
    """How the dependency graph is learned (section 2.2)."""

    kind: GraphKind = "lasso"  # the others are for comparison
    subtract: Subtract = "hour_of_week"  # training mean removed first; the paper: nothing
    penalty: float | None = Field(default=None, gt=0.0)  # λ of Eq. 4 on correlations; None: chosen
    choose: Choose = "likelihood"  # of held-out weeks, or by the extended BIC
    threshold: float | None = Field(default=0.1, ge=0.0, lt=1.0)  # on |Eq. 3|; section 3.3
    degree: float | None = Field(default=None, ge=0.0)  # wanted average degree, in its place
    penalise_diagonal: bool = True  # as Eq. 4 is printed
    gap_tolerance: float = Field(default=1e-4, gt=0.0)  # duality gap per location
    max_iterations: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)  # of the random graph

    @model_validator(mode="before")
    @classmethod
    def _one_cut(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("degree") is None:
            if isinstance(given, dict) and given.get("threshold", 0) is None:
                raise ValueError("threshold or degree: one of them is needed")
            return given
        if given.get("threshold") is not None:
            raise ValueError("threshold and degree: one follows from the other; leave one out")
        return {**given, "threshold": None}


class MetricConfig(Stage):
    """How forecasts are scored (section 3.1.3)."""

    mape_cut: float = Field(default=10.0, gt=0.0)  # targets below it do not count for MAPE


class ModelConfig(Stage):
    """How large the networks are (section 3.2.1): the defaults are the paper's Forecaster."""

    per_location: int = Field(default=4, ge=1)  # neurons for the data at each location
    auxiliary: int = Field(default=64, ge=1)  # neurons for the auxiliary information
    heads: int = Field(default=4, ge=1)  # H; not given in the paper
    n_layers: int = Field(default=1, ge=1)  # encoder layers, and decoder layers
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # not given in the paper
    positions: PositionKind = "location"  # "literal": one sinusoid over all neurons
    width: int | None = Field(default=None, ge=1)  # of the dense Transformer; None: the same
    level: bool = False  # whether deviations from what is usual are forecast, as `best` does

    @model_validator(mode="after")
    def _heads_share_alike(self) -> "ModelConfig":
        sizes = {"per_location": self.per_location, "auxiliary": self.auxiliary}
        sizes |= {"width": self.width} if self.width is not None else {}
        odd = [f"{name} = {size}" for name, size in sizes.items() if size % self.heads]
        if odd:
            raise ValueError(f"heads = {self.heads} must divide {', '.join(odd)}; change one")
        return self


class MixerConfig(Stage):
    """How large the network of the preset `best` is."""

    hidden: int = Field(default=96, ge=1)  # neurons of each location
    blocks: int = Field(default=2, ge=0)  # of two layers each
    edges: int = Field(default=2, ge=0)  # strengths of each edge; 0: no neighbour is looked at
    factors: int = Field(default=4, ge=0)  # of the whole city; 0: none
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)  # after each block


class DCRNNConfig(Stage):
    """How large DCRNN is and what it sees: the defaults are its authors'."""

    inputs: DiffusionInputs = "recent"  # "lags": the same lags and auxiliary information as others
    recent: int = Field(default=12, ge=1, le=100_000)  # past steps, with inputs = "recent"
    units: int = Field(default=64, ge=1)  # of each location in each layer
    n_layers: int = Field(default=2, ge=1)  # of the encoder, and of the decoder
    diffusion_steps: int = Field(default=2, ge=1)  # in each direction
    kernel_threshold: float = Field(default=0.1, gt=0.0, lt=1.0)  # weaker neighbours are none
    sampling_decay: float = Field(default=2_000.0, gt=0.0)  # of scheduled sampling, in steps


# Of TrainingConfig: they change how long a training takes, and no bit of what it learns.
PACE = {"checkpoint_steps", "timeout_seconds"}


class TrainingConfig(Stage):
    """How the networks learn; but for η the paper says nothing of it (docs/deviations.md)."""

    eta: Eta = 8e-3  # η of Eq. 7, RMSE² against MAPE; "balanced": both alike for the last value
    learning_rate: float = Field(default=3e-3, gt=0.0)  # the highest of the one-cycle schedule
    batch: int = Field(default=64, ge=1)  # windows per step, over all devices together
    epochs: int = Field(default=60, ge=1)  # at most
    patience: int = Field(default=10, ge=1)  # epochs without a better validation loss
    clip: float = Field(default=1.0, gt=0.0)  # of the gradient's norm
    weight_decay: float = Field(default=0.01, ge=0.0)  # of AdamW
    ema: float = Field(default=0.0, ge=0.0, lt=1.0)  # decay of averaged weights; 0: the last ones
    precision: Precision = "float32"  # of the network; weights and loss are never below float32
    seed: int = Field(default=0, ge=0, lt=2**63)  # of first weights, sample order and dropout
    checkpoint_steps: int = Field(default=200, ge=1)  # the most that a killed run loses
    timeout_seconds: int = Field(default=30, ge=1)  # a process silent for so long ends all

    @field_validator("ema", mode="before")
    @classmethod
    def _null_in_older_runs(cls, decay: Any) -> Any:
        return 0.0 if decay is None else decay


class IntervalConfig(Stage):
    """Which quantiles are forecast beside the point."""

    quantiles: tuple[float, ...] = Field(default=(0.1, 0.5, 0.9), min_length=1, max_length=99)

    @field_validator("quantiles")
    @classmethod
    def _rise_from_0_to_1(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        outside = [f"{level:g}" for level in levels if not 0 < level < 1]
        if outside:
            found = ", ".join(outside)
            raise ValueError(f"{found}: not between 0 and 1; give levels such as [0.1, 0.5, 0.9]")
        if any(below >= above for below, above in pairwise(levels)):
            raise ValueError(f"{list(levels)}: each must be higher than the one before; sort them")
        return levels


class EvaluationConfig(Stage):
    """Which models are compared, and how often each is trained (section 3.3)."""

    models: tuple[str, ...] = ("SeasonalNaive", "HistoricalMean", "Ridge", "Forecaster")
    seeds: int = Field(default=6, ge=1, le=1_000)  # trainings of a model that begins by chance
    weather: tuple[Weather, ...] = ("observed", "persist")  # what tests take for coming weather
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)  # of Transformer-best
