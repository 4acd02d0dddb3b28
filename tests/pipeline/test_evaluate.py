import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.artifact import load_run
from forecaster.errors import DataError, RunError
from forecaster.estimators.checks.sample import small_city
from forecaster.evaluation.comparison import Comparison
from forecaster.evaluation.model_specs import Ablations, Hyperparameter, ModelSpec, list_models
from forecaster.panel.panel import Panel
from forecaster.pipeline.evaluate import evaluate_models
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.trials import make_trial, validation_loss
from forecaster.publish.writing import locked
from forecaster.recipe import Recipe, change


def quiet(_: str) -> None:
    """Say nothing."""


def evaluate(experiment: Experiment, *specs: ModelSpec) -> Comparison:
    return evaluate_models(specs, experiment, 1, quiet)


def test_every_model_and_seed_is_tested_and_the_tables_are_written(
    experiment: Experiment, recipe: Recipe
) -> None:
    comparison = evaluate(experiment, *list_models(recipe, ["Ridge", "Forecaster"]))
    assert [(row.name, list(row.results)) for row in comparison.rows] == [
        ("Ridge", [0]),  # no chance in it
        ("Forecaster", [0, 1]),
    ]
    assert (experiment.folder / "table.md").read_text() == comparison.to_markdown()
    assert (experiment.folder / "table.csv").read_text() == comparison.to_csv()
    content = json.loads((experiment.folder / "table.json").read_text())
    assert content["recipe"] == recipe.digest()
    assert content["panel"] == experiment.panel.digest
    run = load_run(experiment.folder / content["rows"][1]["runs"]["1"])
    assert run.recipe.training.seed == 1


def test_the_same_call_resumes_trial_by_trial(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = list_models(recipe, ["Ridge", "Forecaster"])
    evaluate(experiment, specs[0])
    trained: list[str] = []

    def train(name: str, *_: object) -> None:
        trained.append(name)
        raise ValueError("not now")

    monkeypatch.setattr("forecaster.pipeline.trials.train_run", train)
    comparison = evaluate(experiment, *specs)
    assert trained == ["Forecaster", "Forecaster"]
    assert comparison.rows[1].failures == {f"seed {s}": "ValueError: not now" for s in (0, 1)}
    monkeypatch.undo()
    again = evaluate(experiment, *specs)
    assert not again.rows[1].failures  # what failed is tried again


def test_validation_chooses_and_the_chosen_is_not_trained_twice(
    experiment: Experiment, recipe: Recipe
) -> None:
    rates = {f"{rate:g}": {"training": {"learning_rate": rate}} for rate in (1e-9, 3e-3)}
    dropouts = {"0": {"model": {"dropout": 0.0}}, "0.9": {"model": {"dropout": 0.9}}}
    choices = (Hyperparameter("rate", rates), Hyperparameter("dropout", dropouts))
    comparison = evaluate(experiment, ModelSpec("Transformer", "Transformer", recipe, choices))
    row = comparison.rows[0]
    assert row.chosen["rate"] == "0.003"
    runs = list((experiment.folder / "cells").iterdir())
    assert len(runs) == 2 + 1 + 1  # both rates, the other dropout, the other seed
    losses = {}
    for name, values in dropouts.items():
        chosen = change(recipe, rates["0.003"], values, source="")
        trial = make_trial(experiment, ModelSpec("Transformer", "Transformer", chosen), 0)
        losses[name] = validation_loss(trial)
    assert row.chosen["dropout"] == min(losses, key=lambda name: losses[name])
    assert "(rate 0.003; dropout" in comparison.to_markdown()


def test_a_failed_option_is_reported_and_the_others_are_compared(
    experiment: Experiment, recipe: Recipe
) -> None:
    kinds = {kind: {"graph": {"kind": kind}} for kind in ("distance", "own")}
    spec = ModelSpec("Forecaster", "Forecaster", recipe, (Hyperparameter("kind", kinds),))
    row = evaluate(experiment, spec).rows[0]
    assert row.chosen == {"kind": "own"}
    assert list(row.failures) == ["kind distance"]
    assert list(row.results) == [0, 1]
    none = replace(
        spec, hyperparameters=(Hyperparameter("kind", {"distance": kinds["distance"]}),)
    )
    lost = evaluate(experiment, none, ModelSpec("Ridge", "Ridge", recipe))
    assert not lost.rows[0].results
    assert "- Forecaster, kind distance: no coordinates" in lost.to_markdown()
    assert lost.rows[1].results


def test_a_row_whose_model_fails_loses_neither_its_variants_nor_the_table(
    experiment: Experiment, recipe: Recipe
) -> None:
    nowhere = change(recipe, {"graph": {"kind": "distance"}}, source="")
    specs = list_models(nowhere, ["Ridge", "Forecaster"], ablations=Ablations(graph=["own"]))
    comparison = evaluate(experiment, *specs)
    assert [row.name for row in comparison.tested] == ["Ridge", "Forecaster, graph own"]
    assert "seed 0" in comparison.rows[1].failures
    assert (experiment.folder / "table.md").exists()


def test_two_at_once_in_one_folder_are_refused(experiment: Experiment, recipe: Recipe) -> None:
    experiment.folder.mkdir()
    with locked(experiment.folder), pytest.raises(RunError, match="locked by pid"):
        evaluate(experiment, *list_models(recipe, ["Ridge"]))


def test_days_that_cannot_be_tested_are_refused_before_anything_is_trained(
    experiment: Experiment, recipe: Recipe
) -> None:
    learned = Experiment(
        experiment.folder,
        experiment.panel_folder,
        recipe,
        experiment.weathers,
        (("2021-03-05", "2021-03-06"),),
    )
    with pytest.raises(DataError, match="in both train and test"):
        evaluate(learned, *list_models(recipe, ["Ridge"]))
    assert not (experiment.folder / "cells").exists()


def test_ablations_are_tested_on_the_windows_of_their_row(
    experiment: Experiment, recipe: Recipe
) -> None:
    tried = Ablations(graph=["own"], lags=["recent"])
    comparison = evaluate(experiment, *list_models(recipe, ["Forecaster"], ablations=tried))
    assert [row.of for row in comparison.rows] == [None, "Forecaster", "Forecaster"]
    origins = comparison.rows[0].first.origins
    assert all(np.array_equal(row.first.origins, origins) for row in comparison.rows)


def test_seeds_change_the_weights_and_nothing_else(experiment: Experiment, recipe: Recipe) -> None:
    (row,) = evaluate(experiment, *list_models(recipe, ["Forecaster"])).rows
    one, two = (load_run(experiment.folder / row.runs[seed]) for seed in (0, 1))
    moved = {name for name in one.arrays if not np.array_equal(one.arrays[name], two.arrays[name])}
    assert moved
    assert all(name.startswith(("model.", "intervals.")) for name in moved)
    assert one.arrays.keys() == two.arrays.keys()
    assert one.parents == two.parents
    first, second = (run.recipe.model_dump() for run in (one, two))
    assert first["training"].pop("seed") != second["training"].pop("seed")
    assert first == second
    assert np.array_equal(row.results[0].origins, row.results[1].origins)


def test_P3_nothing_before_the_test_depends_on_test_hours(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    panel = small_city()
    held_out = experiment.splits.mask("test", panel.clock, panel.times)
    values = panel.values.copy()
    values[held_out] = values[held_out][::-1] * 3 + 1
    replace(panel, values=values).save(tmp_path / "changed")
    other = Experiment(
        tmp_path / "other", tmp_path / "changed", recipe, experiment.requested_weathers
    )
    options = {str(n): {"model": {"per_location": n}} for n in (2, 4)}
    specs = [
        ModelSpec("Ridge", "Ridge", recipe),
        ModelSpec("Forecaster", "Forecaster", recipe, (Hyperparameter("neurons", options),)),
    ]
    here, there = (evaluate(s, *specs) for s in (experiment, other))
    for one, two in zip(here.rows, there.rows, strict=True):
        assert one.chosen == two.chosen
        for seed, folder in one.runs.items():
            mine, theirs = (
                load_run(experiment.folder / folder),
                load_run(other.folder / two.runs[seed]),
            )
            assert mine.arrays.keys() == theirs.arrays.keys()
            for name, array in mine.arrays.items():
                assert np.array_equal(array, theirs.arrays[name]), name
    assert here.to_dict()["rows"] != there.to_dict()["rows"]  # the test itself is another


def test_other_days_are_tested_without_training_again(
    experiment: Experiment, recipe: Recipe
) -> None:
    specs = list_models(recipe, ["Ridge"])
    first = evaluate(experiment, *specs)
    days = (("2021-04-08", "2021-04-09"),)
    other = Experiment(
        experiment.folder, experiment.panel_folder, recipe, experiment.requested_weathers, days
    )
    messages: list[str] = []
    comparison = evaluate_models(specs, other, 1, messages.append)
    assert "training Ridge" not in messages
    assert comparison.to_dict()["tested"] == [["2021-04-08", "2021-04-09"]]
    local = experiment.panel.clock.local(experiment.panel.times[other.origins + 1])
    assert {str(day) for day in local.astype("datetime64[D]")} == {"2021-04-08", "2021-04-09"}
    assert (
        experiment.folder / "table-2021-04-08-2021-04-09.md"
    ).read_text() == comparison.to_markdown()
    assert (experiment.folder / "table.md").read_text() == first.to_markdown()  # untouched


def test_P8_targets_below_the_cut_give_no_mape(experiment: Experiment, recipe: Recipe) -> None:
    high = change(recipe, {"metrics": {"mape_cut": 1e6}}, source="")
    other = Experiment(experiment.folder, experiment.panel_folder, high, ("observed",))
    text = evaluate(other, *list_models(high, ["Ridge", "SeasonalNaive"])).to_markdown()
    assert "| Ridge | n/a (0 terms) | n/a (0 terms) | n/a (0 terms) |" in text


def test_the_panel_of_a_study_is_verified(experiment: Experiment) -> None:
    assert isinstance(experiment.panel, Panel)
    assert experiment.panel.digest
