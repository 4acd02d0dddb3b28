"""Weights of a trained network that go on in a network of other locations or edges.

Weights that all locations share are copied as they are. Of those that belong to a location or an
edge, the ones of locations and edges that stay are copied, and those of lost ones go. What a new
location tells others begins at zero, so that these are forecast as before; an edge into a new
location begins with the mean of all edges. All else of a new location is as drawn.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from forecaster.errors import ArtifactError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.encoder_decoder import AddNorm
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.mixer.linear_forecast import LinearForecast
from forecaster.models.mixer.mixer import CityFactors, Mixer
from forecaster.models.network import Network
from forecaster.models.peers.graph_wavenet import LearnedGraph
from forecaster.models.peers.staeformer import STAEformerNetwork
from forecaster.models.peers.stid import STIDNetwork

# The axis along which a parameter has an entry for each location.
LOCATION_AXES: dict[type[nn.Module], dict[str, int]] = {
    Mixer: {"place": 0},
    CityFactors: {"weight": 1},
    LinearForecast: {"loadings": 0},
    STIDNetwork: {"place": 0},
    STAEformerNetwork: {"adaptive": 1},
    LearnedGraph: {"target": 0, "source": 1},
}
EDGE_LAYERS = (SparseLinear, LinearForecast)
SEEN_BY_OTHERS = {(CityFactors, "weight"), (LearnedGraph, "source")}


@dataclass(frozen=True, eq=False)
class Kept:
    """Entries of an axis that stay: their numbers before and after, in the same order."""

    # Of one length, unless an axis has another size in the two networks.

    before: Int64[np.ndarray, " n"]
    after: Int64[np.ndarray, " m"]


def carry_weights(network: Network, trained: Network, kept: Kept) -> None:
    """Copy the weights of a trained network into a new one, as far as locations stay.

    Args:
        network: with weights as drawn; changed in place.
        trained: of the same kind and settings.
        kept: the locations that both have.
    """
    modules, before = dict(network.named_modules()), dict(trained.named_modules())
    old_state = trained.state_dict()
    for path, new in network.state_dict().items():
        module_path, _, name = path.rpartition(".")
        if path not in old_state:
            raise ArtifactError(f"the run has no weights {path}; train a new run")
        old = old_state[path]
        axes = _axes(modules[module_path], before[module_path], name, kept)
        if any(len(axis.before) != len(axis.after) for axis in axes):
            shapes = f"{tuple(old.shape)} in the run, {tuple(new.shape)} needed"
            raise ArtifactError(f"weights {path}: {shapes}; train a new run")
        _begin_at_zero(modules[module_path], name, new, axes)
        new[_grid([axis.after for axis in axes])] = old[_grid([axis.before for axis in axes])]
    for path, module in modules.items():
        _begin_edges(module, before[path], kept)


def _axes(module: nn.Module, trained: nn.Module, name: str, kept: Kept) -> list[Kept]:
    """What stays along each axis of a parameter; of most of them all."""
    sizes = getattr(trained, name).shape, getattr(module, name).shape
    axes = [Kept(np.arange(old), np.arange(new)) for old, new in zip(*sizes, strict=True)]
    if name in LOCATION_AXES.get(type(module), {}):
        axes[LOCATION_AXES[type(module)][name]] = kept
    elif isinstance(module, EDGE_LAYERS) and isinstance(trained, EDGE_LAYERS):
        if name == _edge_weights(module):
            axes[0] = _kept_edges(trained.pattern, module.pattern, kept)
        elif isinstance(module, SparseLinear) and isinstance(trained, SparseLinear):
            axes[0] = (
                axes[0] if name != "bias" else _kept_neurons(trained.outputs, module.outputs, kept)
            )
    elif isinstance(module, AddNorm) and isinstance(trained, AddNorm):
        axes[0] = _kept_neurons(trained.layout, module.layout, kept)
    elif isinstance(module, DenseLinear) and isinstance(trained, DenseLinear):
        axes[0] = _kept_neurons(trained.outputs, module.outputs, kept)
        if name == "weight":
            axes[1] = _kept_neurons(trained.inputs, module.inputs, kept)
    return axes


def _edge_weights(module: nn.Module) -> str:
    """The name of the parameter that has an entry for each edge; empty: none."""
    if isinstance(module, SparseLinear):
        return "weight"
    return "edges" if isinstance(module, LinearForecast) else ""


def _kept_neurons(before: NeuronLayout, after: NeuronLayout, kept: Kept) -> Kept:
    """The neurons of locations that stay, and the auxiliary ones."""
    numbers = []
    for layout, locations in ((before, kept.before), (after, kept.after)):
        own = locations[:, None] * layout.per_location + np.arange(layout.per_location)
        auxiliary = layout.signal + np.arange(layout.auxiliary)
        numbers.append(np.concatenate([own.reshape(-1), auxiliary]))
    return Kept(*numbers)


def _kept_edges(before: BlockPattern, after: BlockPattern, kept: Kept) -> Kept:
    """The edges between locations that stay, as far as both graphs have them."""
    number = np.full(before.n_locations, -1)
    number[kept.before] = kept.after
    source, target = number[before.source.numpy()], number[before.target.numpy()]
    codes = np.where((source < 0) | (target < 0), -1, target * after.n_locations + source)
    present = after.target.numpy() * after.n_locations + after.source.numpy()
    _, old, new = np.intersect1d(codes, present, return_indices=True)
    return Kept(old, new)


def _begin_at_zero(module: nn.Module, name: str, new: Tensor, axes: list[Kept]) -> None:
    """Set to zero what others would see of new locations."""
    if (type(module), name) in SEEN_BY_OTHERS or name == _edge_weights(module):
        new.zero_()
    if isinstance(module, DenseLinear) and name == "weight":
        added = np.setdiff1d(np.arange(new.shape[1]), axes[1].after)
        new[:, torch.from_numpy(added)] = 0.0


def _begin_edges(module: nn.Module, trained: nn.Module, kept: Kept) -> None:
    """Let the edges into new locations begin with the means of the trained ones."""
    if not isinstance(module, EDGE_LAYERS) or not isinstance(trained, EDGE_LAYERS):
        return
    name = _edge_weights(module)
    weights, old = getattr(module, name).data, getattr(trained, name).data
    added = torch.from_numpy(~np.isin(module.pattern.target.numpy(), kept.after))
    own, old_own = (
        pattern.source == pattern.target for pattern in (module.pattern, trained.pattern)
    )
    for rows, old_rows in ((added & own, old_own), (added & ~own, ~old_own)):
        if rows.any() and old_rows.any():
            weights[rows] = old[old_rows].mean(dim=0)


def _grid(numbers: list[Int64[np.ndarray, " n"]]) -> tuple[Tensor, ...]:
    """An index of all combinations of numbers along each axis."""
    return tuple(torch.from_numpy(part) for part in np.ix_(*numbers))
