"""Diffusion convolution: weighted sums over random walks between locations (Li et al. 2018)."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn


class Diffusion(nn.Module):
    """x, and x after 1…K steps of a random walk along the weights, then of one against them.

    Walks are dense matrices: a Gaussian kernel of all distances in a city connects over half of
    the pairs, and a sparse product is faster below a tenth only. Symmetric weights have equal
    walks in both directions; each is then computed once (`fold`).
    """

    walks: Float[Tensor, "M N"]  # (D_O⁻¹W)^1…K one below the other, then (D_I⁻¹Wᵀ)^1…K

    def __init__(self, kernel: Float[Tensor, "N N"], steps: int) -> None:
        super().__init__()
        self.steps, self.directed = steps, not torch.equal(kernel, kernel.T)
        ways = (kernel, kernel.T) if self.directed else (kernel,)
        walks = [power for way in ways for power in _powers(random_walk(way.double()), steps)]
        self.register_buffer("walks", torch.cat(walks).to(kernel.dtype), persistent=False)

    @property
    def terms(self) -> int:
        """The number of terms of a location: 1 + 2K, or 1 + K for symmetric weights."""
        return 1 + len(self.walks) // self.walks.shape[1]

    def forward(self, x: Float[Tensor, "N B C"]) -> Float[Tensor, "N B F"]:
        spread = (self.walks @ x.flatten(1)).view(-1, *x.shape)  # [terms − 1, N, B, C]
        return torch.stack([x, *spread], dim=2).flatten(2)  # F = terms · C

    def fold(self, weight: Float[Tensor, "T C O"]) -> Float[Tensor, "F O"]:
        """Fold the weights θ_0, θ_{1…K,1}, θ_{1…K,2} into those of the terms of `forward`.

        Where both walks are equal, θ_{k,1} P^k x + θ_{k,2} P^k x = (θ_{k,1} + θ_{k,2}) P^k x.
        """
        if not self.directed:
            along, against = weight[1:].chunk(2)
            weight = torch.cat([weight[:1], along + against])
        return weight.flatten(0, 1)


class DiffusionConvolution(nn.Module):
    """Σ_k (θ_{k,1} (D_O⁻¹W)^k + θ_{k,2} (D_I⁻¹Wᵀ)^k) X + b, k = 0…K, X itself once (Eq. 2 there).

    Takes the terms of each part of X from `Diffusion`, and the weights from `fold`, since both are
    used more than once.
    Differs from the authors' program, which takes Chebyshev polynomials of the transposed walks:
    this is the sum that their paper prints.
    """

    def __init__(
        self,
        diffusion: Diffusion,
        parts: list[int],
        outputs: int,
        generator: Generator,
        *,
        bias: float,
    ) -> None:
        """Draw the weights.

        Args:
            diffusion: the walks.
            parts: number of inputs of a location in each part of X.
            outputs: number of outputs of a location.
            generator: of the initial weights.
            bias: the initial value of b.
        """
        super().__init__()
        self.diffusion, self.parts = diffusion, parts
        shape = 1 + 2 * diffusion.steps, sum(parts), outputs
        self.weight = draw_glorot(shape, generator)
        self.bias = nn.Parameter(torch.full((outputs,), bias))

    def fold(self) -> list[Float[Tensor, "_ O"]]:
        """The folded weights of each part's terms; call it once for all steps of a sequence."""
        return [self.diffusion.fold(part) for part in torch.split(self.weight, self.parts, dim=1)]

    def forward(
        self, terms: Sequence[Float[Tensor, "N B _"]], weights: Sequence[Float[Tensor, "_ O"]]
    ) -> Float[Tensor, "N B O"]:
        y: Tensor = self.bias
        for part, weight in zip(terms, weights, strict=True):
            y = torch.addmm(y, part.flatten(0, 1), weight)
        return y.view(*terms[0].shape[:2], -1)


def random_walk(kernel: Float[Tensor, "N N"]) -> Float[Tensor, "N N"]:
    """The transition matrix D⁻¹W: to the neighbours in proportion to their weights.

    A walk stays at a location without any weight.
    """
    degree = kernel.sum(dim=1, keepdim=True)
    stay = torch.eye(len(kernel), dtype=kernel.dtype, device=kernel.device)
    return torch.where(degree > 0, kernel / degree.where(degree > 0, 1), stay)


def draw_glorot(shape: tuple[int, ...], generator: Generator) -> nn.Parameter:
    """Glorot-uniform weights: variance 2 / (inputs + outputs), the last axis being the outputs."""
    bound = math.sqrt(6 / (math.prod(shape[:-1]) + shape[-1]))
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


def _powers(matrix: Float[Tensor, "N N"], count: int) -> list[Float[Tensor, "N N"]]:
    """The first powers of a matrix."""
    powers = [matrix]
    while len(powers) < count:
        powers.append(powers[-1] @ matrix)
    return powers
