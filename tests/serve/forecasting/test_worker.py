"""One thread, a bounded queue, a deadline."""

import asyncio
import threading
import time

import pytest

from forecaster.serve.forecasting.worker import Worker
from forecaster.serve.problems import Problem


def test_jobs_run_one_after_another() -> None:
    async def ask() -> list[int]:
        worker = Worker(limit=7, seconds=5.0)
        return await asyncio.gather(*(worker.run(lambda n=n: n * n) for n in range(7)))

    assert asyncio.run(ask()) == [0, 1, 4, 9, 16, 25, 36]


def test_an_error_reaches_whoever_waits() -> None:
    def fail() -> None:
        raise ZeroDivisionError("a fault")

    async def ask() -> int:
        worker = Worker(limit=2, seconds=5.0)
        with pytest.raises(ZeroDivisionError, match="a fault"):
            await worker.run(fail)
        return await worker.run(lambda: 5)

    assert asyncio.run(ask()) == 5


def test_V7_what_does_not_fit_the_queue_is_refused_at_once() -> None:
    async def ask() -> tuple[list[object], int]:
        worker, gate = Worker(limit=3, seconds=5.0), threading.Event()
        waiting = [asyncio.create_task(worker.run(gate.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refusal:
            await worker.run(lambda: None)
        headers = refusal.value.headers or {}
        assert (refusal.value.status_code, headers["Retry-After"]) == (503, "1")
        gate.set()
        done = await asyncio.gather(*waiting)
        return list(done), worker.pending

    assert asyncio.run(ask()) == ([True, True, True], 0)


def test_V14_a_job_that_hangs_is_left_behind() -> None:
    async def ask() -> tuple[int, int, int, int]:
        worker, gate = Worker(limit=5, seconds=0.5), threading.Event()
        with pytest.raises(Problem) as refusal:
            await worker.run(gate.wait)
        answer = await worker.run(lambda: 7)  # by another thread
        gate.set()
        return refusal.value.status_code, answer, worker.replaced, worker.pending

    assert asyncio.run(ask()) == (504, 7, 1, 0)


def test_V14_a_job_that_hangs_after_a_long_wait_is_left_behind_too() -> None:
    """Its own time is over before it has run for long: those that wait for it must tell."""

    async def ask() -> tuple[list[int], int, int]:
        worker, gate = Worker(limit=5, seconds=0.5), threading.Event()
        tasks = [asyncio.create_task(worker.run(gate.wait, time.monotonic() + 0.2))]
        tasks += [asyncio.create_task(worker.run(gate.wait)) for _ in range(2)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        answer = await worker.run(lambda: 7)
        gate.set()
        return [getattr(one, "status_code", 0) for one in done], answer, worker.replaced

    assert asyncio.run(ask()) == ([504, 503, 503], 7, 1)


def test_a_deadline_that_is_over_begins_nothing() -> None:
    async def ask() -> tuple[int, list[int]]:
        worker, begun = Worker(limit=5, seconds=5.0), list[int]()
        gate = threading.Event()
        busy = asyncio.create_task(worker.run(gate.wait))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refusal:
            await worker.run(lambda: begun.append(1), time.monotonic() - 1.0)
        gate.set()
        await busy
        await worker.run(lambda: None)
        return refusal.value.status_code, begun

    assert asyncio.run(ask()) == (503, [])


def test_V14_threads_that_hang_are_replaced_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forecaster.serve.forecasting.worker.MAX_STUCK", 2)

    async def ask() -> list[int]:
        worker, gate, tasks, found = Worker(9, 60.0), threading.Event(), [], []
        for _ in range(3):
            tasks.append(asyncio.create_task(worker.run(gate.wait)))
            while worker._busy_since is None:
                await asyncio.sleep(0.001)
            worker._busy_since -= 60.0  # as if that had passed
            worker._replace_stuck()
            found.append(worker.replaced)
        gate.set()
        await asyncio.gather(*tasks)
        for thread in worker._stuck:
            thread.join()
        worker._busy_since = 0.0
        worker._replace_stuck()  # those that came back make room again
        return [*found, worker.replaced]

    assert asyncio.run(ask()) == [1, 2, 2, 3]


def test_V14_what_never_began_is_refused_as_busy() -> None:
    async def ask() -> list[int]:
        worker, gate = Worker(limit=5, seconds=0.2), threading.Event()
        tasks = [asyncio.create_task(worker.run(gate.wait)) for _ in range(2)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        gate.set()
        return [one.status_code for one in done if isinstance(one, Problem)]

    assert sorted(asyncio.run(ask())) == [503, 504]


def test_what_waits_when_the_service_stops_is_refused() -> None:
    async def ask() -> tuple[list[object], float]:
        worker, gate = Worker(limit=5, seconds=5.0), threading.Event()
        tasks = [asyncio.create_task(worker.run(gate.wait)) for _ in range(3)]
        while worker._queue.qsize() != 2:  # the first has begun
            await asyncio.sleep(0.001)
        began = time.monotonic()
        worker.close(0.01)
        took = time.monotonic() - began
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True), took

    found, took = asyncio.run(ask())
    assert [getattr(one, "code", one) for one in found] == [True, "stopping", "stopping"]
    assert took < 5.0  # a job may take as long


def test_whoever_is_cancelled_just_as_the_answer_comes_ends() -> None:
    async def ask() -> None:
        worker, gate = Worker(limit=2, seconds=5.0), threading.Event()
        task = asyncio.create_task(worker.run(gate.wait))
        while worker._busy_since is None:
            await asyncio.sleep(0.001)
        gate.set()
        worker.close(5.0)  # the answer is there, and the loop has not seen it
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())
