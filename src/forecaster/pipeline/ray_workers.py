"""Runs trials on Ray, each in a worker process of one machine or of a cluster.

The folder of the comparison and the panel must be the same on every machine. A worker that dies is
replaced, and its trial goes on from its last checkpoint. Ray itself pickles the trial on its way
to the worker and the answer on its way back; no file is pickled.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from forecaster.errors import RunError, StoppedError, need_extra
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.train import MessageCallback
from forecaster.pipeline.trials import MAX_REASON, Trial, failure_reason, run_trial
from forecaster.training.interrupts import interrupts

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
RETRIES = 3  # of a trial whose worker has died
POLL_SECONDS, STOP_SECONDS = 0.2, 60.0
START_TRIES = 5  # of a cluster on this machine
STORE_BYTES = 2**27  # of a cluster that begins here: trials and reasons are small
INTERRUPTED = "interrupted"
ADDRESS = "RAY_ADDRESS"  # of a cluster that runs already


def run_on_ray(
    trials: Sequence[Trial], experiment: Experiment, jobs: int, say: MessageCallback
) -> list[tuple[Trial, str]]:
    """Run trials, `jobs` at a time; return the reasons of those that failed.

    Args:
        trials: unfinished ones.
        experiment: their comparison, in a folder that every machine has.
        jobs: the number of trials at a time.
        say: takes a line for each trial.
    """
    # Without cached properties: each worker opens the panel itself and checks its hash.
    unloaded = replace(experiment, panel_hash=experiment.panel.digest)
    waiting, running, failures = list(trials), dict[Any, Trial](), list[tuple[Trial, str]]()
    with _connected(jobs) as ray, interrupts() as signals:
        share = str(max((os.cpu_count() or 1) // jobs, 1))  # as processes of `--jobs` have
        environment = {"env_vars": dict.fromkeys(THREADS, share)}
        work = ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env=environment)(_work)
        while waiting or running:
            while waiting and len(running) < jobs and not signals.received:
                trial = waiting.pop(0)
                say(f"{len(trials) - len(waiting)} of {len(trials)}: {trial}")
                running[work.remote(trial, unloaded)] = trial
            ended, _ = ray.wait(list(running), timeout=POLL_SECONDS)
            for reference in ended:
                trial = running.pop(reference)
                reason = _read_reason(ray, reference)
                if reason is not None:
                    failures.append((trial, reason))
                    say(f"{trial} failed: {reason}")
            if signals.received:
                _stop(ray, list(running))
                raise StoppedError(f"interrupted by {signals.received}; the same command resumes")
    return failures


def _work(trial: Trial, experiment: Experiment) -> str | None:
    """Run one trial in a worker; return why it failed, or None."""
    logging.basicConfig(level=logging.ERROR)
    try:
        run_trial(trial, experiment, _ignore)
    except StoppedError:
        return INTERRUPTED
    except Exception as error:  # whoever asked reports it
        return failure_reason(error)
    return None


def _ignore(_: str) -> None:
    """Print nothing: only the process that asked writes to the screen."""


def _read_reason(ray: ModuleType, reference: Any) -> str | None:
    """Return why a trial failed, or None."""
    try:
        reason: str | None = ray.get(reference)
    except ray.exceptions.RayError as error:
        kind = type(error).__name__
        return f"its worker died {RETRIES + 1} times ({kind}); it may have run out of memory"
    return reason


def _stop(ray: ModuleType, references: list[Any]) -> None:
    """Ask all workers to save and stop, and wait for them."""
    for reference in references:
        ray.cancel(reference, force=False)
    if references:
        ray.wait(references, num_returns=len(references), timeout=STOP_SECONDS)


@contextmanager
def _connected(jobs: int) -> Iterator[ModuleType]:
    """Connect to the cluster of RAY_ADDRESS, or begin one on this machine and end it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # tasks of no GPU see it
    ray = need_extra("ray", extra="ray")
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, jobs)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: ModuleType, jobs: int) -> None:
    """Connect to a cluster; on a busy machine one that begins here may be too slow for itself."""
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    begins_here = ADDRESS not in os.environ
    if begins_here:
        options |= {"address": "local", "num_cpus": jobs, "include_dashboard": False}
        options["object_store_memory"] = STORE_BYTES
    for tries_left in reversed(range(START_TRIES if begins_here else 1)):
        try:
            ray.init(**options)
        except Exception as error:  # Ray raises the class itself when its parts are too slow
            ray.shutdown()
            if not tries_left:
                remedy = "try again when the machine is less busy, or set"
                remedy = remedy if begins_here else "check"
                raise RunError(
                    f"--engine ray: no cluster ({str(error)[:MAX_REASON]}); {remedy} {ADDRESS}"
                ) from error
        else:
            return
