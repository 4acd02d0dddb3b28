"""A training task: network, batches, splits and configuration; test windows are not in it."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecaster.config import TrainingConfig
from forecaster.errors import DataError
from forecaster.kernels.sample import LocationSample
from forecaster.models.layers.neurons import State
from forecaster.models.network import Network, Outputs
from forecaster.training.loss import count_terms, sum_deviance, sum_errors
from forecaster.training.schedule import draw_locations, draw_teacher_forcing
from forecaster.windows.batches import ALL_LOCATIONS, Batch, Batches, BatchLocations
from forecaster.windows.scaling import Scale

SAMPLE = 1_000  # windows that a balanced η is estimated from
SCORED_SAMPLES = (
    4  # training steps' locations that a validation window counts for, if all are many
)
LEAST_SCORED = 128  # windows


def batch_locations(sample: LocationSample | None) -> BatchLocations:
    """The locations of a batch."""
    return ALL_LOCATIONS if sample is None else (sample.locations, sample.targets)


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """A network with its training and validation windows."""

    network: Network  # trained in place
    batches: Batches  # on the network's device
    scale: Scale  # of the values: forecasts are scaled back before the loss
    train: Int64[np.ndarray, " B1"]  # origins
    validation: Int64[np.ndarray, " B2"]
    config: TrainingConfig
    mape_cut: float
    sampling_decay: float | None = (
        None  # of scheduled sampling, in steps; None: full teacher forcing
    )
    locations: int | None = None  # of each training step; None: all

    def __post_init__(self) -> None:
        empty = [name for name in ("train", "validation") if not len(getattr(self, name))]
        if empty:
            raise DataError(f"no window to {' and '.join(empty)} on; take some from cut_windows")

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the network."""
        return next(self.network.parameters()).dtype

    @property
    def epoch_steps(self) -> int:
        """The number of steps in an epoch; the last batch may be smaller."""
        return -(-len(self.train) // self.config.batch)

    @property
    def steps(self) -> int:
        """The number of steps in all epochs."""
        return self.epoch_steps * self.config.epochs

    def sample(self, step: int) -> LocationSample | None:
        """The locations of a training step, counted from 0, the same in every process; None: all.

        Their numbers are a pure function of seed and step.
        """
        if self.locations is None:
            return None
        count = self.network.inputs.n_locations
        targets = draw_locations(count, self.locations, self.config.seed, step)
        return self.network.sample(targets).to(self.device)

    @property
    def scored(self) -> Int64[np.ndarray, " B3"]:
        """The validation windows that choose the weights, forecast for all locations.

        Where there are many more locations than a training step has, these are some windows, at
        even distances: validation would otherwise take longer than training.
        """
        if self.locations is None:
            return self.validation
        share = SCORED_SAMPLES * self.locations / self.network.inputs.n_locations
        count = max(math.ceil(share * len(self.validation)), LEAST_SCORED)
        if count >= len(self.validation):
            return self.validation
        middles = (np.arange(count) + 0.5) * len(self.validation) / count
        return self.validation[middles.astype(np.int64)]

    @property
    def scored_at_once(self) -> int:
        """The number of validation windows that have about as many numbers as a training step."""
        if self.locations is None:
            return self.config.batch
        return max(self.config.batch * self.locations // self.network.inputs.n_locations, 1)

    @cached_property
    def eta(self) -> float:
        """η of Eq. 7: the recipe's or, if balanced, that for which persistence has equal terms.

        The printed η suits demand of the paper's size; a balanced one suits any unit.
        """
        if self.config.eta != "balanced":
            return self.config.eta
        errors = torch.zeros(4, dtype=torch.float64, device=self.device)
        origins, size = self.train[:: -(-len(self.train) // SAMPLE)], self.config.batch
        for number in range(-(-len(origins) // size)):
            sample, part = self.sample(number), origins[number * size : (number + 1) * size]
            batch = self.batches.cut(part, batch_locations(sample))
            signal = batch.signal if sample is None else batch.signal.index_select(0, sample.rows)
            last = signal[:, 0, :, -1:].nan_to_num(0.0)  # the mean, where it is missing
            last = self._scale_back(last.expand_as(batch.target), sample)
            sums = self.sum_errors(Outputs(last, last[:, None], last), batch)[:2]
            errors += torch.cat([sums, self.count_terms(batch)])
        means, shares, seen, counted = errors.tolist()
        if not means or not shares:  # constant series, or no target counts for MAPE
            return 1.0
        return float((shares / counted) / (means / seen))

    def sum_errors(self, outputs: Outputs, batch: Batch) -> Float64[Tensor, "3"]:
        """The sums of Eq. 6 that the loss is of, and the squares.

        The first is of squares, or of the deviance of counts, if the network's forecasts are
        counts above zero; the second of relative errors.
        """
        forecast, target, observed = outputs.forecast, batch.target, batch.observed
        of_counts = self.network.is_positive  # squares are then reported only: no gradient
        squared = forecast.detach() if of_counts else forecast
        sums = sum_errors(squared, outputs.relative, target, observed, self.mape_cut)
        squares, shares = sums.unbind()
        mean = sum_deviance(forecast, target, observed) if of_counts else squares
        return torch.stack([mean, shares, squares])

    def count_terms(self, batch: Batch) -> Float64[Tensor, "2"]:
        """The numbers of targets that count for squares, and for relative errors."""
        return count_terms(batch.target, batch.observed, self.mape_cut)

    def teacher_forced(
        self,
        batch: Batch,
        forced: Bool[Tensor, " T"] | None = None,
        sample: LocationSample | None = None,
    ) -> Outputs:
        """The outputs by teacher forcing: quantiles scaled, all else in the values' units.

        Scheduled sampling forces only some steps; the others start from the forecast before.
        """
        history, ahead = self.inputs(batch)
        history = replace(history, sample=sample)
        truth = batch.next_values[..., :-1].to(history.signal.dtype)
        return self._in_units(self.network(history, ahead, truth, forced), sample)

    def teacher_forcing(self, step: int) -> Bool[Tensor, " T"] | None:
        """The steps ahead that are teacher-forced in a training step; None: all of them."""
        if self.sampling_decay is None:
            return None
        drawn = draw_teacher_forcing(
            self.network.K - 1, self.sampling_decay, self.config.seed, step
        )
        return torch.tensor(drawn, dtype=torch.bool).to(self.device)

    def roll_out(self, batch: Batch) -> Outputs:
        """The outputs in the values' units, rolled out: each from the forecasts before it."""
        return self._in_units(self.network(*self.inputs(batch), with_quantiles=False))

    def inputs(self, batch: Batch) -> tuple[State, State]:
        """The history and the covariates ahead, in the network's floating-point type."""
        dtype = self.dtype
        return (
            State(batch.signal.to(dtype), batch.auxiliary.to(dtype), batch.slots),
            State(
                batch.next_local.to(dtype),
                batch.next_auxiliary.to(dtype),
                batch.next_slots,
                batch.next_open,
            ),
        )

    def _in_units(self, outputs: Outputs, sample: LocationSample | None = None) -> Outputs:
        forecast = self._scale_back(outputs.forecast, sample)
        own = self.network.has_relative
        relative = self._scale_back(outputs.relative, sample) if own else forecast
        return Outputs(forecast, outputs.quantiles, relative)

    def _scale_back(
        self, forecast: Float[Tensor, "N B K"], sample: LocationSample | None
    ) -> Float[Tensor, "N B K"]:
        mean, deviation = self._units
        if sample is not None:
            mean, deviation = (unit.index_select(0, sample.targets) for unit in self._units)
        return (forecast * deviation).add_(mean)  # at least float32, also of a network in bf16

    @cached_property
    def levels(self) -> Float[Tensor, " Q"]:
        """The quantile levels of the network, on its device."""
        return torch.tensor(self.network.levels, dtype=torch.float32).to(self.device)

    @cached_property
    def _units(self) -> tuple[Float[Tensor, "N 1 1"], Float[Tensor, "N 1 1"]]:
        mean, deviation = torch.from_numpy(np.stack([self.scale.mean, self.scale.deviation]))
        return mean.to(self.device)[:, None, None], deviation.to(self.device)[:, None, None]
