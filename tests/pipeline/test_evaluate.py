import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.artifact import load_run
from forecaster.errors import DataError, RunError
from forecaster.estimators.checks.sample import small_city
from forecaster.evaluation.comparison import Comparison
from forecaster.evaluation.model_specs import Ablations, Choice, Entry, list_entries
from forecaster.panel.panel import Panel
from forecaster.pipeline.evaluate import evaluate_entries
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.trials import make_cell, validation_loss
from forecaster.publish.writing import locked
from forecaster.recipe import Recipe, change


def quiet(_: str) -> None:
    """Say nothing."""


def evaluate(study: Study, *entries: Entry) -> Comparison:
    return evaluate_entries(entries, study, 1, quiet)


def test_every_model_and_seed_is_tested_and_the_tables_are_written(
    study: Study, recipe: Recipe
) -> None:
    found = evaluate(study, *list_entries(recipe, ["Ridge", "Forecaster"]))
    assert [(row.name, list(row.found)) for row in found.rows] == [
        ("Ridge", [0]),  # no chance in it
        ("Forecaster", [0, 1]),
    ]
    assert (study.folder / "table.md").read_text() == found.to_markdown()
    assert (study.folder / "table.csv").read_text() == found.to_csv()
    content = json.loads((study.folder / "table.json").read_text())
    assert content["recipe"] == recipe.digest()
    assert content["panel"] == study.panel.digest
    run = load_run(study.folder / content["rows"][1]["runs"]["1"])
    assert run.recipe.training.seed == 1


def test_the_same_call_goes_on_cell_by_cell(
    study: Study, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list_entries(recipe, ["Ridge", "Forecaster"])
    evaluate(study, entries[0])
    trained: list[str] = []

    def train(name: str, *_: object) -> None:
        trained.append(name)
        raise ValueError("not now")

    monkeypatch.setattr("forecaster.pipeline.trials.train_run", train)
    found = evaluate(study, *entries)
    assert trained == ["Forecaster", "Forecaster"]
    assert found.rows[1].failures == {f"seed {s}": "ValueError: not now" for s in (0, 1)}
    monkeypatch.undo()
    again = evaluate(study, *entries)
    assert not again.rows[1].failures  # what failed is tried again


def test_validation_chooses_and_the_chosen_is_not_trained_twice(
    study: Study, recipe: Recipe
) -> None:
    rates = {f"{rate:g}": {"training": {"learning_rate": rate}} for rate in (1e-9, 3e-3)}
    dropouts = {"0": {"model": {"dropout": 0.0}}, "0.9": {"model": {"dropout": 0.9}}}
    choices = (Choice("rate", rates), Choice("dropout", dropouts))
    found = evaluate(study, Entry("Transformer", "Transformer", recipe, choices))
    row = found.rows[0]
    assert row.chosen["rate"] == "0.003"
    runs = list((study.folder / "cells").iterdir())
    assert len(runs) == 2 + 1 + 1  # both rates, the other dropout, the other seed
    losses = {}
    for name, values in dropouts.items():
        chosen = change(recipe, rates["0.003"], values, source="")
        cell = make_cell(study, Entry("Transformer", "Transformer", chosen), 0)
        losses[name] = validation_loss(cell)
    assert row.chosen["dropout"] == min(losses, key=lambda name: losses[name])
    assert "(rate 0.003; dropout" in found.to_markdown()


def test_an_option_that_fails_is_told_and_the_others_are_chosen_from(
    study: Study, recipe: Recipe
) -> None:
    kinds = {kind: {"graph": {"kind": kind}} for kind in ("distance", "own")}
    entry = Entry("Forecaster", "Forecaster", recipe, (Choice("kind", kinds),))
    row = evaluate(study, entry).rows[0]
    assert row.chosen == {"kind": "own"}
    assert list(row.failures) == ["kind distance"]
    assert list(row.found) == [0, 1]
    none = replace(entry, choices=(Choice("kind", {"distance": kinds["distance"]}),))
    lost = evaluate(study, none, Entry("Ridge", "Ridge", recipe))
    assert not lost.rows[0].found
    assert "- Forecaster, kind distance: no coordinates" in lost.to_markdown()
    assert lost.rows[1].found


def test_a_row_whose_model_fails_loses_neither_its_variants_nor_the_table(
    study: Study, recipe: Recipe
) -> None:
    nowhere = change(recipe, {"graph": {"kind": "distance"}}, source="")
    entries = list_entries(nowhere, ["Ridge", "Forecaster"], ablations=Ablations(graph=["own"]))
    found = evaluate(study, *entries)
    assert [row.name for row in found.tested] == ["Ridge", "Forecaster, graph own"]
    assert "seed 0" in found.rows[1].failures
    assert (study.folder / "table.md").exists()


def test_two_at_once_in_one_folder_are_refused(study: Study, recipe: Recipe) -> None:
    study.folder.mkdir()
    with locked(study.folder), pytest.raises(RunError, match="locked by pid"):
        evaluate(study, *list_entries(recipe, ["Ridge"]))


def test_days_that_cannot_be_tested_are_refused_before_anything_is_trained(
    study: Study, recipe: Recipe
) -> None:
    learned = Study(
        study.folder, study.panel_folder, recipe, study.weathers, (("2021-03-05", "2021-03-06"),)
    )
    with pytest.raises(DataError, match="in both train and test"):
        evaluate(learned, *list_entries(recipe, ["Ridge"]))
    assert not (study.folder / "cells").exists()


def test_ablations_are_tested_on_the_windows_of_their_row(study: Study, recipe: Recipe) -> None:
    tried = Ablations(graph=["own"], lags=["recent"])
    found = evaluate(study, *list_entries(recipe, ["Forecaster"], ablations=tried))
    assert [row.of for row in found.rows] == [None, "Forecaster", "Forecaster"]
    origins = found.rows[0].first.origins
    assert all(np.array_equal(row.first.origins, origins) for row in found.rows)


def test_seeds_change_the_weights_and_nothing_else(study: Study, recipe: Recipe) -> None:
    (row,) = evaluate(study, *list_entries(recipe, ["Forecaster"])).rows
    one, two = (load_run(study.folder / row.runs[seed]) for seed in (0, 1))
    moved = {name for name in one.arrays if not np.array_equal(one.arrays[name], two.arrays[name])}
    assert moved
    assert all(name.startswith(("model.", "intervals.")) for name in moved)
    assert one.arrays.keys() == two.arrays.keys()
    assert one.parents == two.parents
    first, second = (run.recipe.model_dump() for run in (one, two))
    assert first["training"].pop("seed") != second["training"].pop("seed")
    assert first == second
    assert np.array_equal(row.found[0].origins, row.found[1].origins)


def test_P3_nothing_before_the_test_depends_on_test_hours(
    study: Study, recipe: Recipe, tmp_path: Path
) -> None:
    panel = small_city()
    held_out = study.splits.mask("test", panel.clock, panel.times)
    values = panel.values.copy()
    values[held_out] = values[held_out][::-1] * 3 + 1
    replace(panel, values=values).save(tmp_path / "changed")
    other = Study(tmp_path / "other", tmp_path / "changed", recipe, study.weathers)
    options = {str(n): {"model": {"per_location": n}} for n in (2, 4)}
    entries = [
        Entry("Ridge", "Ridge", recipe),
        Entry("Forecaster", "Forecaster", recipe, (Choice("neurons", options),)),
    ]
    here, there = (evaluate(s, *entries) for s in (study, other))
    for one, two in zip(here.rows, there.rows, strict=True):
        assert one.chosen == two.chosen
        for seed, folder in one.runs.items():
            mine, theirs = load_run(study.folder / folder), load_run(other.folder / two.runs[seed])
            assert mine.arrays.keys() == theirs.arrays.keys()
            for name, array in mine.arrays.items():
                assert np.array_equal(array, theirs.arrays[name]), name
    assert here.to_dict()["rows"] != there.to_dict()["rows"]  # the test itself is another


def test_other_days_are_tested_without_training_again(study: Study, recipe: Recipe) -> None:
    entries = list_entries(recipe, ["Ridge"])
    first = evaluate(study, *entries)
    days = (("2021-04-08", "2021-04-09"),)
    other = Study(study.folder, study.panel_folder, recipe, study.weathers, days)
    said: list[str] = []
    found = evaluate_entries(entries, other, 1, said.append)
    assert "training Ridge" not in said
    assert found.to_dict()["tested"] == [["2021-04-08", "2021-04-09"]]
    local = study.panel.clock.local(study.panel.times[other.origins + 1])
    assert {str(day) for day in local.astype("datetime64[D]")} == {"2021-04-08", "2021-04-09"}
    assert (study.folder / "table-2021-04-08-2021-04-09.md").read_text() == found.to_markdown()
    assert (study.folder / "table.md").read_text() == first.to_markdown()  # untouched


def test_P8_targets_below_the_cut_give_no_mape(study: Study, recipe: Recipe) -> None:
    high = change(recipe, {"metrics": {"mape_cut": 1e6}}, source="")
    other = Study(study.folder, study.panel_folder, high, ("observed",))
    text = evaluate(other, *list_entries(high, ["Ridge", "SeasonalNaive"])).to_markdown()
    assert "| Ridge | n/a (0 terms) | n/a (0 terms) | n/a (0 terms) |" in text


def test_the_panel_of_a_study_is_verified(study: Study) -> None:
    assert isinstance(study.panel, Panel)
    assert study.panel.digest
