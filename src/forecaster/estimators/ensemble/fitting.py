"""The fits of an ensemble's members: networks are trained together, the others in turn."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from forecaster.artifact import Run
from forecaster.errors import ConfigError, DataError, count_of
from forecaster.estimators.ensemble.members import Member
from forecaster.estimators.networks.estimator import NetworkEstimator, NetworkFit
from forecaster.estimators.training_data import FitResult, TrainingData
from forecaster.training.progress import ProgressUpdate
from forecaster.training.together import count_workers, train_together

log = logging.getLogger(__name__)


@dataclass
class MemberFits:
    """The results of the members by name, and why others were left out."""

    results: dict[str, FitResult] = field(default_factory=dict)
    failures: dict[str, ConfigError | DataError] = field(default_factory=dict)
    seconds: float = 0.0  # of training, including resumed parts

    def attempt(self, member: Member, job: Callable[[], None]) -> None:
        """Run a part of a fit; a member that data or installation do not allow is left out."""
        try:
            job()
        except (ConfigError, DataError) as error:
            _refuse_wrong_settings(error)
            log.warning("%s is left out of the ensemble: %s", member.name, error)
            self.failures[member.name] = error


def fit_members(members: Sequence[Member], data: TrainingData, start: Run | None) -> MemberFits:
    """Fit every member that these data and this installation allow.

    Args:
        members: not fitted yet.
        data: what they are fitted to; each has a folder of its own for checkpoints.
        start: the run that the fits go on from, if any.
    """
    for member in members:
        if start is not None and member.is_in(start.arrays):
            member.estimator.start = member.run_of(start)
    fits = MemberFits()
    _train_networks(fits, members, data)
    for number, member in enumerate(members, start=1):
        if isinstance(member.estimator, NetworkEstimator):
            continue
        announce(data, f"member {number} of {len(members)}: {member.name} …")

        def fit(member: Member = member) -> None:
            result = member.estimator.fit_windows(_in_folder(data, member))
            fits.results[member.name] = result
            fits.seconds += result.seconds or 0.0

        fits.attempt(member, fit)
    return fits


def _train_networks(fits: MemberFits, members: Sequence[Member], data: TrainingData) -> None:
    """Train all networks among the members together."""
    begun: dict[str, NetworkFit] = {}
    for member in members:
        estimator = member.estimator
        if isinstance(estimator, NetworkEstimator):

            def begin(member: Member = member, estimator: NetworkEstimator = estimator) -> None:
                begun[member.name] = estimator.begin_fit(_in_folder(data, member))

            fits.attempt(member, begin)
    if not begun:
        return
    count = f"{count_of(len(begun), 'network')} of {count_of(len(members), 'member')}"
    announce(data, f"{count}: {', '.join(begun)} …")
    trainings = [replace(fit.training, name=name) for name, fit in begun.items()]
    outcomes = train_together(trainings, data.on_progress)
    for (name, fit), outcome in zip(begun.items(), outcomes, strict=True):
        fits.results[name] = fit.finish(outcome)
    seconds = sum(fits.results[name].seconds or 0.0 for name in begun)
    fits.seconds += seconds / count_workers(trainings)


def _in_folder(data: TrainingData, member: Member) -> TrainingData:
    folder = None if data.folder is None else data.folder / member.folder
    return replace(data, folder=folder)


def announce(data: TrainingData, message: str) -> None:
    """Show a message among the progress of a fit."""
    if data.on_progress is not None:
        data.on_progress(ProgressUpdate.stage(message))


def _refuse_wrong_settings(error: ConfigError | DataError) -> None:
    """Raise an error of the settings again, unless a package is not installed."""
    if isinstance(error, ConfigError) and not isinstance(error.__cause__, ModuleNotFoundError):
        raise error
