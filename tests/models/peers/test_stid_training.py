"""A training of STID against a loop written from its paper, in plain torch and doubles."""

from copy import deepcopy
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.clock.clock import Clock
from forecaster.estimators.networks.peers import STID
from forecaster.estimators.training_data import hide_test
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.training.together import train_together

N, T, L, K, E = 3, 311, 5, 2, 7  # locations, steps, past and coming steps, numbers of an embedding
TRAIN, VALIDATION = 211, 53  # steps
ETA, CUT, RATE, DECAY, CLIP, EPOCHS = 0.03, 10.0, 0.02, 0.1, 0.7, 11
RECIPE = Recipe.of(
    {
        "lags": {"recent": L, "seasons": [], "horizon": K},
        "stid": {"recent": L, "embedding": E, "n_layers": 2, "dropout": 0.0},
        "metrics": {"mape_cut": CUT},
        "training": {
            "eta": ETA,
            "learning_rate": RATE,
            "weight_decay": DECAY,
            "clip": CLIP,
            "batch": 1_000,  # all windows: their order does not matter
            "epochs": EPOCHS,
        },
    }
)


def make_values() -> np.ndarray:
    """Values around 12 with the hour and the day; the later ones within the range of training."""
    generator, hours = np.random.default_rng(5), np.arange(T)
    daily = 5 * np.sin(2 * np.pi * hours / 24) + 2 * (hours // 24 % 7 > 4)
    values = 12 + daily[:, None] * np.array([0.5, 1.0, 1.7]) + generator.normal(0, 1, (T, N))
    least, most = values[:TRAIN].min(axis=0), values[:TRAIN].max(axis=0)
    return np.clip(values, least, most).astype(np.float32)


class Windows(NamedTuple):
    """Past steps of value, hour and weekday; the slot of the origin; coming values."""

    past: Tensor  # [B N 3 L], scaled
    slot: Tensor  # [B]
    truth: Tensor  # [B K N]


class OwnTraining:
    """STID as its paper has it, trained by Eq. 7, AdamW and one cycle; nothing of `forecaster`."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = {name: w.double().requires_grad_() for name, w in weights.items()}
        values = make_values().astype(np.float64)
        self.mean, self.deviation = values[:TRAIN].mean(axis=0), values[:TRAIN].std(axis=0)
        self.values = values

    def cut(self, first: int, last: int) -> Windows:
        """The windows whose coming steps lie within first … last − 1."""
        past, slots, truth = [], [], []
        for t in range(max(first - 1, L - 1), last - K):
            steps = np.arange(t - L + 1, t + 1)
            scaled = (self.values[steps] - self.mean) / self.deviation
            hour, day = steps % 24 / 24, steps // 24 % 7 / 7
            told = [np.stack([scaled[:, n], hour, day]) for n in range(N)]
            past.append(np.stack(told))
            slots.append(t % 168)
            truth.append(self.values[t + 1 : t + 1 + K])
        tensors = (torch.tensor(np.array(part)) for part in (past, slots, truth))
        return Windows(*tensors)

    def forecast(self, windows: Windows) -> Tensor:
        """x̂ of each coming step: [B K N]."""
        w, by_location = self.weights, []
        for n in range(N):
            series = windows.past[:, n].flatten(1) @ w["history.weight"].T + w["history.bias"]
            place = w["place"][n].expand_as(series)
            hour = w["season.time"][windows.slot % 24]
            weekday = w["season.weekday"][windows.slot // 24]
            z = torch.cat([series, place, hour, weekday], dim=1)
            for layer in ("layers.0", "layers.1"):
                inner = z @ w[f"{layer}.inner.weight"].T + w[f"{layer}.inner.bias"]
                z = z + inner.clamp(min=0) @ w[f"{layer}.outer.weight"].T
                z = z + w[f"{layer}.outer.bias"]
            scaled = z @ w["output.weight"].T + w["output.bias"]
            by_location.append(scaled * self.deviation[n] + self.mean[n])
        return torch.stack(by_location, dim=2)

    def loss(self, windows: Windows) -> Tensor:
        """η · RMSE² + MAPE over targets of 10 and more (Eq. 7)."""
        error, counted = self.forecast(windows) - windows.truth, windows.truth >= CUT
        mape = (error[counted].abs() / windows.truth[counted]).mean()
        return ETA * error.square().mean() + mape

    def run(self) -> list[tuple[float, float, dict[str, np.ndarray]]]:
        """Train; of each epoch the losses of training and validation, and the weights."""
        train, validation = self.cut(0, TRAIN), self.cut(TRAIN, TRAIN + VALIDATION)
        parameters = list(self.weights.values())
        optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, RATE, total_steps=EPOCHS, cycle_momentum=False
        )
        epochs = []
        for _ in range(EPOCHS):
            optimiser.zero_grad()
            loss = self.loss(train)
            loss.backward()
            norm = sum(p.grad.square().sum() for p in parameters) ** 0.5  # type: ignore[union-attr]
            for parameter in parameters:
                parameter.grad *= min(CLIP / norm, 1.0)
            optimiser.step()
            cycle.step()
            weights = {name: w.detach().numpy().copy() for name, w in self.weights.items()}
            epochs.append((loss.item(), self.loss(validation).item(), weights))
        return epochs


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_a_training_is_that_of_a_loop_written_from_the_paper() -> None:
    panel = Panel(
        values=make_values(),
        start=np.datetime64("2021-03-01T00", "s"),  # a Monday
        clock=Clock("UTC"),
        kind="measurement",
        locations=Locations.of_ids(f"place {n}" for n in range(N)),
        covariates=Covariates((), np.empty((T, 0), dtype=np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, T, N), dtype=np.float32)),
    )
    stamps = [f"{time}Z" for time in panel.times]
    ends = [0, TRAIN, TRAIN + VALIDATION, T]
    splits = Splits(*([(stamps[a], stamps[b - 1])] for a, b in pairwise(ends)))
    data = hide_test(panel, splits, cut_windows(panel, splits, RECIPE.lags))
    fit = STID(RECIPE).begin_fit(data)
    begun = {
        name: weight
        for name, weight in deepcopy(fit.training.task.network.state_dict()).items()
        if not name.startswith("quantiles.")
    }
    own = OwnTraining(begun)
    assert len(own.cut(0, TRAIN).slot) == len(data.windows.train)
    assert len(own.cut(TRAIN, TRAIN + VALIDATION).slot) == len(data.windows.validation)
    epochs = own.run()

    (outcome,) = train_together([fit.training])
    validation = [record.validation_loss for record in outcome.records]
    assert validation == pytest.approx([epoch[1] for epoch in epochs], rel=2e-4)
    assert [record.loss for record in outcome.records] == pytest.approx(
        [epoch[0] for epoch in epochs], rel=2e-4
    )
    assert epochs[-1][0] < 0.5 * epochs[0][0]  # it learned
    best = min(epochs, key=lambda epoch: epoch[1])[2]
    for name, expected in best.items():
        np.testing.assert_allclose(outcome.weights[name], expected, atol=2e-4, err_msg=name)
