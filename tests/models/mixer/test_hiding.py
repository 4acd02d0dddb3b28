"""Inputs that are hidden in training."""

import torch

from forecaster.models.mixer import hiding
from forecaster.models.mixer.hiding import HiddenInputs, HiddenMasks

N, B, L, RECENT = 211, 101, 37, 6


def draw(seed: int = 0) -> HiddenMasks:
    torch.manual_seed(seed)
    hidden = HiddenInputs(RECENT)(torch.zeros(N, B, L))
    assert hidden is not None
    return hidden


def test_nothing_is_hidden_outside_of_training() -> None:
    assert HiddenInputs(RECENT).eval()(torch.zeros(3, 2, L)) is None


def test_a_seed_repeats_what_is_hidden() -> None:
    first, second, third = draw(1), draw(1), draw(2)
    assert torch.equal(first.lags, second.lags)
    assert torch.equal(first.places, second.places)
    assert not torch.equal(first.lags, third.lags)


def test_about_as_many_places_are_hidden_as_said() -> None:
    share = draw().places.float().mean().item()
    assert abs(share - hiding.PLACES) < 0.01


def test_hidden_steps_are_the_oldest_ones_and_one_gap() -> None:
    lags = draw().lags.int()
    edges = (lags.diff(dim=2, prepend=torch.zeros(N, B, 1, dtype=torch.int32)) > 0).sum(dim=2)
    assert edges.max() == 2  # the beginning, and a gap after it
    single = ((lags.sum(dim=2) == 1) & (edges == 1)).any()
    whole = (lags.sum(dim=2) >= L - 1).any()
    assert single
    assert whole


def test_windows_at_the_beginning_of_a_panel_keep_their_recent_steps() -> None:
    lags = draw().lags
    everywhere = lags.all(dim=0)  # of all locations: only a beginning can do that
    assert everywhere.any()
    assert not everywhere[:, -RECENT:].any()
    first_missing = everywhere.int().diff(dim=1) <= 0  # never again after the first seen
    assert first_missing.all()


def test_most_steps_are_seen() -> None:
    assert draw().lags.float().mean() < 0.2
