"""The paper's table from a recipe: every model and seed on the same test windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from forecaster.errors import count_of
from forecaster.evaluation.comparison import Comparison, Row, describe_panel
from forecaster.evaluation.model_specs import Entry
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.train import Say
from forecaster.pipeline.trials import Cell, explain, make_cell, result, validation_loss
from forecaster.pipeline.workers import Failures, run_cells
from forecaster.publish.writing import bytes_writer, locked, replace_file
from forecaster.recipe import Recipe, change
from forecaster.training.progress import ProgressCallback

TABLES = {".md": "to_markdown", ".csv": "to_csv", ".json": "to_json"}


@dataclass(frozen=True)
class Contender:
    """A row on its way into the table: what validation has chosen so far, or why it failed."""

    entry: Entry
    chosen: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)  # of options: why, by which
    lost: bool = False  # there was nothing left to choose from

    @property
    def undecided(self) -> bool:
        """Tell whether something is still to be chosen."""
        return bool(self.entry.choices) and not self.lost


def evaluate_entries(
    entries: Sequence[Entry],
    study: Study,
    jobs: int,
    say: Say,
    watch: ProgressCallback | None = None,
) -> Comparison:
    """Train and test every row with every seed, and write the tables into the study's folder.

    The same call goes on where the last one ended, cell by cell; cells that failed are tried
    again.
    """
    study.folder.mkdir(parents=True, exist_ok=True)
    with locked(study.folder):  # two at once would each find the other's cells taken
        windows, weathers = len(study.origins), ", ".join(study.usable_weathers)
        say(f"{count_of(windows, 'test window')}, coming weather {weathers}")
        run = _Runner(study, jobs, say, watch)
        _learn_graphs(entries, study, say)
        contenders = [Contender(entry) for entry in entries]
        while any(contender.undecided for contender in contenders):
            contenders = run.choose(contenders)
        comparison = run.test(contenders)
        for path, form in zip(table_paths(study), TABLES.values(), strict=True):
            text: str = getattr(comparison, form)()
            replace_file(path, bytes_writer(text.encode()))
    return comparison


def table_paths(study: Study) -> list[Path]:
    """Return where the tables are written."""
    return [study.folder / f"table{study.suffix}{form}" for form in TABLES]


@dataclass(frozen=True, eq=False)
class _Runner:
    """Runs the cells that a step of the evaluation needs."""

    study: Study
    jobs: int
    say: Say
    watch: ProgressCallback | None

    def choose(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Return the contenders with their next choice made by validation loss."""
        seed = self.study.recipe.training.seed
        options: dict[int, dict[str, Cell]] = {}
        for number, contender in enumerate(contenders):
            if contender.undecided:
                options[number] = {
                    name: make_cell(self.study, entry, seed, tested=False)
                    for name, entry in _options(contender.entry).items()
                }
        failures = self._run([cell for named in options.values() for cell in named.values()])
        return [
            _decide(contender, options[number], failures) if number in options else contender
            for number, contender in enumerate(contenders)
        ]

    def test(self, contenders: Sequence[Contender]) -> Comparison:
        """Return the table of contenders that have nothing left to choose."""
        recipe, rows = self.study.recipe, []
        cells = [
            [make_cell(self.study, c.entry, seed) for seed in _seeds(c, recipe)]
            for c in contenders
        ]
        failures = self._run([cell for several in cells for cell in several])
        for contender, several in zip(contenders, cells, strict=True):
            entry, found, why = contender.entry, {}, dict(contender.failures)
            for cell in several:
                tested = result(cell, self.study)
                if tested is not None:
                    found[cell.seed] = tested
                else:
                    why[f"seed {cell.seed}"] = failures.get(cell.folder, "it was not tested")
            folder = self.study.folder
            runs = {c.seed: str(c.folder.relative_to(folder)) for c in several if c.seed in found}
            chosen = contender.chosen
            rows.append(Row(entry.name, entry.estimator, found, why, chosen, entry.of, runs))
        about = {**describe_panel(self.study.panel), "recipe": recipe.digest()}
        about["tested"] = [list(pair) for pair in self.study.tested or self.study.splits.test]
        return Comparison(rows, recipe.metrics.mape_cut, about)

    def _run(self, cells: Sequence[Cell]) -> Failures:
        return run_cells(cells, self.study, self.jobs, self.say, self.watch)


def _options(entry: Entry) -> dict[str, Entry]:
    """Return what the next choice of a row is between."""
    choice, *later = entry.choices
    return {
        name: replace(
            entry,
            name=f"{entry.name} ({choice.what} {name})",
            recipe=change(entry.recipe, values, source=f"{entry.name}, {choice.what} {name}"),
            choices=tuple(later),
        )
        for name, values in choice.options.items()
    }


def _decide(contender: Contender, cells: Mapping[str, Cell], failures: Failures) -> Contender:
    """Return the contender as the option with the lowest validation loss."""
    entry, what = contender.entry, contender.entry.choices[0].what
    failed = {f"{what} {n}": failures[c.folder] for n, c in cells.items() if c.folder in failures}
    losses = {n: validation_loss(c) for n, c in cells.items() if c.folder not in failures}
    known = replace(contender, failures={**contender.failures, **failed})
    if not losses:
        return replace(known, lost=True)
    best = min(losses, key=lambda name: losses[name])
    chosen = replace(_options(entry)[best], name=entry.name)
    return replace(known, entry=chosen, chosen={**contender.chosen, what: best})


def _seeds(contender: Contender, recipe: Recipe) -> list[int]:
    """Return the seeds of a row: one, unless another would give another model."""
    if contender.lost:
        return []
    first, several = recipe.training.seed, contender.entry.seeded
    return list(range(first, first + (recipe.evaluation.seeds if several else 1)))


def _learn_graphs(entries: Sequence[Entry], study: Study, say: Say) -> None:
    """Learn every graph once, before several processes ask for it."""
    for entry in entries:
        if entry.estimator != "Forecaster":
            continue
        several = _options(entry).values() if entry.choices else [entry]
        for option in several:
            try:
                study.graph(option.recipe, say)
            except Exception as error:  # whatever it is, its cells will say so
                say(f"{option.name}: no graph ({explain(error)})")
