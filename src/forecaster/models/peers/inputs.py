"""The inputs that the networks of others share: past steps, coming covariates, time embeddings."""

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor, nn

from forecaster.choices import InputKind
from forecaster.clock.clock import WEEKDAYS
from forecaster.config import LagConfig
from forecaster.models.layers.diffusion import draw_glorot
from forecaster.models.layers.linear import LocationLinear
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.hiding import HiddenInputs
from forecaster.models.mixer.shared_inputs import SharedInputs


class PastInputs(nn.Module):
    """The inputs of each location in each past step.

    With "recent": its value and local covariates, the time of day and, if asked for, the weekday.
    With "lags": its value and local covariates, a if asked for, and whether the value is missing;
    then all others are 0. Training hides values at random, as that of `best` does.
    """

    def __init__(
        self, kind: InputKind, inputs: NeuronLayout, recent: int, *, weekday: bool, all_of_a: bool
    ) -> None:
        """Choose the inputs.

        Args:
            kind: which steps there are.
            inputs: the neurons of a step.
            recent: the number of recent steps, with "lags".
            weekday: whether the weekday follows the time of day, with "recent".
            all_of_a: whether a of each step is an input of each location, with "lags".
        """
        super().__init__()
        self.hiding = HiddenInputs(recent) if kind == "lags" else None
        shared = SharedInputs(kind, inputs.auxiliary, weekday=weekday)
        self.shared = shared if kind == "recent" or all_of_a else None
        count = 0 if self.shared is None else shared.count
        self.channels = inputs.per_location + count + (kind == "lags")

    def forward(self, history: State) -> Float[Tensor, "N C B L"]:
        inputs = history.signal
        if self.shared is not None:
            shared: Tensor = self.shared(history.auxiliary)
            inputs = torch.cat([inputs, shared.expand(len(inputs), -1, -1, -1)], dim=1)
        if self.hiding is None:
            return inputs
        hidden, observed = self.hiding(inputs[:, 0]), torch.isfinite(inputs[:, :1])
        if hidden is not None:
            observed = observed & ~hidden.lags[:, None]
        return torch.cat([torch.where(observed, inputs, 0.0), (~observed).to(inputs.dtype)], dim=1)


class ComingEmbedding(nn.Module):
    """W c_i + V a + b: what is known of the last and the coming steps, of a location and of all.

    The authors have no such inputs; with "lags" their networks are told what all others are.
    """

    def __init__(
        self, inputs: NeuronLayout, lags: LagConfig, width: int, generator: Generator
    ) -> None:
        super().__init__()
        steps, local = lags.horizon + 1, inputs.per_location - 1
        self.of_all = LocationLinear(inputs.auxiliary * steps, width, generator)
        self.of_location = LocationLinear(local * steps, width, generator) if local else None

    def forward(self, history: State, ahead: State) -> Float[Tensor, "N B E"]:
        auxiliary = torch.cat([history.auxiliary[..., -1:], ahead.auxiliary], dim=2)
        of_all: Tensor = self.of_all(auxiliary.transpose(0, 1).flatten(1))
        if self.of_location is None:
            return of_all.expand(len(history.signal), -1, -1)
        local = torch.cat([history.signal[:, 1:, :, -1:], ahead.signal], dim=3)
        of_location: Tensor = self.of_location(local.transpose(1, 2).flatten(2))
        return of_all + of_location


class SeasonEmbedding(nn.Module):
    """d and w: rows of two tables, of the time of day and of the weekday of a step.

    Where steps are too long for weekdays, the first table has a row for each step of the season,
    and the second one row.
    """

    def __init__(self, slots: int, width: int, generator: Generator) -> None:
        """Draw the tables.

        Args:
            slots: the number of steps of the season.
            width: numbers of each of the two embeddings.
            generator: for drawing weights.
        """
        super().__init__()
        self.times, days = split_season(slots)
        self.time = draw_glorot((self.times, width), generator)
        self.weekday = draw_glorot((days, width), generator)

    def forward(self, slots: Int64[Tensor, "*B"]) -> Float[Tensor, "*B E"]:
        rows = (slots % self.times, self.time), (slots // self.times, self.weekday)
        return torch.cat([_rows(table, row) for row, table in rows], dim=-1)


def split_season(slots: int) -> tuple[int, int]:
    """The number of times of a day and of weekdays in the steps of a season."""
    days = len(WEEKDAYS)
    return (slots, 1) if slots % days else (slots // days, days)


def _rows(table: Float[Tensor, "R E"], row: Int64[Tensor, "*B"]) -> Float[Tensor, "*B E"]:
    """Rows of a table by a product: a lookup would sum its gradient in no fixed order."""
    one_hot = row[..., None] == torch.arange(len(table), device=row.device)
    return one_hot.to(table.dtype) @ table
