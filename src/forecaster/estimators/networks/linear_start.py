"""The linear part of `best` as it begins: fitted to the training steps by least squares."""

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from forecaster.estimators.training_data import TrainingData
from forecaster.graph.lagged.covariances import find_factors, sum_products
from forecaster.graph.lagged.deviations import take_deviations
from forecaster.graph.lagged.linear import fit_linear
from forecaster.models.mixer.mixer import Mixer
from forecaster.windows.scaling import fit_values


def start_linear(network: Mixer, data: TrainingData) -> None:
    """Set the weights of the linear part, and those of the factors that it uses.

    They are fitted to deviations from the seasonal profile alone. The network also takes off the
    level of each window and bounds what others see; training has to make up for these.
    """
    part = network.linear
    if part is None:
        return
    sample = take_deviations(data.panel, data.train)
    delays = part.recent + part.ahead - 1
    sums = sum_products(sample, sample.whole_runs, delays)
    ends = part.pattern.source.numpy(), part.pattern.target.numpy()
    factors = find_factors(sums, len(network.city.weight))
    fitted = fit_linear(sums, factors, ends, part.recent)
    # From deviations of variance 1 to those of the network.
    unit = sample.scale / fit_values(data.panel, data.train).deviation
    inverse = np.divide(1, unit, out=np.zeros_like(unit), where=unit > 0)
    edges = fitted.edges * (unit[ends[1]] * inverse[ends[0]])[:, None, None]
    loadings = np.zeros((len(unit), part.ahead, len(network.city.weight), part.recent))
    loadings[:, :, : len(factors)] = fitted.loadings * unit[:, None, None, None]
    weights = network.city.weight.detach().numpy().copy()  # further factors begin as drawn
    weights[: len(factors)] = fitted.factors * inverse
    with torch.no_grad():  # the network has the newest step last
        part.edges.copy_(_tensor(edges[..., ::-1]))
        part.loadings.copy_(_tensor(loadings[..., ::-1]).view_as(part.loadings))
        network.city.weight.copy_(_tensor(weights))


def _tensor(array: Float[np.ndarray, "*shape"]) -> Float32[Tensor, "*shape"]:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
