from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from forecaster.config import LagConfig
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.peers.inputs import (
    ComingEmbedding,
    PastInputs,
    SeasonEmbedding,
    split_season,
)
from tests.models.peers.conftest import INPUTS, NetworkInputs, with_missing


def past(kind: str, *, all_of_a: bool = False) -> PastInputs:
    made = PastInputs(kind, INPUTS, 4, weekday=True, all_of_a=all_of_a)  # type: ignore[arg-type]
    return made.double().eval()


def test_with_recent_steps_a_location_is_told_its_values_and_the_time(
    network_inputs: NetworkInputs,
) -> None:
    history, _ = network_inputs
    inputs, told = past("recent"), past("recent")(history)
    assert told.shape == (7, inputs.channels, 5, 13) == (7, 5, 5, 13)
    assert torch.equal(told[:, :3], history.signal)
    assert history.slots is not None
    for n in range(7):
        torch.testing.assert_close(told[n, 3], (history.slots % 24) / 24, check_dtype=False)
        torch.testing.assert_close(told[n, 4], (history.slots // 24) / 7, check_dtype=False)


@pytest.mark.parametrize("all_of_a", [False, True])
def test_with_lags_it_is_told_which_values_are_missing(
    network_inputs: NetworkInputs, all_of_a: bool
) -> None:
    history, _ = with_missing(network_inputs)
    inputs = past("lags", all_of_a=all_of_a)
    told = inputs(history)
    assert told.shape[1] == inputs.channels == 3 + 34 * all_of_a + 1
    missing = history.signal[:, 0].isnan()
    assert torch.equal(told[:, -1], missing.double())
    for n, b, s in missing.nonzero().tolist():
        assert not told[n, :-1, b, s].any()  # nothing else is told of it
    present = ~missing
    for channel in range(3):
        assert torch.equal(told[:, channel][present], history.signal[:, channel][present])
    if all_of_a:
        expected = history.auxiliary.expand(7, -1, -1, -1).transpose(0, 1)[:, present]
        assert torch.equal(told[:, 3:37].transpose(0, 1)[:, present], expected)


def test_training_hides_values_and_use_does_not(network_inputs: NetworkInputs) -> None:
    history, _ = network_inputs
    inputs = past("lags")
    assert not inputs(history)[:, -1].any()
    torch.manual_seed(3)
    told = inputs.train()(history)
    hidden = told[:, -1] > 0
    assert 0 < hidden.sum() < hidden.numel()
    assert not told[:, 0][hidden].any()
    assert past("recent").train()(history).equal(past("recent")(history))


def test_what_comes_is_embedded_step_by_step_with_the_last_one(
    network_inputs: NetworkInputs, lags: LagConfig, generator: Generator
) -> None:
    history, ahead = network_inputs
    coming = ComingEmbedding(INPUTS, lags, 5, generator).double()
    embedding = coming(history, ahead)
    assert coming.of_location is not None
    for n, b in ((0, 0), (3, 2), (6, 4)):
        of_all = [*history.auxiliary[:, b, -1:].T, *ahead.auxiliary[:, b].T]
        own = [*history.signal[n, 1:, b, -1:].T, *ahead.signal[n, :, b].T]
        expected = coming.of_all.bias + coming.of_location.bias
        expected = expected + coming.of_all.weight @ torch.stack(of_all, dim=1).flatten()
        expected = expected + coming.of_location.weight @ torch.stack(own, dim=1).flatten()
        torch.testing.assert_close(embedding[n, b], expected)


def test_without_local_covariates_all_locations_are_told_the_same(
    lags: LagConfig, generator: Generator, draw: Callable[..., Tensor]
) -> None:
    coming = ComingEmbedding(NeuronLayout(7, 1, 34), lags, 5, generator).double()
    history, ahead = (State(draw(7, c, 5, t), draw(34, 5, t)) for c, t in ((1, 13), (0, 3)))
    embedding = coming(history, ahead)
    assert coming.of_location is None
    assert torch.equal(embedding, embedding[:1].expand(7, -1, -1))


@pytest.mark.parametrize(
    ("slots", "rows"),
    [(168, (24, 7)), (2016, (288, 7)), (7, (1, 7)), (53, (53, 1)), (12, (12, 1))],
)
def test_seasons_have_times_and_weekdays(
    slots: int, rows: tuple[int, int], generator: Generator
) -> None:
    assert split_season(slots) == rows
    season = SeasonEmbedding(slots, 3, generator)
    assert (len(season.time), len(season.weekday)) == rows
    every = torch.arange(slots)
    expected = [torch.cat([season.time[s % rows[0]], season.weekday[s // rows[0]]]) for s in every]
    assert torch.equal(season(every), torch.stack(expected))


def test_only_the_rows_of_the_season_that_occur_learn(generator: Generator) -> None:
    season = SeasonEmbedding(168, 3, generator)
    season(torch.tensor([[25, 49], [49, 25]])).sum().backward()  # Tuesday and Wednesday at 1:00
    assert season.time.grad is not None
    assert season.weekday.grad is not None
    assert season.time.grad.any(dim=1).nonzero().flatten().tolist() == [1]
    assert season.weekday.grad.any(dim=1).nonzero().flatten().tolist() == [1, 2]
