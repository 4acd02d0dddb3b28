"""What each location is told of the auxiliary information: all of it, or the time of a step."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.choices import InputKind
from forecaster.clock.clock import CALENDAR_COLUMNS, WEEKDAYS

DAY_HOURS = 24


class SharedInputs(nn.Module):
    """V a: with "lags" all of a, with "recent" the time of day as a share of the day.

    With `weekday`, the weekday as a share of the week follows it.
    """

    view: Float[Tensor, "S A"]

    def __init__(self, kind: InputKind, auxiliary: int, *, weekday: bool = False) -> None:
        super().__init__()
        self.kind = kind
        view = select_shared_inputs(kind, auxiliary, weekday=weekday)
        self.register_buffer("view", view, persistent=False)

    @property
    def count(self) -> int:
        """The number of inputs of a location: S."""
        return len(self.view)

    def forward(self, auxiliary: Float[Tensor, "A B T"]) -> Float[Tensor, "S B T"]:
        inputs: Tensor = torch.tensordot(self.view, auxiliary, dims=1)
        if self.kind == "lags":
            return inputs
        return torch.cat([inputs[:1] + rest_of_day(auxiliary), inputs[1:]])


def select_shared_inputs(
    kind: InputKind, auxiliary: int, *, weekday: bool = False
) -> Float[Tensor, "S A"]:
    """The matrix that selects the inputs of each location from a: all of a, or the time."""
    if kind == "lags":
        return torch.eye(auxiliary)
    view = torch.zeros(1 + weekday, auxiliary)
    first = auxiliary - len(CALENDAR_COLUMNS)
    hour = first + CALENDAR_COLUMNS.index("hour_00")
    view[0, hour : hour + DAY_HOURS] = torch.arange(DAY_HOURS) / DAY_HOURS  # as a share of a day
    if weekday:
        days = len(WEEKDAYS)
        view[1, first : first + days] = torch.arange(days) / days
    return view


def rest_of_day(auxiliary: Float[Tensor, "A B T"]) -> Float[Tensor, "B T"]:
    """What is added to the time of day after 23:00, whose minutes are a share of hour_00."""
    midnight, last = (
        auxiliary[CALENDAR_COLUMNS.index(name) - len(CALENDAR_COLUMNS)]
        for name in ("hour_00", "hour_23")
    )
    return torch.where(last > 0, midnight, 0.0)
