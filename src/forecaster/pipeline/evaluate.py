"""Trains and tests every model and seed of a comparison, and writes its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from forecaster.choices import TrialEngine
from forecaster.errors import count_of
from forecaster.estimators.registry import find_estimator
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.comparison import (
    Comparison,
    ModelResult,
    describe_panel,
    refit_rows,
)
from forecaster.evaluation.model_specs import ModelSpec
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.train import MessageCallback
from forecaster.pipeline.trials import (
    Trial,
    failure_reason,
    load_result,
    make_trial,
    validation_loss,
)
from forecaster.pipeline.workers import Failures, run_trials
from forecaster.publish.writing import bytes_writer, locked, replace_file
from forecaster.recipe import Recipe, change
from forecaster.training.progress import ProgressCallback

TABLES = {".md": "to_markdown", ".csv": "to_csv", ".json": "to_json"}


@dataclass(frozen=True)
class ModelSelection:
    """A model with the hyperparameters that validation has chosen so far, and failed options."""

    spec: ModelSpec
    chosen: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)  # reasons, by option
    failed: bool = False  # every option failed

    @property
    def is_open(self) -> bool:
        """Whether a hyperparameter is still to be chosen."""
        return bool(self.spec.hyperparameters) and not self.failed


def evaluate_models(
    specs: Sequence[ModelSpec],
    experiment: Experiment,
    jobs: int,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
    engine: TrialEngine = "processes",
) -> Comparison:
    """Train and test every model with every seed, and write the tables into the folder.

    Repeating the call resumes an interrupted comparison: finished trials are kept, failed trials
    are tried again.
    """
    experiment.folder.mkdir(parents=True, exist_ok=True)
    with locked(experiment.folder):  # two commands at once would disturb each other's trials
        windows, weathers = len(experiment.origins), ", ".join(experiment.weathers)
        say(f"{count_of(windows, 'test window')}, future covariates: {weathers}")
        runner = _Runner(experiment, jobs, engine, say, on_progress)
        _learn_graphs(specs, experiment, say)
        selections = [ModelSelection(spec) for spec in specs]
        while any(selection.is_open for selection in selections):
            selections = runner.choose(selections)
        comparison = runner.test(selections)
        for path, method in zip(table_paths(experiment), TABLES.values(), strict=True):
            text: str = getattr(comparison, method)()
            replace_file(path, bytes_writer(text.encode()))
    return comparison


def table_paths(experiment: Experiment) -> list[Path]:
    """Return the files of the tables."""
    return [experiment.folder / f"table{experiment.suffix}{suffix}" for suffix in TABLES]


@dataclass(frozen=True, eq=False)
class _Runner:
    """Runs the trials of each stage of a comparison."""

    experiment: Experiment
    jobs: int
    engine: TrialEngine
    say: MessageCallback
    on_progress: ProgressCallback | None

    def choose(self, selections: Sequence[ModelSelection]) -> list[ModelSelection]:
        """Choose the next hyperparameter of each model by validation loss."""
        seed = self.experiment.recipe.training.seed
        options: dict[int, dict[str, Trial]] = {}
        for number, selection in enumerate(selections):
            if selection.is_open:
                options[number] = {
                    option: make_trial(self.experiment, spec, seed, tested=False)
                    for option, spec in _options(selection.spec).items()
                }
        failures = self._run([trial for trials in options.values() for trial in trials.values()])
        return [
            _select(selection, options[number], failures) if number in options else selection
            for number, selection in enumerate(selections)
        ]

    def test(self, selections: Sequence[ModelSelection]) -> Comparison:
        """Test the chosen models with every seed."""
        recipe = self.experiment.recipe
        trials_of = [
            [make_trial(self.experiment, s.spec, seed) for seed in _seeds(s, recipe)]
            for s in selections
        ]
        failures = self._run([trial for trials in trials_of for trial in trials])
        rows = [
            row
            for selection, trials in zip(selections, trials_of, strict=True)
            for row in self._model_results(selection, trials, failures)
        ]
        about = {**describe_panel(self.experiment.panel), "recipe": recipe.digest()}
        test_ranges = self.experiment.tested or self.experiment.splits.test
        about["tested"] = [list(days) for days in test_ranges]
        return Comparison(rows, recipe.metrics.mape_cut, about)

    def _model_results(
        self, selection: ModelSelection, trials: Sequence[Trial], failures: Failures
    ) -> list[ModelResult]:
        """The row of a model, and of the same model refitted on the way."""
        experiment, spec = self.experiment, selection.spec
        tests = [_read_tests(trials, experiment, failures, days) for days in experiment.tests]
        results, reasons = tests[0]
        runs = {
            trial.seed: str(trial.folder.relative_to(experiment.folder))
            for trial in trials
            if trial.seed in results
        }
        row = ModelResult(
            spec.name,
            spec.estimator,
            results,
            {**selection.failures, **reasons},
            selection.chosen,
            spec.of,
            runs,
        )
        return [row, *refit_rows(row, *tests[-1], experiment.refit_days)]

    def _run(self, trials: Sequence[Trial]) -> Failures:
        return run_trials(
            trials, self.experiment, self.jobs, self.say, self.on_progress, self.engine
        )


def _read_tests(
    trials: Sequence[Trial], experiment: Experiment, failures: Failures, refit_days: int | None
) -> tuple[dict[int, BacktestResult], dict[str, str]]:
    """The backtests by seed, and the reasons of those that are missing."""
    results, reasons = dict[int, BacktestResult](), dict[str, str]()
    for trial in trials:
        result = load_result(trial, experiment, refit_days)
        if result is None:
            reasons[f"seed {trial.seed}"] = failures.get(trial.folder, "it was not tested")
        else:
            results[trial.seed] = result
    return results, reasons


def _options(spec: ModelSpec) -> dict[str, ModelSpec]:
    """Return the model with each option of its next hyperparameter."""
    hyperparameter, *remaining = spec.hyperparameters
    options = {}
    for option, values in hyperparameter.options.items():
        name = f"{hyperparameter.name} {option}"
        options[option] = replace(
            spec,
            name=f"{spec.name} ({name})",
            recipe=change(spec.recipe, values, source=f"{spec.name}, {name}"),
            hyperparameters=tuple(remaining),
        )
    return options


def _select(
    selection: ModelSelection, trials: Mapping[str, Trial], failures: Failures
) -> ModelSelection:
    """Choose the option with the lowest validation loss."""
    spec, name = selection.spec, selection.spec.hyperparameters[0].name
    failed = {f"{name} {o}": failures[t.folder] for o, t in trials.items() if t.folder in failures}
    losses = {o: validation_loss(t) for o, t in trials.items() if t.folder not in failures}
    updated = replace(selection, failures={**selection.failures, **failed})
    if not losses:
        return replace(updated, failed=True)
    best = min(losses, key=lambda option: losses[option])
    best_spec = replace(_options(spec)[best], name=spec.name)
    return replace(updated, spec=best_spec, chosen={**selection.chosen, name: best})


def _seeds(selection: ModelSelection, recipe: Recipe) -> list[int]:
    """Return the seeds of a model; one only, if the seed does not matter."""
    if selection.failed:
        return []
    first = recipe.training.seed
    return list(range(first, first + (recipe.evaluation.seeds if selection.spec.seeded else 1)))


def _learn_graphs(
    specs: Sequence[ModelSpec], experiment: Experiment, say: MessageCallback
) -> None:
    """Learn every graph once, before several processes need it."""
    for spec in specs:
        if not find_estimator(spec.estimator).takes_graph:
            continue
        options = _options(spec).values() if spec.hyperparameters else [spec]
        for option in options:
            try:
                experiment.graph(option.recipe, say)
            except Exception as error:  # any error: its trials will report it
                say(f"{option.name}: no graph ({failure_reason(error)})")
