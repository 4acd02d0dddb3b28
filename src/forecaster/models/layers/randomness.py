"""Random numbers that a network draws in training: hidden inputs and dropout.

They come from a generator of the calling thread, seeded at every training step, so that networks
that train at the same time in several threads draw what each would draw alone.
"""

import threading

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout


class _ThreadGenerator(threading.local):
    """The generator of a thread on the CPU; None: torch's default one."""

    generator: Generator | None = None


_THREAD = _ThreadGenerator()


def seed_draws(device: torch.device, seed: int) -> None:
    """Seed what this thread draws on a device from now on.

    On a GPU that is torch's default generator, which CUDA graphs know.
    """
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)
        return
    if _THREAD.generator is None:
        _THREAD.generator = Generator()
    _THREAD.generator.manual_seed(seed)


def forget_draws() -> None:
    """Let this thread draw from torch's default generator again."""
    _THREAD.generator = None


def draw_uniform(*shape: int, device: torch.device) -> Float[Tensor, "..."]:
    """Uniform random numbers from 0 to 1."""
    generator = _THREAD.generator if device.type == "cpu" else None
    return torch.rand(shape, device=device, generator=generator)


class Dropout(nn.Dropout):
    """Dropout that draws from the thread's generator; the same numbers as torch's if seeded so."""

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:  # noqa: A002 (torch's name)
        generator = _THREAD.generator
        if not self.training or self.p == 0 or generator is None or input.device.type != "cpu":
            return dropout(input, self.p, self.training)
        mask = torch.empty_like(input).bernoulli_(1 - self.p, generator=generator)
        return input * mask.div_(1 - self.p)
