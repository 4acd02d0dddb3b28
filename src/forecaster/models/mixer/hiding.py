"""Hidden inputs: in training some past steps and locations are hidden, as they may be in use."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecaster.models.layers.randomness import draw_uniform

# Shares of windows, or of locations in windows, in training, compared on
# validation (docs/results.md).
BEGINNINGS = 0.1  # windows at the beginning of a panel: all older steps are hidden
PLACES = 0.1  # locations that are new: unknown, and half of them young
YOUNG = 0.05  # known locations without their older steps
GAPS = 0.15  # locations with a gap, of one step up to all of them
NEW_AND_YOUNG = 0.5


class HiddenMasks(NamedTuple):
    """The past steps and the locations that are hidden in a batch."""

    lags: Bool[Tensor, "N B L"]
    places: Bool[Tensor, "N B"]


class HiddenInputs(nn.Module):
    """Draws what is hidden, in training only; its random numbers are seeded as those of dropout.

    Past steps are ordered by age, so that the first ones are the oldest: without them a panel
    begins late. A gap is a run of them: single steps, days, weeks or the whole window.
    """

    def __init__(self, recent: int) -> None:
        """Draw nothing yet.

        Args:
            recent: the number of recent steps, which the beginning of a panel does not hide.
        """
        super().__init__()
        self.recent = recent

    def forward(self, signal: Float[Tensor, "N B L"]) -> HiddenMasks | None:
        """What is hidden of a batch; None outside of training."""
        if not self.training:
            return None
        N, B, L = signal.shape
        step = torch.arange(L, device=signal.device)
        similar = L - self.recent
        window = draw_uniform(2, 1, B, device=signal.device)
        location = draw_uniform(6, N, B, device=signal.device)
        begins = torch.where(window[0] < BEGINNINGS, window[1] * (similar + 1), 0.0)
        places = location[0] < PLACES
        young = location[1] < torch.where(places, NEW_AND_YOUNG, YOUNG)
        begins = torch.maximum(begins, torch.where(young, location[2] * (similar + 1), 0.0))
        length = torch.where(location[3] < GAPS, float(L) ** location[4], 0.0)  # mostly short
        first = location[5] * (L - length).clamp(min=0.0)
        hidden = step < begins.floor()[..., None]
        hidden |= (step >= first.floor()[..., None]) & (step < (first + length).floor()[..., None])
        return HiddenMasks(hidden, places)
