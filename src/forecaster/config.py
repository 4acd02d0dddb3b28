"""The recipe: frozen models of every stage, one TOML file in, the same recipe out."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from forecaster.errors import ConfigError, Faults, nearest_name

Kind = Literal["count", "measurement"]
Ambiguous = Literal["null", "split"]
Nonexistent = Literal["refuse", "null", "next"]
Gaps = Literal["refuse", "null"]
GraphKind = Literal["lasso", "inverse", "pearson", "distance", "random", "complete", "own"]
Subtract = Literal["hour_of_week", "nothing"]
Choose = Literal["likelihood", "ebic"]
Preset = Literal["paper", "best"]
PositionKind = Literal["location", "literal"]
Precision = Literal["float32", "bf16"]
DiffusionInputs = Literal["recent", "lags"]
Weather = Literal["observed", "persist", "climatology", "none"]
Eta = Annotated[float, Field(ge=0.0)] | Literal["balanced"]
Range = tuple[str, str]

# The widest jump of a wall clock that a similar hour must stay clear of (Antarctica/Casey: 3 h).
# Rarer jumps (Samoa skipped a day) are caught where lags are computed.
CLOCK_CHANGE_MINUTES = 3 * 60


class Stage(BaseModel):
    """One section of a recipe: fixed once read, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


S = TypeVar("S", bound=Stage)


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


# What each preset has otherwise than the defaults, as far as a recipe does not say it.
PRESETS: dict[Preset, dict[str, dict[str, Any]]] = {
    "paper": {"graph": {"subtract": "nothing"}},  # demand as it is
    "best": {
        "training": {
            "eta": "balanced",
            "learning_rate": 2e-3,
            "epochs": 30,
            "ema": 0.99,
            "weight_decay": 0.1,
        }
    },
}


class Recipe(Stage):
    """Everything that decides one run, and what it is compared with."""

    preset: Preset | None = None  # `paper`: its graph too; `best`: another network and training
    panel: PanelConfig = PanelConfig()
    trips: TripsConfig | None = None  # where the values come from: trips, or
    table: TableConfig | None = None  # a table
    weather: WeatherConfig | None = None
    splits: SplitsConfig = SplitsConfig()
    graph: GraphConfig = GraphConfig()
    lags: LagConfig = LagConfig()
    model: ModelConfig = ModelConfig()
    mixer: MixerConfig = MixerConfig()
    dcrnn: DCRNNConfig = DCRNNConfig()
    training: TrainingConfig = TrainingConfig()
    intervals: IntervalConfig = IntervalConfig()
    metrics: MetricConfig = MetricConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _fill_in_the_preset(self) -> "Recipe":
        for name, values in PRESETS.get(self.preset, {}).items() if self.preset else ():
            stage: Stage = getattr(self, name)
            given = stage.model_fields_set
            missing = {key: value for key, value in values.items() if key not in given}
            # Not counted as given: with another preset it would be another value.
            filled = type(stage).model_construct(given, **{**dict(stage), **missing})
            self.__dict__[name] = filled
        return self

    @model_validator(mode="after")
    def _one_source(self) -> "Recipe":
        if self.trips is not None and self.table is not None:
            raise ValueError("trips and table: values come from one of them; leave the other out")
        return self

    @model_validator(mode="after")
    def _seasons_end_before_the_origin(self) -> "Recipe":
        faults: list[str] = []
        if self.lags == LagConfig():  # nobody chose them: a daily panel may be made without lags
            return self
        for number, season in enumerate(self.lags.seasons):
            reach = season.after * self.panel.step_minutes
            room = season.days * 24 * 60 - CLOCK_CHANGE_MINUTES
            if reach > room:
                largest = max(room // self.panel.step_minutes, 0)
                message = f"lags.seasons.{number}: after = {season.after} steps may reach past"
                faults.append(f"{message} the origin; at most {largest} for {season.days} days")
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def digest(self) -> str:
        """Return the SHA-256 of all that decides a run, however it was written."""
        content = self.model_dump(mode="json", exclude={"training": PACE, "evaluation": True})
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_toml(self) -> str:
        """Return the whole recipe, defaults included, so that later defaults cannot change it."""
        import tomli_w  # noqa: PLC0415 (only writing needs it)

        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def read_recipe(path: Path) -> Recipe:
    """Return the checked recipe; every fault of the file is named in one error."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give a recipe file"
        ) from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or too long or deep
        raise ConfigError(f"{path}: not TOML ({error}); see recipes/ for examples") from error
    return check_stage(Recipe, content, source=str(path))


def change(recipe: Recipe, *values: Mapping[str, Any], source: str) -> Recipe:
    """Return the recipe with some values replaced, `{"training": {"epochs": 3}}`, all checked."""
    content = recipe.model_dump(mode="json", exclude_unset=True)
    for part in values:
        _merge(content, part)
    return check_stage(Recipe, content, source)


def _merge(content: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        if isinstance(value, Mapping) and isinstance(content.get(name), dict):
            _merge(content[name], value)
        else:
            content[name] = value


def check_stage(model: type[S], content: dict[str, Any], source: str) -> S:
    """Return the stage that parsed content describes, or name all of its faults."""
    try:
        # Through JSON, whose arrays may become tuples: strict models refuse to guess otherwise.
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        faults = Faults(source)
        for fault in error.errors():
            for line in fault["msg"].split("\n"):  # one for each fault between the stages
                faults.add(_describe(model, fault["type"], fault["loc"], line))
        faults.raise_any(ConfigError)
        raise  # unreachable: pydantic never raises without a fault


def _describe(model: type[Stage], kind: str, place: tuple[int | str, ...], message: str) -> str:
    name = ".".join(map(str, place))
    if kind == "extra_forbidden":
        known = _fields_at(model, place[:-1])
        hint = nearest_name(str(place[-1]), known) or f"; known: {', '.join(known)}"
        return f"{name}: unknown key{hint}"
    text = message.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _fields_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the keys known in the section that a fault's place leads to."""
    for step in place:
        if isinstance(step, int):
            continue
        annotation = model.model_fields[step].annotation
        inner = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        model = next(part for part in inner if issubclass(part, BaseModel))
    return list(model.model_fields)
