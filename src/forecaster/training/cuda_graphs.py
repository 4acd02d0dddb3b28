"""CUDA graphs: computations on a GPU, captured once and replayed with a single launch.

Small networks are bound by their thousands of launches from the host. A graph holds them all.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

WARM_UPS = 3  # calls before a capture, for libraries that allocate at their first call

Inputs = tuple[Shaped[Tensor, "..."], ...]
Work = Callable[..., Float64[Tensor, " n"]]


class CudaGraphs:
    """Captured graphs, one for each kind of work and batch size."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._graphs: dict[tuple[str, torch.Size], _CapturedGraph] = {}
        # One stream and one memory pool for all graphs: they never run at the same time, and
        # their results are copied.
        self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._enabled = True  # until a capture fails

    def replay(
        self, kind: str, work: Work, inputs: Inputs, prepare: Callable[[], None]
    ) -> Float64[Tensor, " n"] | None:
        """The result of some work on a batch, captured at its first call; None if it cannot be.

        Args:
            kind: names the work; each kind has graphs of its own.
            work: the same operations for every batch of a kind and size, on the GPU only.
            inputs: the arguments of the work; the shape of the first gives the batch size.
            prepare: called by the host before each run, e.g. to seed dropout.
        """
        key = kind, inputs[0].shape
        if self._enabled and key not in self._graphs:
            prepare()
            reason = self._capture(key, work, inputs)
            if reason is not None:
                self._give_up(reason)
        if not self._enabled:
            return None
        prepare()
        return self._graphs[key].replay(inputs)

    def _capture(self, key: tuple[str, torch.Size], work: Work, inputs: Inputs) -> str | None:
        """Capture work; return why it failed, after the error, which holds memory, is gone."""
        random_state = _generator().clone_state()  # a failed capture leaves its state unusable
        try:
            self._graphs[key] = _CapturedGraph(work, inputs, self._stream, self._pool)
        except RuntimeError as error:
            reason = str(error).strip().split("\n", 1)[0]
        else:
            return None
        _generator().graphsafe_set_state(random_state)
        return reason

    def _give_up(self, reason: str) -> None:
        """Go on without graphs, and free their memory."""
        torch.cuda.synchronize()
        self._graphs.clear()
        torch.cuda.empty_cache()
        self._enabled = False
        self._say(f"no CUDA graph ({reason}); kernels are launched one by one, which is slower")


def _generator() -> torch.Generator:
    """The random generator of the current GPU."""
    return torch.cuda.default_generators[torch.cuda.current_device()]


class _CapturedGraph:
    """One captured piece of work on batches of one size."""

    def __init__(self, work: Work, inputs: Inputs, stream: Any, pool: Any) -> None:
        self._inputs = tuple(tensor.clone() for tensor in inputs)
        stream.wait_stream(torch.cuda.current_stream())
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):  # left again even if the capture fails
            for _ in range(WARM_UPS):
                work(*self._inputs)
            with torch.cuda.graph(self._graph, pool=pool, stream=stream):
                self._result = work(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)

    def replay(self, inputs: Inputs) -> Float64[Tensor, " n"]:
        for buffer, tensor in zip(self._inputs, inputs, strict=True):
            buffer.copy_(tensor)
        self._graph.replay()
        return self._result.clone()
