"""What training and estimators ask of a network, and which inputs none of them takes."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from forecaster.config import LagConfig
from forecaster.errors import ConfigError, DataError, Faults, count_of
from forecaster.models.neurons import NeuronLayout, State


class Network(nn.Module, ABC):
    """Forecasts x̂_{t+1…t+K} from L past steps and what is known of the coming ones, all scaled.

    `forward` is shown the true signals between them (x of t+1…t+K−1), as training does. The one
    base class of this package: networks differ in what they compute, not in what they are given.
    """

    window_numbers: int  # that one window takes while it is learned from, about

    def __init__(self, inputs: NeuronLayout, lags: LagConfig) -> None:
        super().__init__()
        self.inputs, self.L, self.K = inputs, lags.length, lags.horizon

    @property
    def levels(self) -> tuple[float, ...]:
        """Which quantiles there are beside the forecast: those of its head, if it has one."""
        head = getattr(self, "quantiles", None)
        return tuple(head.levels) if head is not None else ()

    def teach(
        self, history: State, ahead: State, truth: Tensor, *shown: Tensor
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `forward` does, and the quantiles of `levels`."""
        forecast = self(history, ahead, truth, *shown)
        return forecast, forecast[:, None][:, :0]

    @abstractmethod
    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it.

        Args:
            history: x with the covariates of each location, and a, of the L past steps.
            ahead: the covariates of each location, and a, of the K coming steps.
        """

    def spread_out(
        self, history: State, ahead: State
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `roll_out` does, and the quantiles of `levels`."""
        forecast = self.roll_out(history, ahead)
        return forecast, forecast[:, None][:, :0]

    def reach(self, step: int) -> int | None:
        """Return from how many edges of the graph values can reach the forecast of a step.

        None: from everywhere.
        """
        del step
        return None

    def refuse_misfits(self, history: State, ahead: State, truth: Tensor | None = None) -> None:
        """Raise one error that names both sides of everything that does not fit."""
        N, C, P = self.inputs.n_locations, self.inputs.per_location, self.inputs.auxiliary
        faults = Faults("the model does not fit its input")
        for name, state, channels, steps in (
            ("history", history, C, self.L),
            ("ahead", ahead, C - 1, self.K),
        ):
            found = *state.signal.shape[:2], len(state.auxiliary), state.signal.shape[3]
            needed = N, channels, P, steps
            if found != needed:
                faults.add(f"{name}: {_describe(found)}; needed: {_describe(needed)}")
        between = N, history.signal.shape[2], self.K - 1
        if truth is not None and truth.shape != between:
            faults.add(f"truth: {tuple(truth.shape)}; needed: {between}")
        faults.raise_any(ConfigError)


class CrossLocationModule(nn.Module):
    """A part of a network that sees every location at once; an explanation tells it apart."""


def refuse_non_finite(history: State, ahead: State) -> None:
    """Refuse NaN and infinity, naming where; looks at every value, so not for a training loop."""
    faults = Faults("the input of the model")
    for name, state in (("history", history), ("ahead", ahead)):
        for part, values in (("signal", state.signal), ("auxiliary", state.auxiliary)):
            wrong = (~values.isfinite()).nonzero()
            if len(wrong):
                place = ", ".join(map(str, wrong[0].tolist()))
                count = count_of(len(wrong), "value")
                faults.add(f"{name}.{part}: {count} not finite, the first at [{place}]")
    faults.raise_any(DataError)


def _describe(shape: tuple[int, ...]) -> str:
    N, C, P, steps = shape
    return f"{N} locations × {C} values, {P} auxiliary values, {count_of(steps, 'step')}"
