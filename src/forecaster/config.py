"""The sections of a recipe, each a frozen model with the default and range of every field."""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from forecaster.choices import (
    Ambiguous,
    Choose,
    Combine,
    DateOrder,
    DecimalMark,
    Gaps,
    GraphKind,
    InputKind,
    Kind,
    MemberName,
    Nonexistent,
    Objective,
    PositionKind,
    Precision,
    Subtract,
    Weather,
)

Eta = Annotated[float, Field(ge=0.0)] | Literal["balanced"]
Range = tuple[str, str]
MONTH_MINUTES = 43_830  # the mean length of a month, 30.4375 days
_YEAR_MONTHS = 12
# The largest clock change by which lags stay clear of the origin (Antarctica/Casey: 3 h).
# Rarer ones (Samoa skipped a day) are caught where lags are computed.
CLOCK_CHANGE_MINUTES = 3 * 60


class Stage(BaseModel):
    """One section of a recipe: immutable, with unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class PanelConfig(Stage):
    """The kind of values, the time axis and its irregularities."""

    timezone: str = Field(
        default="UTC",
        description="IANA time zone; lags and calendar columns follow its wall clock",
    )
    kind: Kind = Field(
        default="count", description="`count` (never negative) or `measurement` (any sign)"
    )
    step_minutes: int = Field(
        default=60,
        ge=1,
        le=10 * _YEAR_MONTHS * MONTH_MINUTES,
        description="length of a time step in minutes; it divides a day or is whole days",
    )
    step_months: int = Field(
        default=0,
        ge=0,
        le=10 * _YEAR_MONTHS,
        description="length of a time step in months: 1, 3 for quarters, 12 for years; then "
        "`step_minutes` is their mean length; 0: the step is one of `step_minutes`",
    )
    country: str | None = Field(
        default=None, description="country whose holidays are recorded, such as `US` or `US-NY`"
    )
    ambiguous: Ambiguous = Field(
        default="null",
        description="local times that occur twice: both missing (`null`), or half each (`split`)",
    )
    nonexistent: Nonexistent = Field(
        default="refuse",
        description="values at local times that never occur: `refuse`, `null` or add to `next`",
    )
    gaps: Gaps = Field(
        default="refuse",
        description="steps without any row: `refuse`, or `null` to add them as missing; `zero`: a "
        "location that is open has 0 where it has no row from its first one on, except on days "
        "without any row of shorter steps, and where it has had none for longer than ever before",
    )
    renames: str | None = Field(
        default=None,
        description="table `old,new,from` in the data folder: places renamed, merged or split",
    )
    censored: str | None = Field(
        default=None,
        description="column of 0 and 1 beside the values; where it is 1, a place could not serve, "
        "and its value is no target",
    )
    past_only: tuple[str, ...] = Field(
        default=(),
        description="covariates that are seen in the past and unknown ahead, such as drop-offs; "
        "of a long table, further columns",
    )

    hours: str | None = Field(
        default=None,
        description="opening hours of all places, such as `Mon-Fri 05:00-23:00; PH off`; without "
        "it they are found as regular gaps; `always`: gaps are missing values",
    )

    @field_validator("step_minutes")
    @classmethod
    def _step_fits_a_day(cls, minutes: int) -> int:
        if (24 * 60) % minutes and minutes % (24 * 60) and minutes % MONTH_MINUTES:
            remedy = "or be whole days; for months give step_months = 1"
            raise ValueError(f"{minutes}: must divide a day, as 5, 15, 60 do, {remedy}")
        return minutes

    @field_validator("step_months")
    @classmethod
    def _step_fits_a_year(cls, months: int) -> int:
        if months and _YEAR_MONTHS % months and months % _YEAR_MONTHS:
            raise ValueError(f"{months}: must divide a year, as 1, 3, 6 do, or be whole years")
        return months

    @model_validator(mode="after")
    def _only_months_have_a_mean_length(self) -> "PanelConfig":
        minutes, months = self.step_minutes, self.step_months
        if months and "step_minutes" in self.model_fields_set and minutes % MONTH_MINUTES:
            raise ValueError(
                f"step_minutes = {minutes} beside step_months = {months}: give one of them"
            )
        if not months and minutes % MONTH_MINUTES == 0:
            raise ValueError(
                f"step_minutes: {minutes}: give step_months = {minutes // MONTH_MINUTES}"
            )
        if months:  # not marked as set
            self.__dict__["step_minutes"] = months * MONTH_MINUTES
        return self

    @model_validator(mode="after")
    def _only_counts_can_be_moved(self) -> "PanelConfig":
        if self.kind != "count" and (self.ambiguous == "split" or self.nonexistent == "next"):
            raise ValueError('ambiguous = "split" and nonexistent = "next" are for counts only')
        return self


class TripsConfig(Stage):
    """Aggregation of raw trips to demand at locations (section 3.1.1 and its footnote)."""

    files: tuple[str, ...] = Field(
        default=(), description="files in the data folder; patterns such as `yellow_*.parquet`"
    )
    query: str | None = Field(
        default=None,
        description="a `SELECT`, or the name of a table, where `files` is the address of a "
        "database, such as `postgresql://user@host/database`",
    )
    candidates: str | None = Field(
        default=None,
        description="table of candidate locations; without it, they are found where trips begin",
    )
    candidate_columns: str | None = Field(
        default=None, description="columns of that table: `id=…,name=…,lat=…,lon=…`"
    )
    columns: str | None = Field(
        default=None,
        description="`time=…,lat=…,lon=…` or `time=…,zone=…`; without it, a known schema",
    )
    zones: bool = Field(
        default=False, description="whether trips carry zone ids in place of coordinates"
    )
    min_demand: float = Field(
        default=10.0,
        ge=0.0,
        description="smallest mean number of rides per step at a selected location",
    )
    demand_hours: str | None = Field(
        default=None,
        description="period `FROM:TO` of that mean; without it, the training ranges, or else all "
        "covered hours",
    )
    max_distance_m: float = Field(
        default=200.0,
        gt=0.0,
        description="trips farther from every candidate than this are rejected, in metres",
    )
    bbox: tuple[float, float, float, float] | None = Field(
        default=None, description="bounding box: south, west, north, east, in degrees"
    )
    covers: str | None = Field(
        default=None,
        description="period `FROM:TO` of the files; without it, the month in a TLC file name, or "
        "from the first event to the last, where a day without any event is missing",
    )
    max_reject: float = Field(
        default=0.05, ge=0.0, le=1.0, description="largest share of faulty rows that is accepted"
    )


class TableConfig(Stage):
    """Reading a long or wide table as a panel."""

    file: str = Field(
        default="",
        description="the table, in the data folder; a pattern for several; or the address of a "
        "database",
    )
    files: tuple[str, ...] = Field(default=(), description="several files in place of one")
    query: str | None = Field(
        default=None,
        description="a `SELECT`, or the name of a table, if `file` is that of a database",
    )
    locations: str | None = Field(
        default=None, description="table of locations: `id`, `name`, `lat`, `lon`"
    )
    location_columns: str | None = Field(
        default=None, description="columns of that table: `id=…,name=…,lat=…,lon=…`"
    )
    columns: str | None = Field(
        default=None,
        description="`time=…` (wide), `time=…,value=…` (one series) or `time=…,id=…,value=…` "
        "(long); `date+hour` joins two columns; without it, by name and content",
    )
    missing: tuple[str, ...] = Field(
        default=(), description="values that stand for missing ones, such as `-999` or `n/a`"
    )
    decimal: DecimalMark | None = Field(
        default=None, description="decimal mark of numbers, `.` or `,`; without it, as found"
    )
    dates: DateOrder | None = Field(
        default=None,
        description="`day-first` or `month-first` in 05/06/2022; without it, as found",
    )
    combine: Combine | None = Field(
        default=None,
        description="several rows of a location in one step: their `sum`, their `mean`, or the "
        "`count` of them, where each row is an event; without it, there may be one",
    )
    nearest: bool = Field(
        default=False, description="combined rows belong to the nearest step, not to that around"
    )
    leave_out: tuple[str, ...] = Field(
        default=(), description="locations that are left out, such as a total of the others"
    )
    known_ahead: tuple[str, ...] = Field(
        default=(),
        description="further columns that are known ahead of an origin, such as a price; those "
        "that are not are `past_only` of the panel",
    )
    covariates: str | None = Field(
        default=None, description="table of covariates of all locations, in the data folder"
    )
    static: tuple[str, ...] = Field(
        default=(), description="columns of numbers of the locations that models are given"
    )
    min_demand: float | None = Field(
        default=None, ge=0.0, description="smallest mean value of a location that is kept"
    )
    demand_hours: str | None = Field(
        default=None,
        description="period `FROM:TO` of that mean; without it, the training ranges, or else the "
        "whole table",
    )

    @model_serializer(mode="wrap")
    def _leave_out(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Recipes without the later settings keep their hashes."""
        later = ("files", "missing", "decimal", "dates", "combine", "nearest", "leave_out",
                 "known_ahead", "covariates", "static")  # fmt: skip
        unset = [name for name in later if getattr(self, name) in (None, (), False)]
        return {name: value for name, value in write(self).items() if name not in unset}


class WeatherConfig(Stage):
    """Conversion of a station's reports to the seven weather covariates."""

    file: str = Field(default="", description="the station's reports, in the data folder")
    columns: str = Field(
        description="`time=…,temperature=…:F,wind=…:mph,precipitation=…:in,visibility=…:mi`"
    )
    timezone: str | None = Field(
        default=None,
        description="time zone of the station: an IANA name, or an offset such as `-05:00`",
    )
    max_gap: int = Field(default=3, ge=0, description="longest gap that is filled, in hours")


class Season(Stage):
    """Similar steps of past days: x_{t+i−j·days}, i = −before…after, j = 1…count."""

    days: int = Field(
        ge=1, le=3_660, description="length of the season in days: 1 for a day, 7 for a week"
    )
    count: int = Field(ge=1, le=1_000, description="number of past seasons: j = 1…count")
    before: int = Field(
        default=1, ge=0, le=10_000, description="steps before the same time of day: i = −before…"
    )
    after: int = Field(
        default=5, ge=0, le=10_000, description="steps after the same time of day: i = …after"
    )


class LagConfig(Stage):
    """The past steps that a forecast uses (section 3.1.2): 6 + 7·6 + 7·4 = 76."""

    recent: int = Field(
        default=6,
        ge=1,
        le=100_000,
        description="number of most recent steps: x_{t−i}, i = 0…recent−1",
    )
    seasons: tuple[Season, ...] = Field(
        default=(Season(days=1, count=6), Season(days=7, count=4)),
        description="similar steps of past days and weeks",
    )
    horizon: int = Field(
        default=3, ge=1, le=10_000, description="number of steps to forecast: K (T′ in the paper)"
    )

    @property
    def length(self) -> int:
        """The number of past steps in a window: L."""
        similar = (season.count * (season.before + season.after + 1) for season in self.seasons)
        return self.recent + sum(similar)


class SplitsConfig(Stage):
    """Training, validation and test periods (section 3.1); without any, splits by share."""

    train: tuple[Range, ...] = Field(
        default=(), description="training periods `[first, last]`, days or times, both included"
    )
    validation: tuple[Range, ...] = Field(
        default=(), description="validation periods, in the same form"
    )
    test: tuple[Range, ...] = Field(default=(), description="test periods, in the same form")

    @model_validator(mode="after")
    def _all_or_none(self) -> "SplitsConfig":
        present = [bool(ranges) for ranges in (self.train, self.validation, self.test)]
        if any(present) and not all(present):
            raise ValueError("train, validation and test: give ranges for all three, or for none")
        return self


class GraphConfig(Stage):
    """Learning of the dependency graph (section 2.2)."""

    kind: GraphKind = Field(
        default="lasso",
        description="`lasso` is the paper's graph: who moves together; `neighbourhood` the like "
        "for many locations, and the default of more than 5,000; `lagged`: whose past tells about "
        "whose future; the other kinds are for comparison",
    )
    subtract: Subtract = Field(
        default="hour_of_week",
        description="mean to remove first: of each `hour_of_week`, or `nothing` (the paper)",
    )
    penalty: float | None = Field(
        default=None,
        gt=0.0,
        description="λ of Eq. 4 for correlations, or of others' past (`lagged`); without it, the "
        "best of a path is chosen",
    )
    penalties_per_decade: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="how fine the path of penalties is; without it 8, or 4 for more than 1,000 "
        "locations unless raw values are taken as in the paper",
    )
    choose: Choose = Field(
        default="likelihood",
        description="how λ is chosen: `likelihood` of held-out weeks, or extended BIC (`ebic`)",
    )
    threshold: float | None = Field(
        default=0.1,
        ge=0.0,
        lt=1.0,
        description="smallest absolute conditional correlation of an edge (Eq. 3; section 3.3); "
        "`lagged` leaves out what chance could explain instead",
    )
    degree: float | None = Field(
        default=None,
        ge=0.0,
        description="wanted average degree; the threshold is derived from it",
    )
    max_delay: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="largest delay of a lagged edge in steps; without it, as many as recent steps",
    )
    penalise_diagonal: bool = Field(
        default=True, description="whether λ applies to the diagonal too, as Eq. 4 is printed"
    )
    gap_tolerance: float = Field(
        default=1e-4, gt=0.0, description="duality gap per location at which the solver stops"
    )
    max_iterations: int = Field(
        default=100, ge=1, description="largest number of sweeps of the solver"
    )
    seed: int = Field(default=0, ge=0, description="seed of the random graph")

    @model_serializer(mode="wrap")
    def _leave_out(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Recipes without these fields keep their hashes."""
        content = write(self)
        for name in ("max_delay", "penalties_per_decade"):
            if content.get(name) is None:
                content.pop(name, None)
        return content

    @model_validator(mode="before")
    @classmethod
    def _one_cut(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or fields.get("degree") is None:
            if isinstance(fields, dict) and fields.get("threshold", 0) is None:
                raise ValueError("threshold and degree are both missing; give one")
            return fields
        if fields.get("threshold") is not None:
            raise ValueError("threshold and degree: each determines the other; remove one")
        return {**fields, "threshold": None}


class MetricConfig(Stage):
    """Scoring of forecasts (section 3.1.3)."""

    mape_cut: float = Field(
        default=10.0, gt=0.0, description="targets below this value are left out of MAPE"
    )


class ModelConfig(Stage):
    """The size of the networks (section 3.2.1); the defaults are the paper's."""

    per_location: int = Field(default=4, ge=1, description="neurons for the data of each location")
    auxiliary: int = Field(default=64, ge=1, description="neurons for the auxiliary information")
    heads: int = Field(
        default=4, ge=1, description="number of attention heads H; not given in the paper"
    )
    n_layers: int = Field(
        default=1, ge=1, description="number of encoder layers and of decoder layers"
    )
    dropout: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="dropout rate; not given in the paper"
    )
    positions: PositionKind = Field(
        default="location",
        description="positional encoding: per `location`, or one sinusoid over all (`literal`)",
    )
    width: int | None = Field(
        default=None,
        ge=1,
        description="state width of the dense Transformer; without it, that of the Forecaster",
    )
    level: bool = Field(
        default=False,
        description="whether deviations from the seasonal profile are forecast, as `best` does",
    )

    @model_validator(mode="after")
    def _heads_share_alike(self) -> "ModelConfig":
        sizes = {"per_location": self.per_location, "auxiliary": self.auxiliary}
        sizes |= {"width": self.width} if self.width is not None else {}
        odd = [f"{name} = {size}" for name, size in sizes.items() if size % self.heads]
        if odd:
            raise ValueError(f"heads = {self.heads} must divide {', '.join(odd)}; change one")
        return self


class MixerConfig(Stage):
    """The size of the network of the presets `quick` and `best`."""

    hidden: int = Field(default=96, ge=1, description="neurons of each location")
    blocks: int = Field(default=2, ge=0, description="number of blocks of two layers")
    edges: int = Field(
        default=2, ge=0, description="learned strengths per edge; 0 leaves neighbours out"
    )
    factors: int = Field(
        default=4, ge=0, description="number of city-wide factors; 0 leaves them out"
    )
    dropout: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="dropout rate after each block"
    )


class PastConfig(Stage):
    """The past steps that a network of others sees: its authors' inputs, or those of all."""

    inputs: InputKind = Field(
        default="recent", description="`recent` steps, or `lags`: the inputs of the other models"
    )
    recent: int = Field(
        default=12, ge=1, le=100_000, description="number of past steps with inputs = `recent`"
    )


class KernelConfig(PastConfig):
    """The graph of a network that diffuses between nearby locations."""

    kernel_threshold: float = Field(
        default=0.1,
        gt=0.0,
        lt=1.0,
        description="weights of the distance kernel below this value become zero",
    )


class DCRNNConfig(KernelConfig):
    """The size and the inputs of DCRNN; the defaults are its authors'."""

    units: int = Field(default=64, ge=1, description="units of each location in each layer")
    n_layers: int = Field(
        default=2, ge=1, description="number of encoder layers and of decoder layers"
    )
    diffusion_steps: int = Field(default=2, ge=1, description="diffusion steps in each direction")
    sampling_decay: float = Field(
        default=2_000.0, gt=0.0, description="decay of scheduled sampling, in training steps"
    )


class BoostingConfig(Stage):
    """What boosted trees minimise."""

    objective: Objective = Field(
        default="squares",
        description="`poisson`: the deviance of counts, whose variance is their mean",
    )


class EnsembleConfig(Stage):
    """The members of an ensemble, whose forecasts are averaged with weights."""

    members: tuple[MemberName, ...] = Field(
        default=("Forecaster", "STID-lags", "Boosting"),
        description="models whose forecasts are averaged; one that needs a package that is not "
        "installed is left out",
    )
    seeds: int = Field(
        default=1,
        ge=1,
        le=20,
        description="trainings of each of them that has random numbers, with consecutive seeds",
    )

    @field_validator("members")
    @classmethod
    def _each_once(cls, members: tuple[MemberName, ...]) -> tuple[MemberName, ...]:
        if not members:
            raise ValueError("name one member or more")
        if len(set(members)) < len(members):
            raise ValueError(f"{list(members)}: name each member once; seeds repeats networks")
        return members


class STIDConfig(PastConfig):
    """The size and the inputs of STID; the defaults are its authors' (METR-LA)."""

    embedding: int = Field(
        default=32,
        ge=1,
        description="numbers of each embedding: history, location, time of day, weekday",
    )
    n_layers: int = Field(default=3, ge=0, description="number of residual layers")
    dropout: float = Field(
        default=0.15, ge=0.0, lt=1.0, description="dropout rate within each residual layer"
    )


class STAEformerConfig(PastConfig):
    """The size and the inputs of STAEformer; the defaults are its authors'."""

    embedding: int = Field(
        default=24,
        ge=1,
        description="numbers of each embedding: inputs, time of day, weekday",
    )
    adaptive: int = Field(
        default=80, ge=1, description="numbers of the embedding of each step and location"
    )
    hidden: int = Field(default=256, ge=1, description="numbers of the feed-forward layers")
    heads: int = Field(default=4, ge=1, description="number of attention heads")
    n_layers: int = Field(
        default=3,
        ge=0,
        description="number of layers that mix steps, and of those that mix locations",
    )
    dropout: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="dropout rate after attention and feed-forward"
    )

    @property
    def width(self) -> int:
        """The numbers of a location in a step: three embeddings and the adaptive one."""
        return 3 * self.embedding + self.adaptive

    @model_validator(mode="after")
    def _heads_share_alike(self) -> "STAEformerConfig":
        if self.width % self.heads:
            raise ValueError(
                f"heads = {self.heads} must divide 3 · embedding + adaptive = {self.width}; "
                "change one"
            )
        return self


class GraphWaveNetConfig(KernelConfig):
    """The size and the inputs of Graph WaveNet; the defaults are its authors'."""

    channels: int = Field(default=32, ge=1, description="numbers of a location and step")
    skip: int = Field(default=256, ge=1, description="numbers of the skip connections")
    end: int = Field(default=512, ge=1, description="numbers of the last hidden layer")
    blocks: int = Field(default=4, ge=1, description="number of blocks of layers")
    n_layers: int = Field(
        default=2,
        ge=1,
        description="layers of a block; more where the blocks do not reach over all past steps",
    )
    diffusion_steps: int = Field(default=2, ge=1, description="diffusion steps in each direction")
    embedding: int = Field(
        default=10,
        ge=1,
        description="numbers of a location's two embeddings, of the learned graph",
    )
    dropout: float = Field(
        default=0.3, ge=0.0, lt=1.0, description="dropout rate after each graph convolution"
    )


# Fields of TrainingConfig that affect the duration of a training but not its result.
PACE = {"checkpoint_steps", "timeout_seconds"}


class TrainingConfig(Stage):
    """The training of networks; the paper gives only η (docs/deviations.md)."""

    eta: Eta = Field(
        default=8e-3,
        description="η of Eq. 7; `balanced`: both terms are equal for a last-value forecast",
    )
    relative: bool = Field(
        default=False,
        description="a second output for relative error, so that the forecast is the mean; "
        "without it one number serves both terms of Eq. 7",
    )
    learning_rate: float = Field(
        default=3e-3, gt=0.0, description="highest learning rate of the one-cycle schedule"
    )
    batch: int = Field(
        default=64, ge=1, description="windows per training step, over all devices together"
    )
    locations: int | None = Field(
        default=None,
        ge=1,
        description="locations per training step, drawn anew for each; networks of `quick` and "
        "`best` only. None: all, or 2,048 of more than 5,000",
    )
    epochs: int = Field(default=60, ge=1, description="largest number of epochs")
    patience: int = Field(
        default=10,
        ge=1,
        description="epochs without a better validation loss after which training stops",
    )
    clip: float = Field(default=1.0, gt=0.0, description="largest norm of the gradient")
    weight_decay: float = Field(default=0.01, ge=0.0, description="weight decay of AdamW")
    ema: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="decay of the moving average of the weights; 0 takes the last weights",
    )
    precision: Precision = Field(
        default="float32",
        description="number format of the network; weights and loss are never below float32",
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="seed of initial weights, sample order and dropout"
    )
    checkpoint_steps: int = Field(
        default=200, ge=1, description="training steps between two checkpoints"
    )
    timeout_seconds: int = Field(
        default=30,
        ge=1,
        description="seconds without a heartbeat after which a process ends the training",
    )

    @field_validator("ema", mode="before")
    @classmethod
    def _null_in_older_runs(cls, decay: Any) -> Any:
        return 0.0 if decay is None else decay


class IntervalConfig(Stage):
    """The quantiles of every forecast."""

    quantiles: tuple[float, ...] = Field(
        default=(0.1, 0.5, 0.9),
        min_length=1,
        max_length=99,
        description="quantile levels of the forecast besides the point forecast, ascending",
    )

    @field_validator("quantiles")
    @classmethod
    def _rise_from_0_to_1(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        outside = [f"{level:g}" for level in levels if not 0 < level < 1]
        if outside:
            wrong = ", ".join(outside)
            raise ValueError(f"{wrong}: not between 0 and 1; give levels such as [0.1, 0.5, 0.9]")
        if any(below >= above for below, above in pairwise(levels)):
            raise ValueError(f"{list(levels)}: not in strictly ascending order; sort them")
        return levels


class EvaluationConfig(Stage):
    """Compared models, and the number of trainings of each (section 3.3)."""

    models: tuple[str, ...] = Field(
        default=("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "Forecaster"),
        description="models that are compared",
    )
    seeds: int = Field(
        default=6,
        ge=1,
        le=1_000,
        description="trainings of each model that has random initial weights",
    )
    weather: tuple[Weather, ...] = Field(
        default=("observed", "persist"), description="source of future weather in tests"
    )
    widths: tuple[int, ...] = Field(
        default=(64, 128, 256, 512, 1024, 2048, 4096),
        description="state widths that Transformer-best is chosen from",
    )
