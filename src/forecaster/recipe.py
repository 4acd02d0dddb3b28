"""The recipe of a run: reading from TOML, validation that reports all faults, and writing."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from forecaster.config import (
    CLOCK_CHANGE_MINUTES,
    PACE,
    BoostingConfig,
    DCRNNConfig,
    EnsembleConfig,
    EvaluationConfig,
    GraphConfig,
    GraphWaveNetConfig,
    IntervalConfig,
    LagConfig,
    MetricConfig,
    MixerConfig,
    ModelConfig,
    PanelConfig,
    SplitsConfig,
    STAEformerConfig,
    Stage,
    STIDConfig,
    TableConfig,
    TrainingConfig,
    TripsConfig,
    WeatherConfig,
)
from forecaster.errors import ConfigError, Faults, nearest_name
from forecaster.reading.compressed import read_small

Preset = Literal["paper", "quick", "best"]
S = TypeVar("S", bound=Stage)

# The training of the network over deviations, which `quick` is and `best` is made of.
_MIXER_TRAINING: dict[str, Any] = {
    "eta": "balanced",
    "relative": True,
    "learning_rate": 2e-3,
    "epochs": 30,
    "ema": 0.99,
    "weight_decay": 0.1,
}

_SIMPLE_MODELS = ("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge")
MAX_BYTES = 1 << 20  # of the file of a recipe
# Settings and sections that earlier versions did not have.
LATER_SETTINGS = {
    "training": ("relative", "locations"),
    "panel": ("renames", "censored", "hours", "step_months", "past_only"),
}
LATER = ("boosting", "stid", "graph_wavenet", "staeformer", "ensemble")
# Defaults of each preset; settings in the recipe itself take precedence.
PRESETS: dict[Preset, dict[str, dict[str, Any]]] = {
    "paper": {"graph": {"subtract": "nothing"}},  # demand itself
    "quick": {"training": _MIXER_TRAINING},
    "best": {
        "training": _MIXER_TRAINING,
        "evaluation": {"models": (*_SIMPLE_MODELS, "Ensemble")},
    },
}


class Recipe(Stage):
    """All settings of one run and of its comparison with other models."""

    preset: Preset | None = Field(
        default=None,
        description="`paper`: the paper as printed; `quick`: another network over the same graph; "
        "`best`: an ensemble of that network and other models",
    )
    panel: PanelConfig = PanelConfig()
    trips: TripsConfig | None = None
    table: TableConfig | None = None
    weather: WeatherConfig | None = None
    splits: SplitsConfig = SplitsConfig()
    graph: GraphConfig = GraphConfig()
    lags: LagConfig = LagConfig()
    model: ModelConfig = ModelConfig()
    mixer: MixerConfig = MixerConfig()
    dcrnn: DCRNNConfig = DCRNNConfig()
    boosting: BoostingConfig = BoostingConfig()
    ensemble: EnsembleConfig | None = Field(
        default=None, description="the members of an Ensemble; without it, the usual ones"
    )
    stid: STIDConfig = STIDConfig()
    graph_wavenet: GraphWaveNetConfig = GraphWaveNetConfig()
    staeformer: STAEformerConfig = STAEformerConfig()
    training: TrainingConfig = TrainingConfig()
    intervals: IntervalConfig = IntervalConfig()
    metrics: MetricConfig = MetricConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @staticmethod
    def of(content: dict[str, Any]) -> "Recipe":
        """The recipe of a dict, such as `{"training": {"epochs": 3}}`; faults are listed."""
        return check_stage(Recipe, content, source="recipe")

    @property
    def uses_mixer(self) -> bool:
        """Whether Forecaster is the network over deviations, as in the presets quick and best."""
        return self.preset in ("quick", "best")

    @property
    def estimator(self) -> Literal["Forecaster", "Ensemble"]:
        """The estimator that the preset is of, where no model is named."""
        return "Ensemble" if self.preset == "best" else "Forecaster"

    def departures(self) -> list[str]:
        """List the settings of a model that differ from those of the preset."""
        preset = PRESETS[self.preset] if self.preset else {}
        return [
            f"{name}.{key} = {getattr(getattr(self, name), key)}"
            for name, values in preset.items()
            if name != "evaluation"
            for key, value in values.items()
            if getattr(getattr(self, name), key) != value
        ]

    @model_validator(mode="after")
    def _fill_in_the_preset(self) -> "Recipe":
        for name, values in PRESETS.get(self.preset, {}).items() if self.preset else ():
            stage: Stage = getattr(self, name)
            chosen = stage.model_fields_set
            missing = {key: value for key, value in values.items() if key not in chosen}
            # Not marked as set: another preset has another default.
            filled = type(stage).model_construct(chosen, **{**dict(stage), **missing})
            self.__dict__[name] = filled
        return self

    @model_validator(mode="after")
    def _one_source(self) -> "Recipe":
        if self.trips is not None and self.table is not None:
            raise ValueError("trips and table: both are given as the source of values; remove one")
        return self

    @model_validator(mode="after")
    def _seasons_end_before_the_origin(self) -> "Recipe":
        faults: list[str] = []
        if "seasons" not in self.lags.model_fields_set:  # chosen by the step of the panel
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
        """Return the SHA-256 of the settings that affect a run's result."""
        content = self.model_dump(mode="json", exclude={"training": PACE, "evaluation": True})
        for section, names in LATER_SETTINGS.items():
            for name in names:  # recipes without these keep their hashes
                if content[section][name] in (None, 0, []):
                    del content[section][name]
        for name in ("trips", "table"):
            if content[name] is not None and content[name]["query"] is None:
                del content[name]["query"]
        for name in LATER:  # nor do those from before there were these models
            if getattr(self, name) == type(self).model_fields[name].default:
                del content[name]
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_toml(self) -> str:
        """Return the whole recipe, defaults included, so that later defaults cannot change it.

        Lags and a kind of graph that are not set depend on a panel (`clock/lags.py`,
        `graph/learn.py`) and are left out.
        """
        import tomli_w  # noqa: PLC0415 (only writing needs it)

        content = self.model_dump(mode="json", exclude_none=True)
        content["lags"] = self.lags.model_dump(mode="json", include=self.lags.model_fields_set)
        if "kind" not in self.graph.model_fields_set:
            del content["graph"]["kind"]
        return tomli_w.dumps(content)


def read_recipe(path: Path) -> Recipe:
    """Read and validate a recipe file; one error lists all its faults."""
    try:
        content = tomllib.loads(read_small(path, MAX_BYTES))
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


def _merge(content: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(content.get(name), dict):
            _merge(content[name], value)
        else:  # a copy: later changes of the same section leave the caller's values as they are
            content[name] = deepcopy(value)


def check_stage(model: type[S], content: dict[str, Any], source: str) -> S:
    """Validate parsed content as a section of a recipe; the error lists all faults."""
    try:
        # By way of JSON: strict models accept JSON arrays as tuples, but not lists.
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        faults = Faults(source)
        for fault in error.errors():
            for line in fault["msg"].split("\n"):  # one line per fault between sections
                faults.add(_describe(model, fault["type"], fault["loc"], line))
        faults.raise_any(ConfigError)
        raise  # unreachable: pydantic never raises without a fault


def _describe(model: type[Stage], kind: str, place: tuple[int | str, ...], message: str) -> str:
    name = ".".join(map(str, place))
    if kind == "extra_forbidden":
        keys = _fields_at(model, place[:-1])
        hint = nearest_name(str(place[-1]), keys) or f"; known: {', '.join(keys)}"
        return f"{name}: unknown key{hint}"
    text = message.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def _fields_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the valid keys of the section in which a fault lies."""
    for step in place:
        if isinstance(step, int):
            continue
        annotation = model.model_fields[step].annotation
        inner = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        model = next(part for part in inner if issubclass(part, BaseModel))
    return list(model.model_fields)
