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
CLOSE_SECONDS = 2.0  # for what runs when the service stops
MAX_STUCK = 8  # threads that hang at once; beyond, nothing more is tried
STUCK_SHARE = 0.5  # of its time that a job must have run, not waited, to be given up as hung


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
        self._left: list[threading.Thread] = []  # those of them that may hang still
        self._closed = False
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._busy_since: float | None = None
        self._start()

    @property
    def full(self) -> bool:
        """Tell whether the next job would be refused."""
        return self.pending >= self.limit

    async def run(self, job: Callable[[], T], ends: float | None = None) -> T:
        """Return what the job returns; refuse it with 503 or 504 where that takes too long.

        Args:
            job: is run.
            ends: its deadline by time.monotonic(), where others share it; None: its own.
        """
        if self._closed:
            raise _stopping()
        if self.full:
            raise Problem(503, "busy", "too many forecasts are asked for at once; ask again")
        future: Future[T] = Future()
        self.pending += 1
        self._queue.put((future, job))
        left = self.seconds if ends is None else ends - time.monotonic()
        try:
            # Not wait_for, which before Python 3.12 may swallow that its task was cancelled.
            async with asyncio.timeout(left):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            # Soon: others whose time is over now must not be begun by the new thread.
            asyncio.get_running_loop().call_soon(self._replace_stuck)
            if not future.running():  # it never began
                raise Problem(503, "busy", "no time was left to begin it; ask again") from None
            raise Problem(504, "too_slow", "it took too long; ask again later") from None
        finally:
            self.pending -= 1

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Refuse what waits, let the thread end after what it does now, and wait for that."""
        self._closed = True
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None and job[0].set_running_or_notify_cancel():
                job[0].set_exception(_stopping())
        self._queue.put(None)
        self._thread.join(seconds)  # a thread that is torn out of torch takes all down

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
        if since is None or time.monotonic() - since < STUCK_SHARE * self.seconds:
            return
        self._left = [thread for thread in self._left if thread.is_alive()]
        if len(self._left) < MAX_STUCK:
            self._left.append(self._thread)
            self.replaced += 1
            self._start()


def _stopping() -> Problem:
    return Problem(503, "stopping", "the service stops; ask again")
