"""The interface of all networks, and the checks of their inputs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from forecaster.config import LagConfig
from forecaster.errors import ConfigError, DataError, Faults, count_of
from forecaster.kernels.sample import LocationSample
from forecaster.models.layers.neurons import NeuronLayout, State


class Outputs(NamedTuple):
    """The forecasts of a network for the coming steps, all scaled."""

    forecast: Float[Tensor, "N B K"]  # the mean, if there is an output for relative error
    quantiles: Float[Tensor, "N Q b K"]  # at `Network.levels`; in training, of b ≤ B windows
    relative: Float[Tensor, "N B K"]  # the lowest relative error; else the forecast itself


@dataclass(frozen=True)
class Heads:
    """The outputs of a network beside its forecast."""

    levels: Sequence[float] = ()  # of its quantiles; empty: it has none
    relative: bool = False  # whether relative error has an output of its own


NO_HEADS = Heads()
LONG_HORIZON = 12  # steps beyond which the cost of a roll-out is said
SHORT_HORIZON = 3  # the paper's, with which the cost of longer ones is compared


class Network(nn.Module, ABC):
    """Forecasts x̂_{t+1…t+K} from L past steps and the covariates of the coming ones, all scaled.

    `forward` does teacher forcing if it is given `truth`, and a roll-out otherwise. All networks
    take the same inputs.
    """

    window_numbers: int  # approximate count of numbers in memory per window of a training step
    has_relative = False  # whether relative error has an output of its own
    is_positive = False  # whether forecasts are counts above zero, by a likelihood of counts
    slots: int | None = None  # steps of the season that it knows; None: it needs none
    masks = False  # whether missing values are masked inputs (NaN); otherwise they are filled
    samples = False  # whether it learns from samples of locations, which share its weights

    def __init__(self, inputs: NeuronLayout, lags: LagConfig) -> None:
        super().__init__()
        self.inputs, self.L, self.K = inputs, lags.length, lags.horizon

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantile levels of the network's head; empty without one."""
        head = getattr(self, "quantiles", None)
        return tuple(head.levels) if head is not None else ()

    @abstractmethod
    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        """Return x̂_{t+1…t+K}, its quantiles at `levels`, and the output for relative error.

        Args:
            history: x with the covariates of each location, and a, of the L past steps.
            ahead: the covariates of each location, and a, of the K coming steps.
            truth: x of the steps t+1…t+K−1, for teacher forcing: each step starts from the true
                values before it. None rolls out: each starts from the forecasts before it.
            forced: which of the true values are used (scheduled sampling); None: all of them.
            with_quantiles: False skips the quantile head: Q = 0.
        """

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K} without quantiles, each from the forecasts before it."""
        outputs: Outputs = self(history, ahead, with_quantiles=False)
        return outputs.forecast

    def reach(self, step: int) -> int | None:
        """The number of graph edges from which values can reach the forecast of a step.

        None: from every location.
        """
        del step
        return None

    def sample(self, targets: Int64[np.ndarray, " n"]) -> LocationSample:
        """Some locations to forecast, with those that they see: by default no others.

        Args:
            targets: their numbers, ascending.
        """
        return LocationSample.of(targets, self.inputs.n_locations)

    def horizon_cost(self) -> str:
        """What a long horizon costs, in words; empty: all steps are forecast at once."""
        return ""

    def check_sizes(self, history: State, ahead: State, truth: Tensor | None = None) -> None:
        """Raise one error with the actual and the needed size of every input that does not fit."""
        N, C, P = self.inputs.n_locations, self.inputs.per_location, self.inputs.auxiliary
        sample, faults = history.sample, Faults("the model does not fit its input")
        seen, N = (N, N) if sample is None else (len(sample.locations), len(sample.rows))
        for name, state, count, channels, steps in (
            ("history", history, seen, C, self.L),
            ("ahead", ahead, N, C - 1, self.K),
        ):
            shape = *state.signal.shape[:2], len(state.auxiliary), state.signal.shape[3]
            needed = count, channels, P, steps
            if shape != needed:
                faults.add(f"{name}: {_describe(shape)}; needed: {_describe(needed)}")
        between = N, history.signal.shape[2], self.K - 1
        if truth is not None and truth.shape != between:
            faults.add(f"truth: {tuple(truth.shape)}; needed: {between}")
        faults.raise_any(ConfigError)


class CrossLocationModule(nn.Module):
    """A part of a network that reads all locations at once; explanations freeze it."""


def refuse_non_finite(history: State, ahead: State, *, masks: bool = False) -> None:
    """Raise an error that locates NaN and infinity; too slow for a training loop.

    Args:
        history: the past steps.
        ahead: the coming steps.
        masks: whether values of the past may be NaN, being missing.
    """
    faults = Faults("the input of the model")
    for name, state in (("history", history), ("ahead", ahead)):
        for part, values in (("signal", state.signal), ("auxiliary", state.auxiliary)):
            wrong_values = ~values.isfinite()
            if masks and state is history and part == "signal":
                wrong_values[:, 0] = values[:, 0].isinf()
            wrong = wrong_values.nonzero()
            if len(wrong):
                index = ", ".join(map(str, wrong[0].tolist()))
                count = count_of(len(wrong), "value")
                faults.add(f"{name}.{part}: {count} not finite, the first at [{index}]")
    faults.raise_any(DataError)


def _describe(shape: tuple[int, ...]) -> str:
    N, C, P, steps = shape
    return f"{N} locations × {C} values, {P} auxiliary values, {count_of(steps, 'step')}"


def no_quantiles(forecast: Float[Tensor, "N B K"]) -> Float[Tensor, "N 0 B K"]:
    """The quantiles of a network without a head."""
    return forecast[:, None][:, :0]
