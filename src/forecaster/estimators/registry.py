"""Which estimators there are, by name."""

from importlib import import_module
from pathlib import Path

from forecaster.artifact import load_run
from forecaster.errors import ArtifactError, ConfigError, nearest_name
from forecaster.estimators.base import Estimator

# Where each lives: torch, two seconds, is loaded for those alone that need it.
ESTIMATORS = {
    "SeasonalNaive": "forecaster.estimators.baselines.naive",
    "HistoricalMean": "forecaster.estimators.baselines.naive",
    "Ridge": "forecaster.estimators.baselines.ridge",
    "Boosting": "forecaster.estimators.baselines.boosting",
    "VAR": "forecaster.estimators.baselines.var",
    "DCRNN": "forecaster.estimators.networks.dcrnn",
    "Transformer": "forecaster.estimators.networks.transformer",
    "Forecaster": "forecaster.estimators.networks.forecaster",
}


def find_estimator(name: str) -> type[Estimator]:
    """Return the class of that name."""
    if name not in ESTIMATORS:
        hint = nearest_name(name, list(ESTIMATORS))
        raise ConfigError(f"no estimator {name!r}{hint}; there are {', '.join(ESTIMATORS)}")
    found: type[Estimator] = getattr(import_module(ESTIMATORS[name]), name)
    return found


def load_estimator(folder: Path | str) -> Estimator:
    """Load a saved estimator, whatever its class."""
    run = load_run(Path(folder))
    if run.estimator not in ESTIMATORS:
        known = ", ".join(ESTIMATORS)
        raise ArtifactError(f"{folder}: the run of a {run.estimator}; this program knows {known}")
    return find_estimator(run.estimator).from_run(run)
