"""The suite that every estimator passes, ours and anyone else's: `check_forecaster(make)`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forecaster.errors import ConfigError, ForecasterError
from forecaster.estimators import closed, forecast_inputs
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.fitting import FITTING
from forecaster.estimators.checks.forecasts import FORECASTS
from forecaster.estimators.checks.opening_hours import OPENING_HOURS
from forecaster.estimators.checks.past_only import PAST_ONLY
from forecaster.estimators.checks.quantiles import QUANTILES
from forecaster.estimators.checks.setup import Check, make_setup
from forecaster.estimators.checks.vintages import VINTAGES
from forecaster.estimators.wrong_values import degraded
from forecaster.panel import panel
from forecaster.recipe import Recipe

CHECKS: dict[str, Check] = {
    check.__name__.strip("_").replace("_", " "): check
    for check in (*FORECASTS, *QUANTILES, *OPENING_HOURS, *PAST_ONLY, *VINTAGES, *FITTING)
}

NEED = "give a subclass of Estimator, or a function that returns a new estimator for a recipe"


def check_forecaster(make: Callable[..., Estimator]) -> list[str]:
    """Run every check on an estimator and return their names; failures are raised together.

    Args:
        make: the class, or a function that returns a new estimator; called as
            `make(recipe=recipe)`.
    """

    def make_estimator(recipe: Recipe) -> Estimator:
        estimator = make(recipe=recipe)
        if not isinstance(estimator, Estimator):
            raise ConfigError(f"make(recipe=recipe) returned a {type(estimator).__name__}; {NEED}")
        estimator.falls_back = False  # its own forecasts are checked
        return estimator

    if not callable(make):
        raise ConfigError(f"make = {make!r}; {NEED}")
    failures = []
    with _without_warnings():
        setup = make_setup(make_estimator)
        for name, check in CHECKS.items():
            try:
                check(setup)
            except (AssertionError, ForecasterError) as failure:
                failures.append(f"{name}: {failure}")
    if failures:
        raise AssertionError("\n  ".join([f"{len(failures)} checks failed", *failures]))
    return list(CHECKS)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silences warnings of unusual values and absent locations, which some checks bring about."""
    logs = (forecast_inputs.log, degraded.log, closed.log, panel.log)
    levels = {log: log.level for log in logs}
    for log in levels:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)
