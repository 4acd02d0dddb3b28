"""Linear layers: pruned by the dependency graph (section 2.3), and dense."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor, nn
from torch.nn.functional import linear

from forecaster.errors import ArtifactError, ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product, block_products
from forecaster.models.layers.neurons import NeuronLayout, State


class SparseLinear(nn.Module):
    """y_i = Σ_{j ∈ N(i) ∪ {i}} W_ij x_j + b_i, and the auxiliary neurons among themselves.

    Connections that the graph lacks, and those between locations and auxiliary neurons, are not
    masked: they have no weight at all.
    """

    def __init__(
        self,
        inputs: NeuronLayout,
        outputs: NeuronLayout,
        pattern: BlockPattern,
        generator: Generator,
        *,
        bias: bool = True,
        relu: bool = False,
    ) -> None:
        super().__init__()
        N, E = pattern.n_locations, pattern.n_edges
        if not inputs.n_locations == outputs.n_locations == N:
            sizes = f"{inputs.n_locations} locations in and {outputs.n_locations} out"
            raise ArtifactError(f"neurons of {sizes}, a graph of {N}; use the graph of the panel")
        self.pattern, self.outputs, self.relu = pattern, outputs, relu
        shape = E, outputs.per_location, inputs.per_location
        in_degree = torch.bincount(pattern.target)  # edges into each location, self included
        fan_in = in_degree[pattern.target] * inputs.per_location
        self.weight = _draw(shape, fan_in[:, None, None], relu, generator)
        self.auxiliary_weight = draw_dense(inputs.auxiliary, outputs.auxiliary, relu, generator)
        self.bias = nn.Parameter(torch.zeros(outputs.width, 1, 1)) if bias else None

    def forward(self, x: State) -> State:
        signal_bias, auxiliary_bias = None, None
        if self.bias is not None:
            bias = self.outputs.split(self.bias)
            signal_bias, auxiliary_bias = bias.signal.flatten(1), bias.auxiliary.flatten(1)
        columns = x.signal.flatten(2)  # [N, C, B·T]
        y = block_product(self.weight, columns, self.pattern, signal_bias, relu=self.relu)
        auxiliary = _multiply(self.auxiliary_weight, x.auxiliary, auxiliary_bias, self.relu)
        return State(y.view(*y.shape[:2], *x.signal.shape[2:]), auxiliary)

    def apply_with(self, layers: Sequence[nn.Module], x: State) -> tuple[State, ...]:
        """The outputs of this layer and of others of its graph, in one pass; none has a bias."""
        all_layers = [self, *(cast(SparseLinear, layer) for layer in layers)]
        if any(layer.bias is not None or layer.relu for layer in all_layers):
            raise ConfigError(
                "only layers without bias and ReLU are applied together; apply each by itself"
            )
        if any(
            layer.pattern is not self.pattern or layer.outputs != self.outputs
            for layer in all_layers
        ):
            raise ConfigError("only layers of one graph and of equal outputs are applied together")
        weights = [layer.weight for layer in all_layers]
        ys = block_products(weights, x.signal.flatten(2), self.pattern)
        auxiliary_weights = torch.cat([layer.auxiliary_weight for layer in all_layers])
        auxiliary = _multiply(auxiliary_weights, x.auxiliary, None, False).chunk(len(all_layers))
        parts = zip(ys, auxiliary, strict=True)
        return tuple(State(y.view(*y.shape[:2], *x.signal.shape[2:]), a) for y, a in parts)


class DenseLinear(nn.Module):
    """y = W x + b over all neurons, those of the locations before the auxiliary ones."""

    def __init__(
        self,
        inputs: NeuronLayout,
        outputs: NeuronLayout,
        generator: Generator,
        *,
        bias: bool = True,
        relu: bool = False,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs, self.relu = inputs, outputs, relu
        self.weight = draw_dense(inputs.width, outputs.width, relu, generator)
        self.bias = nn.Parameter(torch.zeros(outputs.width, 1, 1)) if bias else None

    def forward(self, x: State) -> State:
        bias = None if self.bias is None else self.bias.flatten(1)
        return self.outputs.split(_multiply(self.weight, x.join(), bias, self.relu))


class LocationLinear(nn.Module):
    """y_i = W x_i + b, with the same weights for every location."""

    def __init__(
        self, inputs: int, outputs: int, generator: Generator, *, relu: bool = False
    ) -> None:
        super().__init__()
        self.weight = draw_dense(inputs, outputs, relu, generator)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        return linear(x, self.weight, self.bias)


def _multiply(
    weight: Float[Tensor, "m n"],
    x: Float[Tensor, "n B T"],
    bias: Float[Tensor, "m 1"] | None,
    relu: bool,
) -> Float[Tensor, "m B T"]:
    """W x + b, then ReLU if set."""
    columns = x.flatten(1)  # [n, B·T]
    y = weight @ columns if bias is None else torch.addmm(bias, weight, columns)
    return (y.relu_() if relu else y).view(len(y), *x.shape[1:])


def draw_dense(inputs: int, outputs: int, relu: bool, generator: Generator) -> nn.Parameter:
    """Initial weights of a fully connected layer."""
    return _draw((outputs, inputs), torch.tensor(inputs), relu, generator)


def _draw(
    shape: tuple[int, ...], fan_in: Int64[Tensor, "..."], relu: bool, generator: Generator
) -> nn.Parameter:
    """Initial weights that preserve the variance: Var w = 1 / fan-in, 2 / fan-in before ReLU.

    Differs: the paper gives no initialisation. A location's fan-in is its degree, self included,
    times its neighbours' neurons.
    """
    gain = 2.0 if relu else 1.0  # ReLU removes half of the variance
    bound = torch.sqrt(3.0 * gain / fan_in.clamp(min=1))  # of a uniform distribution
    weight = torch.empty(shape).uniform_(-1.0, 1.0, generator=generator)
    # Without inputs or outputs there is nothing to train; some optimisers would fail on it.
    return nn.Parameter(weight * bound.to(weight), requires_grad=weight.numel() > 0)
