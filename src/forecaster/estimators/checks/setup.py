"""The setup of the checks: a small city, an estimator fitted to it, and assertions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from forecaster.errors import ForecasterError
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import HOURS, RECIPE, small_city
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

Make = Callable[[Recipe], Estimator]
COLUMNS = ["unique_id", "ds", "ds_local", "cutoff", "y_hat"]


@dataclass(frozen=True)
class CheckSetup:
    """An estimator fitted to a small city."""

    make: Make
    panel: Panel
    splits: Splits
    fitted: Estimator

    @property
    def origin(self) -> int:
        """A step late in the test period."""
        return HOURS - 7

    @property
    def at(self) -> str:
        """The same step as users write it."""
        return f"{self.panel.times[self.origin]}Z"


Check = Callable[[CheckSetup], None]


def make_setup(make: Make) -> CheckSetup:
    """A new estimator fitted to the small city."""
    panel = small_city()
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    return CheckSetup(make, panel, splits, make(RECIPE).fit(panel, splits))


def need(condition: bool, message: str) -> None:
    """Raise an AssertionError unless the condition holds."""
    if not condition:
        raise AssertionError(message)


@contextmanager
def refused(error: type[ForecasterError]) -> Iterator[None]:
    """Raise an AssertionError unless the block raises this error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")
