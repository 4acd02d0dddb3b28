"""Work on a GPU that is recorded once and replayed: one launch in place of a thousand.

A small network is bound by its launches from the host. A CUDA graph holds them all.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

WARM_UPS = 3  # calls before a recording, for libraries that allocate at their first

Work = Callable[[Int64[Tensor, "B T"]], Float64[Tensor, " n"]]


class Recorder:
    """Recordings of work on batches, one for each kind of work and size of batch."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self.usable = True  # until something cannot be recorded

    def play(
        self, kind: Hashable, work: Work, places: Int64[Tensor, "B T"], prepare: Callable[[], None]
    ) -> Float64[Tensor, " n"]:
        """Return what work gives for a batch, recorded if it was not yet.

        Args:
            kind: tells apart what cannot share a recording.
            work: does the same for every batch of that kind and size, on the GPU alone.
            places: of the batch, as `Batches.locate` gives them.
            prepare: what the host does before each call, such as seeding dropout.
        """
        key = kind, places.shape
        if self.usable and key not in self._recordings:
            prepare()
            try:
                self._recordings[key] = _Recording(work, places, self._pool)
            except RuntimeError as error:
                self._give_up(error)
        prepare()
        return self._recordings[key].play(places) if self.usable else work(places)

    def _give_up(self, error: RuntimeError) -> None:
        """Go on without recordings, which hold memory of their own."""
        self._recordings.clear()
        self.usable = False
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        reason = str(error).strip().split("\n", 1)[0]
        self._say(f"no CUDA graph ({reason}); steps are launched piece by piece, more slowly")


class _Recording:
    """One piece of work on batches of one size."""

    def __init__(self, work: Work, places: Int64[Tensor, "B T"], pool: Any) -> None:
        self._places = places.clone()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                work(self._places)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool, stream=stream):
            self._result = work(self._places)

    def play(self, places: Int64[Tensor, "B T"]) -> Float64[Tensor, " n"]:
        self._places.copy_(places)
        self._graph.replay()
        return self._result.clone()
