"""Graph WaveNet: dilated convolutions over time and diffusion over a given and a learned graph.

Wu, Pan, Long, Jiang and Zhang, "Graph WaveNet for Deep Spatial-Temporal Graph Modeling",
IJCAI 2019.
"""

from collections.abc import Iterable
from typing import cast

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import linear, pad, relu, softmax

from forecaster.config import GraphWaveNetConfig, LagConfig
from forecaster.models.layers.diffusion import Diffusion, DiffusionConvolution
from forecaster.models.layers.linear import LocationLinear, draw_dense
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.layers.randomness import Dropout
from forecaster.models.network import NO_HEADS, Heads
from forecaster.models.peers.inputs import ComingEmbedding, PastInputs
from forecaster.models.peers.network import PeerNetwork

EPSILON = 1e-5  # of the norm's variance


class GraphWaveNetwork(PeerNetwork):
    """x̂_{t+1…t+K}, all at once, from the last steps of gated layers whose dilations double.

    Layer l, dilation d: g_s = tanh(W_1 h_{s−d} + W_2 h_s + b) ∘ σ(V_1 h_{s−d} + V_2 h_s + c), and
    h_s ← norm(G(g_s) + h_s) with the graph convolution G of `GraphConvolution`. Skip connections
    lead from the newest g of each layer: z = max(E max(Σ_l S_l g_t + s_l, 0) + e, 0), x̂ = O z + o.
    Dilations are 1, 2, 4, … in each block. History is padded by zeros up to their reach.

    With `inputs = "lags"` the steps are all lags by age, and blocks have as many layers as are
    needed to reach over them; what is known ahead (`ComingEmbedding`) is added to every step.

    Differs: the last layer has no graph convolution and norm, and no layer the residual
    convolution beside it; the authors' program draws them, and nothing depends on them.
    """

    def __init__(
        self,
        config: GraphWaveNetConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        kernel: Float[Tensor, "N N"],
        generator: Generator,
        heads: Heads = NO_HEADS,
    ) -> None:
        """Draw the weights.

        Args:
            config: inputs, channels, layers.
            lags: number of past steps and of forecast steps.
            inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
            kernel: weights of the given graph.
            generator: of the initial weights.
            heads: the outputs beside the forecast.
        """
        super().__init__(inputs, lags)
        N, C, kind = inputs.n_locations, config.channels, config.inputs
        self.masks = kind == "lags"
        self.past = PastInputs(kind, inputs, lags.recent, weekday=False, all_of_a=True)
        self.start = LocationLinear(self.past.channels, C, generator)
        self.coming = ComingEmbedding(inputs, lags, C, generator) if self.masks else None
        self.graph = LearnedGraph(N, config.embedding, generator)
        diffusion = Diffusion(kernel, config.diffusion_steps)
        depth = block_depth(config, self.L)
        self.reached = 1 + config.blocks * (2**depth - 1)  # past steps
        dilations = [2**i for i in range(depth)] * config.blocks
        self.layers = nn.ModuleList(GatedLayer(C, d, config.skip, generator) for d in dilations)
        self.convolutions = nn.ModuleList(
            GraphConvolution(diffusion, C, config.dropout, generator) for _ in dilations[1:]
        )
        self.norms = nn.ModuleList(FixedNorm(C) for _ in dilations[1:])
        self.end = LocationLinear(config.skip, config.end, generator, relu=True)
        self.draw_outputs(config.end, heads, generator)
        steps, numbers = self.reached, 0
        for dilation in dilations:  # per step: the gates and g, the terms, dropout and the sums
            steps -= dilation
            numbers += steps * C * (8 + diffusion.terms + config.diffusion_steps)
        self.window_numbers = N * (numbers + self.reached * self.past.channels + 2 * config.end)

    def hidden_state(self, history: State, ahead: State) -> Float[Tensor, "N B H"]:
        """The state z of each location."""
        past: Tensor = self.past(history)
        padded = pad(past, (self.reached - self.L, 0))
        h: Tensor = self.start(padded.permute(0, 2, 3, 1).contiguous())  # [N, B, T, C]
        if self.coming is not None:
            h = h + self.coming(history, ahead)[:, :, None]
        graph, skips = self.graph(), []
        for number, layer in enumerate(self.layers):
            gated, skip = layer(h)
            skips.append(skip)
            if number < len(self.norms):
                steps = gated.shape[2]
                moved: Tensor = self.convolutions[number](gated, graph)
                h = self.norms[number](moved + h[:, :, -steps:])
        return relu(self.end(relu(torch.stack(skips).sum(dim=0))))

    @torch.no_grad()
    def fit_norms(self, history: State, ahead: State) -> None:
        """Measure the constants of the norms on some windows, layer by layer."""
        norms, was_training = list(cast(Iterable[FixedNorm], self.norms)), self.training
        self.eval()
        for norm in norms:
            norm.is_measuring = True
        self.hidden_state(history, ahead)
        for norm in norms:
            norm.is_measuring = False
        self.train(was_training)


class LearnedGraph(nn.Module):
    """Ã = softmax(max(E_1 E_2, 0)) by rows: how much each location takes from each other one."""

    def __init__(self, n_locations: int, width: int, generator: Generator) -> None:
        super().__init__()
        shapes = (n_locations, width), (width, n_locations)
        self.target, self.source = (
            nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes
        )

    def forward(self) -> Float[Tensor, "N N"]:
        return softmax(relu(self.target @ self.source), dim=1)


class GatedLayer(nn.Module):
    """g_s = tanh(W_1 h_{s−d} + W_2 h_s + b) ∘ σ(V_1 h_{s−d} + V_2 h_s + c), and S g_t + s."""

    def __init__(self, channels: int, dilation: int, skip: int, generator: Generator) -> None:
        super().__init__()
        self.dilation = dilation
        self.gates = LocationLinear(2 * channels, 2 * channels, generator)
        self.skip = LocationLinear(channels, skip, generator)

    def forward(
        self, h: Float[Tensor, "N B T C"]
    ) -> tuple[Float[Tensor, "N B t C"], Float[Tensor, "N B S"]]:
        d = self.dilation
        gates: Tensor = self.gates(torch.cat([h[:, :, :-d], h[:, :, d:]], dim=3))
        signal, gate = gates.chunk(2, dim=3)
        gated = torch.tanh(signal) * torch.sigmoid(gate)
        return gated, self.skip(gated[:, :, -1])


class GraphConvolution(nn.Module):
    """Σ_k (P_f^k X W_k1 + P_b^k X W_k2 + Ã^k X W_k3) + b, k = 0…K, X itself once.

    P_f and P_b are random walks along a given graph and against it, Ã is the learned one. Dropout
    follows.
    """

    def __init__(
        self, diffusion: Diffusion, channels: int, dropout: float, generator: Generator
    ) -> None:
        super().__init__()
        self.given = DiffusionConvolution(diffusion, [channels], channels, generator, bias=0.0)
        self.learned = draw_dense(diffusion.steps * channels, channels, False, generator)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "N B T C"], graph: Float[Tensor, "N N"]
    ) -> Float[Tensor, "N B T C"]:
        columns = x.flatten(1, 2)  # [N, B·T, C]
        moved: Tensor = self.given((self.given.diffusion(columns),), self.given.fold())
        terms = [columns]
        for _ in range(self.given.diffusion.steps):
            terms.append((graph @ terms[-1].flatten(1)).view_as(columns))
        y = moved + linear(torch.cat(terms[1:], dim=2), self.learned)
        out: Tensor = self.dropout(y.view_as(x))
        return out


class FixedNorm(nn.Module):
    """γ (x − μ) / √(σ² + ε) + β with the mean and variance of each channel before training.

    Differs: the authors' batch normalisation takes μ and σ² from each batch in training, and their
    running averages in use. Measured once, over training windows, they are what they are in use:
    constants. No window then depends on the others of its batch, and a resumed training and
    averaged weights need no further state.
    """

    mean: Float[Tensor, " C"]
    scale: Float[Tensor, " C"]

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.gain = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.is_measuring = False

    def forward(self, x: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
        if self.is_measuring:
            variance, mean = torch.var_mean(x.flatten(0, -2), dim=0, correction=0)
            self.mean.copy_(mean)
            self.scale.copy_(torch.rsqrt(variance + EPSILON))
        return (x - self.mean) * (self.scale * self.gain) + self.bias


def block_depth(config: GraphWaveNetConfig, length: int) -> int:
    """The number of layers of a block: those of the authors, or enough to reach over a history."""
    steps = -(-(length - 1) // config.blocks)  # that a block must reach back
    return max(config.n_layers, steps.bit_length())


def count_weights(config: GraphWaveNetConfig, inputs: NeuronLayout, length: int) -> int:
    """The number of weights but for those of inputs, outputs, quantiles and norms."""
    C, S = config.channels, config.skip
    layers = config.blocks * block_depth(config, length)
    gated = 2 * C * (2 * C + 1) + (C + 1) * S
    moved = (1 + 3 * config.diffusion_steps) * C * C + C
    graph = 2 * inputs.n_locations * config.embedding
    return graph + layers * gated + (layers - 1) * moved + (S + 1) * config.end
