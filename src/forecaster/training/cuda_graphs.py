"""Work on a GPU that is recorded once and replayed: one launch in place of a thousand.

A small network is bound by its launches from the host. A CUDA graph holds them all.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

WARM_UPS = 3  # calls before a recording, for libraries that allocate at their first

Inputs = tuple[Shaped[Tensor, "..."], ...]
Work = Callable[..., Float64[Tensor, " n"]]


class Recorder:
    """Recordings of work on batches, one for each kind of work and size of batch."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._recordings: dict[tuple[str, torch.Size], _Recording] = {}
        # One stream and one pool for all: what a recording frees, the next one may use. They are
        # never replayed at once, and what they return is copied.
        self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._usable = True  # until something cannot be recorded

    def play(
        self, kind: str, work: Work, inputs: Inputs, prepare: Callable[[], None]
    ) -> Float64[Tensor, " n"] | None:
        """Return what work gives for a batch, recorded if it was not yet; None: it cannot be.

        Args:
            kind: tells apart what cannot share a recording.
            work: does the same for every batch of that kind and size, on the GPU alone.
            inputs: what it is called with; the first says by its shape how large a batch is.
            prepare: what the host does before each call, such as seeding dropout.
        """
        key = kind, inputs[0].shape
        if self._usable and key not in self._recordings:
            prepare()
            reason = self._record(key, work, inputs)
            if reason is not None:
                self._give_up(reason)
        if not self._usable:
            return None
        prepare()
        return self._recordings[key].play(inputs)

    def _record(self, key: tuple[str, torch.Size], work: Work, inputs: Inputs) -> str | None:
        """Record work; return why it cannot be, once the error is gone that holds on to memory."""
        drawn = _generator().clone_state()  # a recording that fails leaves its own unusable
        try:
            self._recordings[key] = _Recording(work, inputs, self._stream, self._pool)
        except RuntimeError as error:
            reason = str(error).strip().split("\n", 1)[0]
        else:
            return None
        _generator().graphsafe_set_state(drawn)
        return reason

    def _give_up(self, reason: str) -> None:
        """Go on without recordings, which hold memory of their own."""
        torch.cuda.synchronize()
        self._recordings.clear()
        torch.cuda.empty_cache()
        self._usable = False
        self._say(f"no CUDA graph ({reason}); steps are launched piece by piece, more slowly")


def _generator() -> torch.Generator:
    """Return what dropout draws from on the current GPU."""
    return torch.cuda.default_generators[torch.cuda.current_device()]


class _Recording:
    """One piece of work on batches of one size."""

    def __init__(self, work: Work, inputs: Inputs, stream: Any, pool: Any) -> None:
        self._inputs = tuple(tensor.clone() for tensor in inputs)
        stream.wait_stream(torch.cuda.current_stream())
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):  # left again even if recording fails
            for _ in range(WARM_UPS):
                work(*self._inputs)
            with torch.cuda.graph(self._graph, pool=pool, stream=stream):
                self._result = work(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)

    def play(self, inputs: Inputs) -> Float64[Tensor, " n"]:
        for own, given in zip(self._inputs, inputs, strict=True):
            own.copy_(given)
        self._graph.replay()
        return self._result.clone()
