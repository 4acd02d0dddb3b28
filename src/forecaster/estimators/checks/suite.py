"""The suite that every estimator passes, ours and anyone else's: `check_forecaster(make)`."""

from forecaster.errors import ForecasterError
from forecaster.estimators.checks.fitting import LEARNING
from forecaster.estimators.checks.forecasts import FORECASTS
from forecaster.estimators.checks.quantiles import QUANTILES
from forecaster.estimators.checks.setup import Check, Make, make_setup

CHECKS: dict[str, Check] = {
    check.__name__.strip("_").replace("_", " "): check
    for check in (*FORECASTS, *QUANTILES, *LEARNING)
}


def check_forecaster(make: Make) -> list[str]:
    """Run every check on an estimator and return their names; failures are raised together.

    Args:
        make: the class, or a function that returns a new estimator for a recipe.
    """
    world, failures = make_setup(make), []
    for name, check in CHECKS.items():
        try:
            check(world)
        except (AssertionError, ForecasterError) as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise AssertionError("\n  ".join([f"{len(failures)} checks failed", *failures]))
    return list(CHECKS)
