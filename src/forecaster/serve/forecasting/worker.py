"""A thread that computes, with a bounded queue and a deadline for every job."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from forecaster.serve.problems import Problem

T = TypeVar("T")
Job = tuple["Future[Any]", Callable[[], Any]]
CLOSE_SECONDS = 2.0  # for the running job when the service stops
MAX_STUCK = 8  # hung threads at the same time; beyond that none is replaced
STUCK_SHARE = 0.5  # of its deadline that a job must have run, not waited, to count as hung


class Worker:
    """Runs jobs one after another; a thread that hangs is replaced by a new one."""

    def __init__(self, limit: int, seconds: float) -> None:
        """Start the thread.

        Args:
            limit: jobs that may wait or run; the next one is refused at once.
            seconds: the deadline of a job, waiting included.
        """
        self.limit, self.seconds = limit, seconds
        self.pending = 0
        self.replaced = 0  # threads
        self._stuck: list[threading.Thread] = []  # replaced threads that may still hang
        self._closed = False
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._busy_since: float | None = None
        self._start()

    @property
    def full(self) -> bool:
        """Whether the next job would be refused."""
        return self.pending >= self.limit

    async def run(self, job: Callable[[], T], deadline: float | None = None) -> T:
        """Return the result of a job; 503 or 504 if it is not available in time.

        Args:
            job: is called in the thread.
            deadline: by time.monotonic(), if several jobs share it. Default: the worker's.
        """
        if self._closed:
            raise _stopping()
        if self.full:
            raise Problem(503, "busy", "too many forecasts are requested at once; try again")
        future: Future[T] = Future()
        self.pending += 1
        self._queue.put((future, partial(copy_context().run, job)))  # spans know their request
        remaining = self.seconds if deadline is None else deadline - time.monotonic()
        try:
            # Not wait_for, which before Python 3.12 may swallow a cancellation.
            async with asyncio.timeout(remaining):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            # Deferred: the new thread must not start other jobs that expire now.
            asyncio.get_running_loop().call_soon(self._replace_stuck)
            if not future.running():  # it was not started
                raise Problem(503, "busy", "the request waited too long; try again") from None
            raise Problem(504, "too_slow", "the computation took too long; try later") from None
        finally:
            self.pending -= 1

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Refuse waiting jobs, and wait for the running one."""
        self._closed = True
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None and job[0].set_running_or_notify_cancel():
                job[0].set_exception(_stopping())
        self._queue.put(None)
        self._thread.join(seconds)  # the process would crash if it ended while torch computes

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
                return  # this thread was replaced meanwhile
            self._busy_since = None

    def _replace_stuck(self) -> None:
        since = self._busy_since
        if since is None or time.monotonic() - since < STUCK_SHARE * self.seconds:
            return
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        if len(self._stuck) < MAX_STUCK:
            self._stuck.append(self._thread)
            self.replaced += 1
            self._start()


def _stopping() -> Problem:
    return Problem(503, "stopping", "the service is stopping; try again")
