"""The estimators by name."""

from importlib import import_module
from pathlib import Path
from typing import Any

from forecaster.artifact import load_run
from forecaster.errors import ArtifactError, ConfigError, nearest_name
from forecaster.estimators.base import Estimator
from forecaster.versions import run_folder

# The module of each: torch takes two seconds to import and is loaded only for networks.
ESTIMATORS = {
    "LastValue": "forecaster.estimators.baselines.naive",
    "SeasonalNaive": "forecaster.estimators.baselines.naive",
    "HistoricalMean": "forecaster.estimators.baselines.naive",
    "Ridge": "forecaster.estimators.baselines.ridge",
    "Boosting": "forecaster.estimators.baselines.boosting",
    "VAR": "forecaster.estimators.baselines.var",
    "DCRNN": "forecaster.estimators.networks.dcrnn",
    "STID": "forecaster.estimators.networks.peers",
    "GraphWaveNet": "forecaster.estimators.networks.peers",
    "STAEformer": "forecaster.estimators.networks.peers",
    "Transformer": "forecaster.estimators.networks.transformer",
    "Forecaster": "forecaster.estimators.networks.forecaster",
    "Ensemble": "forecaster.estimators.ensemble.ensemble",
}

# Networks of others with the lags of all: the estimator, and values of its section of the recipe.
LAGGED: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "DCRNN-lags": ("DCRNN", {"dcrnn": {"inputs": "lags"}}),
    "STID-lags": ("STID", {"stid": {"inputs": "lags"}}),
    "GraphWaveNet-lags": ("GraphWaveNet", {"graph_wavenet": {"inputs": "lags"}}),
    "STAEformer-lags": ("STAEformer", {"staeformer": {"inputs": "lags"}}),
}


def find_estimator(name: str) -> type[Estimator]:
    """The estimator class of a name."""
    if name not in ESTIMATORS:
        hint = nearest_name(name, list(ESTIMATORS))
        raise ConfigError(f"no estimator {name!r}{hint}; there are {', '.join(ESTIMATORS)}")
    estimator: type[Estimator] = getattr(import_module(ESTIMATORS[name]), name)
    return estimator


def load_estimator(folder: Path | str) -> Estimator:
    """Load an estimator of any class from the folder that it was saved in.

    Of a folder of versions it is the current one.
    """
    run = load_run(run_folder(Path(folder)))
    if run.estimator not in ESTIMATORS:
        names = ", ".join(ESTIMATORS)
        raise ArtifactError(f"{folder}: the run of a {run.estimator}; this program knows {names}")
    return find_estimator(run.estimator).from_run(run)
