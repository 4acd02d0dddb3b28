import pytest
import torch

from forecaster.config import LagConfig
from forecaster.errors import DataError
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Network, Outputs, refuse_non_finite

NetworkInputs = tuple[State, State]


def test_a_network_without_forward_is_abstract(inputs: NeuronLayout, lags: LagConfig) -> None:
    with pytest.raises(TypeError, match="forward"):
        Network(inputs, lags)  # type: ignore[abstract]


def test_values_that_are_not_finite_are_refused_with_their_index(
    network_inputs: NetworkInputs,
) -> None:
    history, ahead = (state.each(torch.clone) for state in network_inputs)
    refuse_non_finite(history, ahead)
    history.signal[3, 2, 4, 12] = torch.nan
    history.signal[5, 0, 0, 1] = torch.inf
    ahead.auxiliary[10, 1, 2] = -torch.inf
    with pytest.raises(DataError) as caught:
        refuse_non_finite(history, ahead)
    assert str(caught.value) == (
        "the input of the model: 2 faults\n"
        "  history.signal: 2 values not finite, the first at [3, 2, 4, 12]\n"
        "  ahead.auxiliary: 1 value not finite, the first at [10, 1, 2]"
    )


def test_the_default_reach_is_unlimited(inputs: NeuronLayout, lags: LagConfig) -> None:
    class Silent(Network):
        def forward(self, *_: object, **__: object) -> Outputs:
            raise NotImplementedError

    assert Silent(inputs, lags).reach(1) is None
