"""Networks as estimators: trained on batches of windows, used on batches of origins."""

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float32
from torch import Generator

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, ConfigError, Faults
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.intervals.calibration import LEVELS
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.states import window_states
from forecaster.estimators.scaled_inputs import scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.kernels.choice import describe_backend
from forecaster.models.network import Network, refuse_non_finite
from forecaster.models.neurons import NeuronLayout, State
from forecaster.recipe import Recipe
from forecaster.training.distributed import local_device
from forecaster.training.loop import train
from forecaster.training.progress import TrainingResult
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batches
from forecaster.windows.scaling import Scaler, fit_scaler

E = TypeVar("E", bound="NetworkEstimator")
WEIGHTS = "model."  # begins the names of a network's weights in a run
BATCH = 64  # origins that a network forecasts at a time
LINEARS = 16  # a Transformer's between two states: 6 in an encoder layer, 10 in a decoder layer


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network with its weights on a device, and the scales it works in."""

    network: Network
    scaler: Scaler
    lags: LagConfig
    device: str

    @torch.inference_mode()
    def predict_windows(self, inputs: ForecastInputs) -> Float32[np.ndarray, "B K N"]:
        """Return x̂_{t+1…t+K} in the panel's units, each step from the forecasts before it."""
        forecast = self.network.roll_out(*self.states(inputs))  # [N, B, K]
        return self.scaler.values.undo(forecast.permute(1, 2, 0).cpu().numpy())

    @torch.inference_mode()
    def predict_window_quantiles(
        self, inputs: ForecastInputs
    ) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
        """Return the same with the network's quantiles."""
        forecast, quantiles = self.network(*self.states(inputs))
        undo = self.scaler.values.undo
        return (
            undo(forecast.permute(1, 2, 0).cpu().numpy()),
            undo(quantiles.permute(2, 1, 3, 0).cpu().numpy()),
        )

    def states(self, inputs: ForecastInputs) -> tuple[State, State]:
        """The past and the coming steps of forecast inputs, scaled, on the device."""
        history, ahead = window_states(inputs, self.scaler, self.lags, self.device)
        refuse_non_finite(history, ahead)
        return history, ahead


class NetworkEstimator(Estimator):
    """A network that forecasts.

    A second base class, since Forecaster and its baselines differ only in how theirs is built.
    """

    seeded = True

    def __init__(self, recipe: Recipe | None = None) -> None:
        super().__init__(recipe)
        self._loaded: tuple[Arrays, LoadedNetwork] | None = None  # for these arrays, built once

    @abstractmethod
    def build(self, layout: NeuronLayout, known: Arrays, generator: Generator) -> Network:
        """Return the network with fresh weights.

        Args:
            layout: the neurons of a step.
            known: what was learned before the network.
            generator: what the weights are drawn from.
        """

    @abstractmethod
    def size(self, layout: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the network has at least, without building it."""

    @property
    def sampling_decay(self) -> float | None:
        """The decay of scheduled sampling, in steps; None: the truth is always shown."""
        return None

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scales; those of the weights are the network's."""
        return scale_shapes(sizes)

    @property
    def backend(self) -> str:
        """Where the network computes and by what, in words."""
        dtype = torch.bfloat16 if self.recipe.training.precision == "bf16" else torch.float32
        return describe_backend(torch.device(best_device()), dtype)

    def prerequisites(self, data: TrainingData) -> FitResult:
        """What must be fitted before the network can be built: nothing."""
        del data
        return FitResult({})

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Train the network; the weights with the lowest validation loss are kept."""
        known, recipe = self.prerequisites(data), self.recipe
        scaler = fit_scaler(data.panel, data.train)
        levels = {LEVELS: np.array(recipe.intervals.quantiles)}
        arrays = {**known.arrays, **levels, **scale_arrays(scaler)}
        device = best_device()
        generator = Generator().manual_seed(recipe.training.seed)
        task = TrainingTask(
            network=self.build(_layout(scaler), arrays, generator).to(device),
            batches=Batches(data.panel, scaler, data.fill, self.lags, device),
            scale=scaler.values,
            train=data.windows.train,
            validation=data.windows.validation,
            config=recipe.training,
            mape_cut=recipe.metrics.mape_cut,
            sampling_decay=self.sampling_decay,
        )
        outcome = train(
            task,
            folder=data.folder,
            identity=_identity(data, recipe, known),
            on_progress=data.on_progress,
        )
        weights = {WEIGHTS + name: array for name, array in outcome.weights.items()}
        about = {**known.about, "training": _describe(outcome)}
        seconds = sum(record.seconds for record in outcome.records)
        return FitResult({**arrays, **weights}, about, known.parents, seconds)

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Return the network's forecasts."""
        loaded = self.load_network(arrays)
        blocks = range(0, len(inputs.origins), BATCH)
        return np.concatenate([loaded.predict_windows(inputs.rows(b, b + BATCH)) for b in blocks])

    def predict_window_quantiles(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
        """Return the network's forecasts, and its quantiles if it has any."""
        loaded = self.load_network(arrays)
        blocks = range(0, len(inputs.origins), BATCH)
        parts = [loaded.predict_window_quantiles(inputs.rows(b, b + BATCH)) for b in blocks]
        forecasts, quantiles = zip(*parts, strict=True)
        return np.concatenate(forecasts), np.concatenate(quantiles)

    def load_network(self, arrays: Arrays) -> LoadedNetwork:
        """Return the network of these arrays on the best device; it is built once."""
        if self._loaded is None or self._loaded[0] is not arrays:
            scaler, device = scaler_of(arrays), best_device()
            network = self._restore(_layout(scaler), arrays).eval().to(device)
            self._loaded = (arrays, LoadedNetwork(network, scaler, self.lags, device))
        return self._loaded[1]

    def _restore(self, layout: NeuronLayout, arrays: Arrays) -> Network:
        """Return the network with its weights; one that they cannot fill is never built."""
        named = {
            name.removeprefix(WEIGHTS): a for name, a in arrays.items() if name.startswith(WEIGHTS)
        }
        held = sum(array.size for array in named.values())
        needed = self.size(layout, arrays)
        if needed > held:
            raise ArtifactError(f"{held:,} weights for a network of more than {needed:,}")
        network = self.build(layout, arrays, Generator())
        _load(network, named)
        return network

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """Return a fitted estimator around a run whose weights fit its network."""
        estimator = super().from_run(run)
        try:
            estimator.load_network(run.arrays)
        except (ArtifactError, ConfigError, KeyError, ValueError) as error:
            raise ArtifactError(f"not a forecaster run of a {run.estimator} ({error})") from error
        return estimator


def levels_of(known: Arrays) -> tuple[float, ...]:
    """Return the quantiles that a network has; none in a run that was saved before them."""
    return tuple(known[LEVELS].tolist()) if LEVELS in known else ()


def best_device() -> str:
    """Return where networks run: on this process's GPU if there is one."""
    return local_device("cuda" if torch.cuda.is_available() else "cpu")


def _layout(scaler: Scaler) -> NeuronLayout:
    """Return the neurons of a step: 1 + Q of each location, P + calendar auxiliary ones."""
    N, Q = len(scaler.values.mean), len(scaler.local_covariates.mean)
    return NeuronLayout(N, 1 + Q, len(scaler.covariates.mean) + len(CALENDAR_COLUMNS))


def _identity(data: TrainingData, recipe: Recipe, known: FitResult) -> dict[str, str] | None:
    """Return the hashes that a training must share with the one that it resumes."""
    if data.folder is None:
        return None
    if data.panel.digest is None:
        message = "a training that can be resumed must know its panel again"
        raise ConfigError(f"{message}; save the panel first: panel = panel.save(folder)")
    return {"recipe": recipe.digest(), "panel": data.panel.digest, **known.parents}


def _describe(outcome: TrainingResult) -> dict[str, Any]:
    """Return how training went; without its seconds, which no second training would repeat."""
    records = [asdict(record) for record in outcome.records]
    epochs = [{name: r[name] for name in r if name != "seconds"} for r in records]
    return {"why": outcome.stop_reason, "epochs": epochs}


def _load(network: Network, weights: Arrays) -> None:
    """Give a network its weights; names, shapes and types must all be its own."""
    own = {name: f"float32 {tuple(w.shape)}" for name, w in network.state_dict().items()}
    given = {name: f"{array.dtype} {array.shape}" for name, array in weights.items()}
    faults = Faults("weights")
    for name in sorted({*own, *given}):
        found, needed = given.get(name, "nothing"), own.get(name, "nothing")
        if found != needed:
            faults.add(f"{name}: {found}; needed: {needed}")
    faults.raise_any(ArtifactError)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
