"""What is to be learned. There is no test in it: training cannot look at what it is not given."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecaster.config import TrainingConfig
from forecaster.errors import DataError
from forecaster.models.network import Network
from forecaster.models.neurons import State
from forecaster.training.loss import count_terms, sum_errors
from forecaster.training.schedule import draw_teacher_forcing
from forecaster.windows.batches import Batch, Batches
from forecaster.windows.scaling import Scale

SAMPLE = 1_000  # windows that the balance of the loss is judged by


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """A network, what it learns from and what it is chosen on."""

    network: Network  # trained in place
    batches: Batches  # on the network's device
    scale: Scale  # of the values: forecasts are scaled back before the loss
    train: Int64[np.ndarray, " B1"]  # origins
    validation: Int64[np.ndarray, " B2"]
    config: TrainingConfig
    mape_cut: float
    sampling_decay: float | None = None  # of scheduled sampling, in steps; None: all is shown

    def __post_init__(self) -> None:
        empty = [name for name in ("train", "validation") if not len(getattr(self, name))]
        if empty:
            raise DataError(f"no window to {' and '.join(empty)} on; take some from cut_windows")

    @property
    def device(self) -> torch.device:
        """Return where the network is."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Return the numbers that the network computes in."""
        return next(self.network.parameters()).dtype

    @property
    def epoch_steps(self) -> int:
        """Return how many steps an epoch has; the last one may be of fewer windows."""
        return -(-len(self.train) // self.config.batch)

    @property
    def steps(self) -> int:
        """Return how many steps all epochs have."""
        return self.epoch_steps * self.config.epochs

    @cached_property
    def eta(self) -> float:
        """Return η of Eq. 7: the recipe's, or what makes both terms equal for the last value.

        As printed it fits demand of the paper's size; a balanced one fits any unit.
        """
        if self.config.eta != "balanced":
            return self.config.eta
        errors = torch.zeros(4, dtype=torch.float64, device=self.device)
        some = self.train[:: -(-len(self.train) // SAMPLE)]
        for start in range(0, len(some), self.config.batch):
            batch = self.batches.cut(some[start : start + self.config.batch])
            last = self._scale_back(batch.signal[:, 0, :, -1:].expand_as(batch.target))
            sums = sum_errors(last, batch.target, batch.observed, self.mape_cut)
            errors += torch.cat([sums, count_terms(batch.target, batch.observed, self.mape_cut)])
        squares, shares, seen, busy = errors.tolist()
        if not squares or not shares:  # nothing moves, or nothing counts for MAPE
            return 1.0
        return float((shares / busy) / (squares / seen))

    def teach(
        self, batch: Batch, shown: Bool[Tensor, " T"] | None = None
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the true value before it, in the values' units.

        With scheduled sampling the network's own takes the place of those that are not shown.
        """
        return self.teach_quantiles(batch, shown)[0]

    def teach_quantiles(
        self, batch: Batch, shown: Bool[Tensor, " T"] | None = None
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return the same with the network's quantiles, which stay scaled."""
        history, ahead = self._inputs(batch)
        truth = batch.next_values[..., :-1].to(history.signal.dtype)
        beside = () if shown is None else (shown,)
        forecast, quantiles = self.network.teach(history, ahead, truth, *beside)
        return self._scale_back(forecast), quantiles

    def shown(self, step: int) -> Bool[Tensor, " T"] | None:
        """Tell which true values a training step is shown; None: always all."""
        if self.sampling_decay is None:
            return None
        drawn = draw_teacher_forcing(
            self.network.K - 1, self.sampling_decay, self.config.seed, step
        )
        return torch.tensor(drawn, dtype=torch.bool).to(self.device)

    def roll_out(self, batch: Batch) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it, in the values' units."""
        return self._scale_back(self.network.roll_out(*self._inputs(batch)))

    def _inputs(self, batch: Batch) -> tuple[State, State]:
        """Return the history and what is known ahead, in the network's numbers."""
        dtype = self.dtype
        history = State(batch.signal.to(dtype), batch.auxiliary.to(dtype))
        return history, State(batch.next_local.to(dtype), batch.next_auxiliary.to(dtype))

    def _scale_back(self, forecast: Float[Tensor, "N B K"]) -> Float[Tensor, "N B K"]:
        mean, deviation = self._units
        return forecast * deviation + mean  # never below float32, whatever the network's numbers

    @cached_property
    def levels(self) -> Float[Tensor, " Q"]:
        """Return the levels of the network's quantiles, where it is."""
        return torch.tensor(self.network.levels, dtype=torch.float32).to(self.device)

    @cached_property
    def _units(self) -> tuple[Float[Tensor, "N 1 1"], Float[Tensor, "N 1 1"]]:
        mean, deviation = torch.from_numpy(np.stack([self.scale.mean, self.scale.deviation]))
        return mean.to(self.device)[:, None, None], deviation.to(self.device)[:, None, None]
