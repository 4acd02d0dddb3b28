"""Updates a run in versions: a challenger from the champion, their comparison, and the promotion.

Every step is found again by what it was made from (champion, panel, recipe), so that repeating the
call after a kill goes on where it was, and repeating it after the end changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forecaster.artifact import Run
from forecaster.errors import ArtifactError, DataError, count_of, name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import known_part, match, splits_of
from forecaster.estimators.registry import load_estimator
from forecaster.evaluation.challenge import WEEK_SECONDS, Challenge, Knowledge, challenge
from forecaster.evaluation.refits import identify_refit, refit_in
from forecaster.panel.panel import Panel
from forecaster.pipeline.train import MessageCallback
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.training.progress import ProgressCallback
from forecaster.versions import PARENT, Version, Versions, save_verdict

Promotion = Literal["never", "auto", "always"]
HELD_OUT_DAYS = 14  # the newest, that the challenger does not learn from
FEWEST_DAYS = 7  # of them, for an interval
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class UpdateSettings:
    """How an update is done."""

    promote: Promotion = "auto"
    held_out_days: int = HELD_OUT_DAYS
    accepts_fewer: bool = False  # locations than half of the champion's


@dataclass(frozen=True, eq=False)
class Updated:
    """The outcome of an update."""

    version: Version  # the challenger
    verdict: Mapping[str, Any]
    current: str
    was_finished: bool  # before this call
    was_taken_back: bool = False  # by a person, after it had been current

    @property
    def is_promoted(self) -> bool:
        """Whether the challenger is current now."""
        return self.current == self.version.name


def update(
    runs: Path,
    panel: Panel,
    settings: UpdateSettings,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
) -> Updated:
    """Train a challenger on a panel, compare it with the current version, and promote it.

    Args:
        runs: the folder of versions.
        panel: as saved, with newer steps than the champion's.
        settings: how much is held out, and whether to promote.
        say: called before each stage.
        on_progress: called with the progress of the training.
    """
    versions = Versions(runs)
    champion_version = versions.find(versions.current_folder.name)
    champion = load_estimator(champion_version.folder)
    run = _run_of(champion)
    panel = _as_trained(run, panel, settings)
    splits = _split(run, panel, settings)
    judged = _judged_on(versions, panel, splits)
    if judged is not None:
        return _settle(versions, judged, settings, was_finished=True)
    folder = _folder(versions, *identify_refit(run, panel, splits))
    say(f"{folder.name}: training from {champion_version.name}")
    challenger = refit_in(folder, champion, panel, splits, say, on_progress)
    say(f"{folder.name}: comparing with {champion_version.name}")
    outcome = compare_versions(champion, challenger, panel, splits)
    names = {"champion": champion_version.name, "challenger": folder.name}
    save_verdict(folder, {**names, "held_out": list(splits.test[0]), **outcome.to_json()})
    return _settle(versions, versions.find(folder.name), settings, was_finished=False)


def compare_versions(
    champion: Estimator, challenger: Estimator, panel: Panel, splits: Splits
) -> Challenge:
    """Compare two versions on the held-out days, each on the locations that it knows.

    Args:
        champion: the current version.
        challenger: trained on this panel.
        panel: with the held-out days.
        splits: of the challenger; the held-out days are its test split.
    """
    before, after = _run_of(champion), _run_of(challenger)
    origins = cut_windows(panel, splits, after.recipe.lags).test
    weeks = (_learned_until(after, panel) - _learned_until(before, panel)) / WEEK_SECONDS
    gained = len(after.about["ids"]) - len(before.about["ids"])
    more = Knowledge(gained, round(float(weeks), 2))
    sides = (champion, known_part(before, panel)), (challenger, panel)
    return challenge(*sides, origins, more)


def _judged_on(versions: Versions, panel: Panel, splits: Splits) -> Version | None:
    """The newest version that these days of a panel have judged, if it still counts.

    It is the current version, was trained from it, or was taken back by a person.
    """
    current = versions.find(versions.current_folder.name)
    taken_back = versions.taken_back
    for version in reversed(versions.entries()):
        parents, verdict = version.manifest.parents, version.verdict
        if verdict is None or parents.get("panel") != panel.digest:
            continue
        from_current = parents.get(PARENT) == current.manifest.digest
        counts = version.name in {current.name, *taken_back} or from_current
        if counts and verdict.get("held_out") == list(splits.test[0]):
            return version
    return None


def _settle(
    versions: Versions, version: Version, settings: UpdateSettings, *, was_finished: bool
) -> Updated:
    """Promote a judged version, if it is to be; one that was taken back only on demand."""
    verdict = version.verdict or {}
    was_taken_back = version.name in versions.taken_back
    is_better = verdict.get("verdict") == "promote" and not was_taken_back
    wanted = {"always": True, "never": False, "auto": is_better}
    if wanted[settings.promote]:
        versions.promote(version.name)
    current = str(versions.current)
    return Updated(version, verdict, current, was_finished, was_taken_back)


def _as_trained(run: Run, panel: Panel, settings: UpdateSettings) -> Panel:
    """The panel with the covariates of a run; one that does not continue its panel is refused."""
    ids, present = run.about["ids"], {*panel.locations.ids}
    absent = [identity for identity in ids if identity not in present]
    if 2 * len(absent) >= len(ids) and not settings.accepts_fewer:
        sides = f"the panel lacks {len(absent)} of {count_of(len(ids), 'location')}"
        remedy = "--accept-fewer-places trains without them"
        raise DataError(f"{sides} that the current run knows ({name_some(absent)}); {remedy}")
    if len(absent) == len(ids):
        raise ArtifactError("the panel has none of the run's locations; train a new run")
    match(run, known_part(run, panel))  # refuses another kind, step, zone and so on
    names = tuple(run.about["covariates"]), tuple(run.about["local_covariates"])
    if names == (panel.covariates.names, panel.local_covariates.names):
        return panel
    return _keep_digest(panel.select_covariates(*names), panel)


def _keep_digest(part: Panel, panel: Panel) -> Panel:
    """A part of a panel that refers to the whole, which it is made from."""
    return replace(part, digest=panel.digest)


def _split(run: Run, panel: Panel, settings: UpdateSettings) -> Splits:
    """Everything up to the newest days is learned from; the last part of it validates.

    The newest days, after all that the champion has learned from, are held out.
    """
    times, step = panel.times, panel.times[1] - panel.times[0]
    end = times[-1] + step
    new = float((end - np.datetime64(_learned_until(run, panel), "s") - step) / _DAY)
    days = min(settings.held_out_days, int(new))
    if days < FEWEST_DAYS:
        until = f"the current run has learned until {_stamp(_learned_until(run, panel))}"
        have = f"{max(new, 0):.1f} days of the panel come after it"
        raise DataError(f"{until}; {have}, {FEWEST_DAYS} are needed to compare; append newer data")
    step = int(np.searchsorted(times, end - days * _DAY))
    return splits_of(run).until(panel, step, run.recipe.lags.horizon)


def _learned_until(run: Run, panel: Panel) -> int:
    """The last step that a run has learned from, in training or validation: seconds since 1970."""
    splits = splits_of(run)
    learned = np.zeros(len(panel.times), dtype=bool)
    for name in ("train", "validation"):
        learned |= splits.mask(name, panel.clock, panel.times)
    if not learned.any():
        raise DataError(
            "the panel has none of the steps that the current run has learned from; give the "
            "panel that continues its own, or train a new run"
        )
    return int(panel.times[learned][-1].astype("datetime64[s]").astype(np.int64))


def _stamp(seconds: int) -> str:
    return f"{np.datetime64(seconds, 's')}Z"


def _folder(versions: Versions, recipe: Recipe, parents: Mapping[str, str]) -> Path:
    """The folder of the challenger: the one that was begun from the same, or a new one."""
    for version in reversed(versions.entries()):
        begun = {name: version.manifest.parents.get(name) for name in parents}
        if begun == parents and version.manifest.recipe == recipe.digest():
            return version.folder
    return versions.next_folder()


def _run_of(estimator: Estimator) -> Run:
    if estimator.run is None:
        raise ArtifactError("the run is not fitted; train it first")
    return estimator.run
