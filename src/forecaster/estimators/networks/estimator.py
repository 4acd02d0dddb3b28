"""The base of network estimators: training on batches of windows, forecasts of batches."""

import logging
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Generator, Tensor

from forecaster.artifact import Run
from forecaster.choices import Precision
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, ConfigError, Faults
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.intervals.calibration import LEVELS
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.states import window_states
from forecaster.estimators.networks.warm_start import find_kept, keep_statistics, shorten
from forecaster.estimators.predictor import WindowForecasts, join_blocks
from forecaster.estimators.scaled_inputs import (
    bound_inputs,
    range_arrays,
    scale_arrays,
    scale_shapes,
    scaler_of,
)
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.kernels.choice import describe_backend
from forecaster.models.carried import carry_weights
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import (
    LONG_HORIZON,
    Heads,
    Network,
    Outputs,
    refuse_non_finite,
)
from forecaster.recipe import Recipe
from forecaster.training.distributed import local_device
from forecaster.training.progress import ProgressCallback, TrainingResult, announce
from forecaster.training.task import TrainingTask
from forecaster.training.together import Training, train_together
from forecaster.windows.batches import Batches
from forecaster.windows.scaling import Scaler, fit_scaler

log = logging.getLogger(__name__)
RELATIVE = "outputs.relative"  # whether relative error has an output of its own
MEAN_FACTOR = "outputs.mean_factor"  # by which the network's mean is multiplied
WEIGHTS = "model."  # prefix of the names of a network's weights in a run
BATCH = 64  # origins per forward pass
FEWEST_DAYS, FEWEST_BLOCKS = 7, 3  # of validation, to take a bias from the mean
DAY_MINUTES = 24 * 60
MAX_LOADED = 3  # networks that are kept: of a run, and of the run with new locations
MAX_WHOLE, SAMPLED = 5_000, 2_048  # locations of a training step: at most all, or so many
LINEARS = 16  # of a Transformer between two states: 6 per encoder layer, 10 per decoder layer


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network with its weights on a device, and its scales."""

    network: Network
    scaler: Scaler
    lags: LagConfig
    device: str

    @torch.inference_mode()
    def predict_windows(self, inputs: ForecastInputs) -> Float32[np.ndarray, "B K N"]:
        """x̂_{t+1…t+K} in the panel's units, each step from the forecasts before it."""
        return self._in_units(self.network.roll_out(*self.states(inputs)))

    @torch.inference_mode()
    def predict_outputs(self, inputs: ForecastInputs) -> WindowForecasts:
        """The same, with the network's quantiles and its output for relative error."""
        outputs: Outputs = self.network(*self.states(inputs))
        return WindowForecasts(
            self._in_units(outputs.forecast),
            self.scaler.values.undo(outputs.quantiles.permute(2, 1, 3, 0).cpu().numpy()),
            self._in_units(outputs.relative) if self.network.has_relative else None,
        )

    def _in_units(self, forecast: Float[Tensor, "N B K"]) -> Float32[np.ndarray, "B K N"]:
        return self.scaler.values.undo(forecast.permute(1, 2, 0).cpu().numpy())

    def states(self, inputs: ForecastInputs) -> tuple[State, State]:
        """The past and the coming steps of forecast inputs, scaled, on the device."""
        masks, slots = self.network.masks, self.network.slots
        history, ahead = window_states(
            inputs, self.scaler, self.lags, self.device, masks=masks, slots=slots
        )
        refuse_non_finite(history, ahead, masks=masks)
        return history, ahead


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """A fit whose training is still to come."""

    training: Training
    arrays: Arrays  # of the run, but for the weights
    prerequisites: FitResult

    def finish(self, outcome: TrainingResult) -> FitResult:
        """The result of the fit: the arrays with the trained weights."""
        weights = {WEIGHTS + name: array for name, array in outcome.weights.items()}
        about = {**self.prerequisites.about, "training": _describe(outcome)}
        seconds = sum(record.seconds for record in outcome.records)
        arrays = {**self.arrays, **weights}
        return FitResult(arrays, about, self.prerequisites.parents, seconds)


class NetworkEstimator(Estimator):
    """An estimator whose model is a network; subclasses define how it is built."""

    seeded = True
    falls_back = True

    def __init__(self, recipe: Recipe | None = None) -> None:
        super().__init__(recipe)
        self._loaded: tuple[tuple[Arrays, LoadedNetwork], ...] = ()  # by the arrays, latest last

    @abstractmethod
    def build(self, layout: NeuronLayout, arrays: Arrays, generator: Generator) -> Network:
        """The network with new weights.

        Args:
            layout: the neurons of a step.
            arrays: the prerequisites, quantile levels and scales.
            generator: for drawing the weights.
        """

    @abstractmethod
    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """A lower bound of the number of weights, without building the network."""

    def prepare(self, network: Network, data: TrainingData) -> None:
        """Change weights of a new network before it is trained; by default none."""
        del network, data

    @property
    def bounds_values(self) -> bool:
        """Whether values beyond those of training are bounded, since they reach all locations.

        Networks over deviations bound those instead; the paper's network has no bounds.
        """
        return self.recipe.preset is None and not self.recipe.model.level

    @property
    def sampling_decay(self) -> float | None:
        """The decay of scheduled sampling, in steps; None: no scheduled sampling."""
        return None

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales; the network checks those of its weights."""
        return scale_shapes(sizes)

    @property
    def backend(self) -> str:
        """The device of the network, and its kernels if it has any, in words."""
        return describe_device(self.recipe.training.precision, [self])

    @property
    def has_kernels(self) -> bool:
        """Whether sparse layers or norms of the network are compiled (`kernels`)."""
        return False

    def prerequisites(self, data: TrainingData) -> FitResult:
        """Arrays that are fitted before the network is built; by default none."""
        del data
        return FitResult({})

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Train the network; the weights with the lowest validation loss are kept."""
        fit = self.begin_fit(data)
        (outcome,) = train_together([fit.training], data.on_progress)
        return fit.finish(outcome)

    def begin_fit(self, data: TrainingData) -> "NetworkFit":
        """All of a fit that comes before the training."""
        prerequisites, recipe = self.prerequisites(data), self.recipe
        arrays, task = self.make_task(data, prerequisites)
        identity = _identity(data, recipe, prerequisites, self.start)
        training = Training(type(self).__name__, task, data.folder, identity)
        return NetworkFit(training, arrays, prerequisites)

    def make_task(
        self, data: TrainingData, prerequisites: FitResult
    ) -> tuple[Arrays, TrainingTask]:
        """The arrays of a run but for the weights, and the training of these.

        Args:
            data: what the network is fitted to.
            prerequisites: those of this data.
        """
        recipe, scaler = self.recipe, fit_scaler(data.panel, data.train)
        outputs = {
            LEVELS: np.array(recipe.intervals.quantiles),
            RELATIVE: np.array(recipe.training.relative),
        }
        arrays = {**prerequisites.arrays, **outputs, **scale_arrays(scaler)}
        arrays |= range_arrays(data) if self.bounds_values else {}
        training = recipe.training
        if self.start is not None:
            kept = find_kept(self.start.about["ids"], data.panel.locations.ids)
            arrays, training = keep_statistics(self.start.arrays, arrays, kept), shorten(training)
            scaler = scaler_of(arrays)
        device = best_device()
        generator = Generator().manual_seed(recipe.training.seed)
        network, windows = self.build(_layout(scaler), arrays, generator), data.windows
        locations = self._sampled_locations(network, data.on_progress)
        self._begin(network, data)
        self._announce_cost(network, data.on_progress)
        partly = windows.partial if network.masks else windows.partial[:0]
        batches = Batches(
            data.panel,
            scaler,
            data.fill,
            self.lags,
            device,
            masks=network.masks,
            by_location=locations is not None,
        )
        task = TrainingTask(
            network=network.to(device),
            batches=batches,
            scale=scaler.values,
            train=np.union1d(partly, windows.train),
            validation=windows.validation,
            config=training,
            mape_cut=recipe.metrics.mape_cut,
            sampling_decay=self.sampling_decay,
            locations=locations,
        )
        return arrays, task

    def _sampled_locations(
        self, network: Network, on_progress: ProgressCallback | None
    ) -> int | None:
        """How many locations a training step has; None: all. A line says it if it was chosen."""
        count, asked = network.inputs.n_locations, self.recipe.training.locations
        if not network.samples:
            if asked is None:
                return None
            raise ConfigError(
                f"training.locations = {asked:,}: {self.label} learns from all locations at once; "
                "leave the setting out, or use the preset quick"
            )
        if asked is None and count > MAX_WHOLE:
            announce(
                f"{type(self).__name__}: {SAMPLED:,} of {count:,} locations in each training step "
                "(training.locations)",
                on_progress,
            )
            return SAMPLED
        return None if asked is None or asked >= count else asked

    def _begin(self, network: Network, data: TrainingData) -> None:
        """Give a new network its first weights: those of the run that it goes on from, if any."""
        if self.start is None:
            self.prepare(network, data)
            return
        trained = self._restore(_layout(scaler_of(self.start.arrays)), self.start.arrays)
        carry_weights(
            network, trained, find_kept(self.start.about["ids"], data.panel.locations.ids)
        )

    def _announce_cost(self, network: Network, on_progress: ProgressCallback | None) -> None:
        """Say what a long horizon costs, before training or forecasts begin."""
        cost = network.horizon_cost() if network.K > LONG_HORIZON else ""
        if cost:
            announce(f"{type(self).__name__} {cost}", on_progress)

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The network's forecasts."""
        loaded, inputs = self.load_network(arrays), bound_inputs(arrays, inputs)
        parts = [loaded.predict_windows(block) for block in _blocks(inputs)]
        return _unbiased(np.concatenate(parts), arrays)

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        """The network's forecasts, and its quantiles if it has any."""
        loaded, inputs = self.load_network(arrays), bound_inputs(arrays, inputs)
        outputs = join_blocks([loaded.predict_outputs(block) for block in _blocks(inputs)])
        return outputs._replace(mean=_unbiased(outputs.mean, arrays))

    def adjust_outputs(
        self, run: Run, data: TrainingData, forecasts: WindowForecasts
    ) -> FitResult:
        """The factor that takes the bias of the validation windows from the mean of counts.

        One for all steps ahead; at long horizons one for each, since trends add up.
        """
        del run
        if data.panel.kind != "count" or forecasts.relative is None:
            return FitResult({})
        K = forecasts.mean.shape[1]
        if K <= LONG_HORIZON:
            return FitResult({MEAN_FACTOR: fit_mean_factor(data, forecasts.mean)})
        share = min(data.panel.clock.step_minutes / DAY_MINUTES, 1)  # of a day, in a step
        factors = [
            fit_mean_factor(data, forecasts.mean, [k], math.ceil((k + 1) * share))
            for k in range(K)
        ]
        return FitResult({MEAN_FACTOR: np.array(factors, dtype=np.float32)})

    def load_network(self, arrays: Arrays) -> LoadedNetwork:
        """The network of a run's arrays on the best device; it is built once."""
        for built_for, loaded in self._loaded:
            if built_for is arrays:
                return loaded
        _check_mean_factor(arrays, self.lags.horizon)
        scaler, device = scaler_of(arrays), best_device()
        network = self._restore(_layout(scaler), arrays).eval().to(device)
        self._announce_cost(network, None)
        loaded = LoadedNetwork(network, scaler, self.lags, device)
        # Replaced as a whole: threads of a service ask for the run with and without new locations.
        self._loaded = (*self._loaded[-MAX_LOADED + 1 :], (arrays, loaded))
        return loaded

    def _restore(self, layout: NeuronLayout, arrays: Arrays) -> Network:
        """The network with its weights; it is built only if there are enough of them."""
        weights = {
            name.removeprefix(WEIGHTS): a for name, a in arrays.items() if name.startswith(WEIGHTS)
        }
        stored = sum(array.size for array in weights.values())
        needed = self.size(layout, arrays)
        if needed > stored:
            raise ArtifactError(f"{stored:,} weights for a network of more than {needed:,}")
        network = self.build(layout, arrays, Generator())
        _load(network, weights)
        return network

    def check_arrays(self, arrays: Arrays) -> None:
        """Load the network; weights that do not fit it are refused."""
        self.load_network(arrays)


def fit_mean_factor(
    data: TrainingData,
    forecast: Float32[np.ndarray, "V K N"],
    steps: Sequence[int] | None = None,
    block: int = 1,
) -> Float32[np.ndarray, ""]:
    """Σ x / Σ x̂ over the validation windows, as far as it is more than chance.

    A network learns the trend of its training weeks and takes it along; the weeks after them say
    what is left of it. Of the bias b with its standard error s over days, b² / (b² + s²) is
    taken off.

    Args:
        data: with the validation windows.
        forecast: of these.
        steps: that are summed, counted from 0; None: all.
        block: days that share an error, since forecasts of neighbouring days overlap.
    """
    panel, origins = data.panel, data.windows.validation
    chosen = np.arange(forecast.shape[1]) if steps is None else np.array(steps)
    forecast, truth = forecast[:, chosen], panel.values[origins[:, None] + 1 + chosen]
    observed = np.isfinite(truth)
    days = panel.clock.local(panel.times[origins]).astype("datetime64[D]")
    different, day = np.unique(days, return_inverse=True)
    total, error = (
        np.bincount(day // block, np.where(observed, part, 0).sum(axis=(1, 2), dtype=np.float64))
        for part in (truth, forecast - truth)
    )
    D = len(total)
    if len(different) < FEWEST_DAYS or D < FEWEST_BLOCKS or total.sum() <= 0:
        return np.array(1, dtype=np.float32)
    bias = error.sum() / total.sum()
    variance = D / (D - 1) * np.square(error - bias * total).sum() / total.sum() ** 2
    kept = bias**2 / (bias**2 + variance) if bias else 0.0
    return np.array(1 / (1 + kept * bias), dtype=np.float32)


def _blocks(inputs: ForecastInputs) -> Iterator[ForecastInputs]:
    """The inputs of 64 origins at a time; of many locations, of each by itself.

    Then the bits of a forecast do not depend on the other origins of a call.
    """
    size = BATCH if len(inputs.panel.locations) <= MAX_WHOLE else 1
    for first in range(0, len(inputs.origins), size):
        yield inputs.rows(first, first + size)


def _unbiased(mean: Float32[np.ndarray, "B K N"], arrays: Arrays) -> Float32[np.ndarray, "B K N"]:
    """The mean without the bias of validation; runs of earlier versions have no such factor."""
    if MEAN_FACTOR not in arrays:
        return mean
    factor = arrays[MEAN_FACTOR]  # of all steps, or of each
    return mean * (factor[:, None] if factor.ndim else factor)


def _check_mean_factor(arrays: Arrays, horizon: int) -> None:
    factor = arrays.get(MEAN_FACTOR, np.array(1, dtype=np.float32))
    fits = factor.dtype == np.float32 and factor.shape in ((), (horizon,))
    if not fits or not ((factor > 0) & (factor < np.inf)).all():
        raise ArtifactError(
            f"{MEAN_FACTOR} is {factor.dtype} {factor.shape}, not a factor above 0, or {horizon}"
        )


def heads_of(arrays: Arrays) -> Heads:
    """The outputs of a run's network beside its forecast; older runs may lack some or all."""
    levels = tuple(arrays[LEVELS].tolist()) if LEVELS in arrays else ()
    return Heads(levels, bool(arrays.get(RELATIVE, False)))


def describe_device(precision: Precision, networks: Sequence[NetworkEstimator]) -> str:
    """The device of networks, and their kernels if one of them has any, in words."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if any(network.has_kernels for network in networks):
        return describe_backend(torch.device(best_device()), dtype)
    return f"on {best_device()} in {dtype}" if networks else ""


def best_device() -> str:
    """The device of networks: this process's GPU if there is one, else the CPU."""
    return local_device("cuda" if torch.cuda.is_available() else "cpu")


def _layout(scaler: Scaler) -> NeuronLayout:
    """The neurons of a step: 1 + Q of each location, P + calendar auxiliary ones."""
    N, Q = len(scaler.values.mean), len(scaler.local_covariates.mean)
    return NeuronLayout(N, 1 + Q, len(scaler.covariates.mean) + len(CALENDAR_COLUMNS))


def _identity(
    data: TrainingData, recipe: Recipe, prerequisites: FitResult, start: Run | None
) -> dict[str, str] | None:
    """The hashes that must agree when a training is resumed; None: it keeps no checkpoints."""
    if data.folder is None:
        return None
    if data.panel.digest is None:
        message = "checkpoints need a saved panel, by whose hash training is resumed"
        raise ConfigError(f"{message}; save the panel first: panel = panel.save(folder)")
    began = {} if start is None else {"run": str(start.digest)}
    return {
        "recipe": recipe.digest(),
        "panel": data.panel.digest,
        **prerequisites.parents,
        **began,
    }


def _describe(outcome: TrainingResult) -> dict[str, Any]:
    """The epochs of training and why it stopped; without seconds, which no rerun repeats."""
    records = [asdict(record) for record in outcome.records]
    epochs = [{name: r[name] for name in r if name != "seconds"} for r in records]
    return {"why": outcome.stop_reason, "epochs": epochs}


def _load(network: Network, weights: Arrays) -> None:
    """Load weights into a network; names, shapes and types must all agree."""
    needed = {name: f"float32 {tuple(w.shape)}" for name, w in network.state_dict().items()}
    stored = {name: f"{array.dtype} {array.shape}" for name, array in weights.items()}
    faults = Faults("weights")
    for name in sorted({*needed, *stored}):
        if stored.get(name) != needed.get(name):
            needed_form = needed.get(name, "nothing")
            faults.add(f"{name}: {stored.get(name, 'nothing')}; needed: {needed_form}")
    faults.raise_any(ArtifactError)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
