"""One thread that computes, a bounded queue before it, and a deadline for what it does."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from forecaster.serve.problems import Problem

T = TypeVar("T")
Job = tuple["Future[Any]", Callable[[], Any]]
MAX_STUCK = 8  # threads that hang; beyond, nothing more is tried


class Worker:
    """Runs jobs one after another; one that hangs is left behind, and another thread goes on."""

    def __init__(self, limit: int, seconds: float) -> None:
        """Start the thread.

        Args:
            limit: jobs that may wait or run; the next is refused at once.
            seconds: how long a job may take, waiting included.
        """
        self.limit, self.seconds = limit, seconds
        self.pending = 0
        self.replaced = 0  # threads that were left behind
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._busy_since: float | None = None
        self._start()

    @property
    def full(self) -> bool:
        """Tell whether the next job would be refused."""
        return self.pending >= self.limit

    async def run(self, job: Callable[[], T]) -> T:
        """Return what the job returns; refuse it with 503 or 504 where that takes too long."""
        if self.full:
            raise Problem(503, "busy", "too many forecasts are asked for at once; ask again")
        future: Future[T] = Future()
        self.pending += 1
        self._queue.put((future, job))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError:
            if not future.running():  # it never began
                raise Problem(503, "busy", "no time was left to begin it; ask again") from None
            self._replace_stuck()
            raise Problem(504, "too_slow", f"it took over {self.seconds:g} s") from None
        finally:
            self.pending -= 1

    def close(self) -> None:
        """Let the thread end after what it does now, and wait for that."""
        self._queue.put(None)
        self._thread.join(self.seconds)  # a thread that is torn out of torch takes all down

    def _start(self) -> None:
        self._busy_since = None
        self._thread = threading.Thread(target=self._work, daemon=True, name="forecasts")
        self._thread.start()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            future, call = job
            if not future.set_running_or_notify_cancel():
                continue
            self._busy_since = time.monotonic()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            if threading.current_thread() is not self._thread:
                return  # it was given up meanwhile
            self._busy_since = None

    def _replace_stuck(self) -> None:
        since = self._busy_since
        stuck = since is not None and time.monotonic() - since >= self.seconds * 0.9
        if stuck and self.replaced < MAX_STUCK:
            self.replaced += 1
            self._start()
