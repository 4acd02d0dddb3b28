import torch

from forecaster.config import LagConfig
from forecaster.models.average import AverageNetwork
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Network, Outputs, no_quantiles

LAGS = LagConfig(recent=3, seasons=(), horizon=2)
LAYOUT = NeuronLayout(5, 1, 7)


class Constant(Network):
    """Forecasts a number times the sum of the past."""

    def __init__(self, number: float, edges: int | None, *, masks: bool = False) -> None:
        super().__init__(LAYOUT, LAGS)
        self.number, self.edges, self.masks, self.window_numbers = number, edges, masks, 1

    def forward(self, history: State, ahead: State, *_: object, **__: object) -> Outputs:
        del ahead
        past = history.signal[:, 0].nan_to_num(100.0).sum(dim=2, keepdim=True)
        forecast = self.number * past.expand(-1, -1, 2)
        return Outputs(forecast, no_quantiles(forecast), forecast)

    def reach(self, step: int) -> int | None:
        del step
        return self.edges


def windows() -> tuple[State, State]:
    history = State(torch.ones(5, 1, 11, 3), torch.zeros(7, 11, 3))
    return history, State(torch.zeros(5, 0, 11, 2), torch.zeros(7, 11, 2))


def test_forecasts_are_weighted() -> None:
    network = AverageNetwork([Constant(1.0, 1), Constant(5.0, 2)], [0.75, 0.25], LAGS)
    assert torch.equal(network.roll_out(*windows()), torch.full((5, 11, 2), 6.0))
    assert network.reach(1) == 2
    assert (
        AverageNetwork([Constant(1.0, None), Constant(5.0, 2)], [1.0, 0.0], LAGS).reach(1) is None
    )


def test_missing_values_reach_only_networks_that_mask_them() -> None:
    history, ahead = windows()
    history.signal[0, 0, 0, 0] = torch.nan
    masking = AverageNetwork([Constant(1.0, 1, masks=True), Constant(1.0, 1)], [0.5, 0.5], LAGS)
    assert masking.masks
    assert masking.roll_out(history, ahead)[0, 0].tolist() == [52.0, 52.0]  # (102 + 2) / 2
