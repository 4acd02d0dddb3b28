"""Which estimators there are, by name."""

from pathlib import Path

from forecaster.artifact import load_run
from forecaster.errors import ArtifactError
from forecaster.estimators.contract import Estimator
from forecaster.estimators.naive import HistoricalMean, SeasonalNaive
from forecaster.estimators.ridge import Ridge

ESTIMATORS: dict[str, type[Estimator]] = {
    "SeasonalNaive": SeasonalNaive,
    "HistoricalMean": HistoricalMean,
    "Ridge": Ridge,
}


def load_estimator(folder: Path | str) -> Estimator:
    """Return whatever estimator was saved in a folder."""
    run = load_run(Path(folder))
    if run.estimator not in ESTIMATORS:
        known = ", ".join(ESTIMATORS)
        raise ArtifactError(f"{folder}: the run of a {run.estimator}; this program knows {known}")
    return ESTIMATORS[run.estimator].from_run(run)
