"""The order of a roll-out over opening hours: open steps first, so that closed ones are skipped.

A step at which all locations are closed is neither fed back nor forecast: an open step follows the
open one before it, as in a history, whose lags skip closed steps. A location that is closed while
others are open is fed its last value, as histories are filled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import pad

from forecaster.models.layers.neurons import State
from forecaster.models.network import Outputs


@dataclass(frozen=True, eq=False)
class OpenFirst:
    """The coming steps of each window: the open ones in their order, then the closed ones."""

    steps: Int64[Tensor, "B K"]

    @staticmethod
    def of(is_open: Bool[Tensor, "N B K"]) -> "OpenFirst":
        """The order of steps of which any location is open at the first ones."""
        return OpenFirst((~is_open.any(dim=0)).to(torch.uint8).argsort(dim=1, stable=True))

    def arrange(self, ahead: State) -> State:
        """The coming steps in this order."""
        slots, is_open = ahead.slots, ahead.open
        return State(
            _take(ahead.signal, self.steps),
            _take(ahead.auxiliary, self.steps),
            None if slots is None else slots.gather(1, self.steps),
            None if is_open is None else _take(is_open, self.steps),
        )

    def arrange_truth(self, truth: Float[Tensor, "N B T"]) -> Float[Tensor, "N B T"]:
        """The true values of all coming steps but the last, in this order.

        Without the last one: the value of the last open step is needed for closed ones only.
        """
        return _take(pad(truth, (0, 1)), self.steps)[..., :-1]

    def restore(self, outputs: Outputs) -> Outputs:
        """The outputs in order of time."""
        inverse = self.steps.argsort(dim=1)
        return Outputs(*(_take(part, inverse) for part in outputs))


def roll_out_open(
    ahead: State,
    truth: Float[Tensor, "N B T"] | None,
    roll_out: Callable[[State, Float[Tensor, "N B T"] | None], Outputs],
) -> Outputs:
    """The outputs of a roll-out over the open steps of each window: all without opening hours."""
    if ahead.open is None:
        return roll_out(ahead, truth)
    order = OpenFirst.of(ahead.open)
    arranged = None if truth is None else order.arrange_truth(truth)
    return order.restore(roll_out(order.arrange(ahead), arranged))


def feed_back(
    x: Float[Tensor, "N B"], before: Float[Tensor, "N B"], ahead: State, k: int
) -> Float[Tensor, "N B"]:
    """What follows a coming step: its values, or those before it where a location is closed."""
    return x if ahead.open is None else torch.where(ahead.open[..., k], x, before)


def _take(
    values: Float[Tensor, "*n B K"] | Bool[Tensor, "*n B K"], steps: Int64[Tensor, "B K"]
) -> Tensor:
    return values.gather(-1, steps.expand(values.shape))
