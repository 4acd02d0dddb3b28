"""Ensembles of quick members on a small city, and what is refused."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import load_run
from forecaster.config import EnsembleConfig
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.checks.suite import CHECKS, check_forecaster
from forecaster.estimators.ensemble import ensemble as module
from forecaster.estimators.ensemble.ensemble import MEAN, RELATIVE, Ensemble
from forecaster.estimators.ensemble.members import MemberArrays, own_name
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import load_estimator
from forecaster.explain.explain import explain_forecast
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.parts import Locations
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
GRAPH = DependencyGraph.from_edges([("place 0", "place 3"), ("place 1", "place 2")], PANEL)
QUICK = change(RECIPE, {"preset": "best", "mixer": {"hidden": 8}}, source="test")
AT = f"{PANEL.times[-9]}Z"
NEW = replace(PANEL, locations=Locations.of_ids((*PANEL.locations.ids[:-1], "new")), digest=None)


def recipe_of(members: list[str], seeds: int = 1, **sections: Any) -> Recipe:
    return change(
        QUICK, {"ensemble": {"members": members, "seeds": seeds}, **sections}, source="test"
    )


@cache
def fitted() -> Ensemble:
    """A network trained twice for a moment, and Ridge."""
    return Ensemble(GRAPH, recipe_of(["Forecaster", "Ridge"], seeds=2)).fit(PANEL, SPLITS)


def arrays_of(ensemble: Ensemble) -> dict[str, np.ndarray]:
    assert ensemble.run is not None
    return dict(ensemble.run.arrays)


@pytest.mark.slow
def test_an_ensemble_with_masks_and_new_locations_passes_the_suite() -> None:
    recipe = recipe_of(["Forecaster", "Ridge"])
    values = recipe.model_dump(include={"preset", "mixer", "ensemble"}, mode="json")
    made = check_forecaster(lambda recipe: Ensemble(recipe=change(recipe, values, source="test")))
    assert made == list(CHECKS)


def test_a_forecast_is_the_weighted_mean_of_its_members() -> None:
    ensemble, origins = fitted(), np.arange(900, 907)
    arrays = arrays_of(ensemble)
    assert ensemble.run is not None
    means = []
    for member in ensemble.members:
        member.estimator.run = member.run_of(ensemble.run)
        means.append(
            member.estimator.own_forecasts(member.estimator.run, PANEL, "observed", origins)
        )
        member.estimator.run = None
    expected = sum(w * part.mean for w, part in zip(arrays[MEAN], means, strict=True))
    own = ensemble.own_forecasts(ensemble.run, PANEL, "observed", origins)
    assert own.mean == pytest.approx(expected, rel=1e-5)
    assert (arrays[MEAN] >= 0).all()
    assert arrays[MEAN].sum() == pytest.approx(1)
    assert arrays[RELATIVE].sum() == pytest.approx(1)


def test_a_member_is_trained_as_it_would_be_alone() -> None:
    alone = Forecaster(GRAPH, change(QUICK, {"training": {"seed": 1}}, source="test"))
    alone.fit(PANEL, SPLITS)
    assert alone.run is not None
    member = MemberArrays(arrays_of(fitted()), "Forecaster seed 1")
    own = [name for name in alone.run.arrays if name.startswith("model.")]
    assert own
    assert all(np.array_equal(member[name], alone.run.arrays[name]) for name in own)


def test_a_saved_ensemble_is_one_run(tmp_path: Path) -> None:
    fitted().save(tmp_path / "run")
    loaded = load_estimator(tmp_path / "run")
    assert isinstance(loaded, Ensemble)
    assert loaded.forecast(PANEL, AT).equals(fitted().forecast(PANEL, AT))
    names = {member["name"] for member in load_run(tmp_path / "run").about["members"]}
    assert names == {"Forecaster seed 0", "Forecaster seed 1", "Ridge"}
    assert sum(name.endswith("graph.pairs") for name in arrays_of(fitted())) == 1  # shared


def test_a_member_that_cannot_forecast_a_new_location_is_left_out_there() -> None:
    ensemble = fitted()
    table = ensemble.forecast(NEW, AT)
    networks = Ensemble(GRAPH, recipe_of(["Forecaster"], seeds=2)).fit(PANEL, SPLITS)
    weights = arrays_of(ensemble)[MEAN][:2]
    assert networks.run is not None
    shared = {MEAN: weights / weights.sum()}
    same = Ensemble.from_run(replace(networks.run, arrays={**networks.run.arrays, **shared}))
    expected = same.forecast(NEW, AT)
    new = table["unique_id"] == "new"
    assert new.sum() == 2
    assert np.allclose(table[new]["y_hat"], expected[new]["y_hat"], rtol=1e-5)
    assert table[new]["degraded"].str.contains("new location").all()


def test_a_member_without_masks_is_left_out_where_history_has_gaps() -> None:
    ensemble, origin = fitted(), np.array([900])
    values = PANEL.values.copy()
    values[880:901, 2] = np.nan
    holed = PANEL.with_data(values)
    changed = ensemble.predict(holed, origin)
    assert ensemble.run is not None
    heavy = {**ensemble.run.arrays, MEAN: np.array([0.5, 0.5, 0.0])}
    weights = ensemble.run.arrays[MEAN]
    heavy[MEAN] = np.array([*(weights[:2] / weights[:2].sum()), 0.0])
    without = Ensemble.from_run(replace(ensemble.run, arrays=heavy))
    assert changed[..., 2] == pytest.approx(without.predict(holed, origin)[..., 2], rel=1e-5)
    assert changed[..., 1] == pytest.approx(ensemble.predict(PANEL, origin)[..., 1], rel=0.2)


def test_it_works_without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    ensemble = Ensemble(recipe=recipe_of(["Ridge", "Boosting"])).fit(PANEL, SPLITS)
    assert ensemble.run is not None
    assert [member["name"] for member in ensemble.run.about["members"]] == ["Ridge"]
    assert "lightgbm" in ensemble.run.about["left_out"]["Boosting"]
    assert len(ensemble.forecast(PANEL, AT)) == 10
    loaded = Ensemble.from_run(ensemble.run)
    assert loaded.forecast(PANEL, AT).equals(ensemble.forecast(PANEL, AT))
    with pytest.raises(ConfigError, match="lightgbm"):
        Ensemble(recipe=recipe_of(["Boosting"])).fit(PANEL, SPLITS)


def test_an_ensemble_without_networks_refuses_gaps_and_new_locations() -> None:
    ensemble = Ensemble(recipe=recipe_of(["Ridge"])).fit(PANEL, SPLITS)
    with pytest.raises(ArtifactError, match="new"):
        ensemble.forecast(NEW, AT)
    values = PANEL.values.copy()
    values[-12:] = np.nan
    with pytest.raises(DataError, match="history incomplete"):
        ensemble.forecast(PANEL.with_data(values), AT)
    with pytest.raises(ConfigError, match="network"):
        explain_forecast(ensemble, PANEL, AT, "place 1")


def test_the_average_of_the_networks_is_explained() -> None:
    explanation = explain_forecast(fitted(), PANEL, AT, "place 1")
    note = explanation.notes[0]
    assert "Forecaster seed 0, Forecaster seed 1" in note
    assert explanation.reach == 1
    total = explanation.own.gradient + explanation.own.city_wide
    assert np.isfinite(total)
    assert {place.id for place in explanation.neighbours} <= {*PANEL.locations.ids}


def test_what_each_member_adds_is_described() -> None:
    assert fitted().run is not None
    about = fitted().run.about["ensemble"]  # type: ignore[union-attr]
    for measure in ("rmse", "mape"):
        judged = about[measure]
        assert set(judged["members"]) == {"Forecaster seed 0", "Forecaster seed 1", "Ridge"}
        assert judged["error"] <= judged["equal"] * 1.001
        assert all(member["without"] > 0 for member in judged["members"].values())


@pytest.mark.parametrize("wrong", [[0.5, 0.6, 0.1], [1.5, -0.5, 0.0]])
def test_wrong_weights_are_refused(wrong: list[float]) -> None:
    run = fitted().run
    assert run is not None
    arrays = {**run.arrays, MEAN: np.array(wrong)}
    with pytest.raises(ArtifactError, match="add up to 1"):
        Ensemble.from_run(replace(run, arrays=arrays))


def test_arrays_that_a_member_cannot_use_are_refused() -> None:
    run = fitted().run
    assert run is not None
    broken = {n: a for n, a in run.arrays.items() if own_name(n) != "model.place"}
    with pytest.raises(ArtifactError, match="place"):
        Ensemble.from_run(replace(run, arrays=broken))
    nobody = {n: a for n, a in run.arrays.items() if not n.startswith("member.")}
    with pytest.raises(ArtifactError):
        Ensemble.from_run(replace(run, arrays=nobody))


def test_a_recipe_without_members_keeps_its_hash() -> None:
    assert QUICK.ensemble is None
    complete = Ensemble(recipe=QUICK).recipe
    assert complete.ensemble is not None
    assert complete.digest() != QUICK.digest()
    member = Ensemble(recipe=QUICK).members[0].estimator
    assert member.recipe.digest() == QUICK.digest()


def test_members_are_named_once() -> None:
    with pytest.raises(ConfigError, match="name each member once"):
        recipe_of(["Ridge", "Ridge"])
    with pytest.raises(ConfigError, match="only one of them"):
        Ensemble(recipe=QUICK, preset="best")


def test_far_ahead_ridge_stands_in_for_trees() -> None:
    usual = EnsembleConfig().members
    near, far = (
        Ensemble(recipe=Recipe.of({"preset": "best", "lags": {"horizon": steps}}))
        for steps in (23, 24)
    )
    assert [member.name for member in near.members] == [*usual]
    assert [member.name for member in far.members] == [*usual[:-1], "Ridge"]
    seeds = Ensemble(recipe=Recipe.of({"lags": {"horizon": 24}, "ensemble": {"seeds": 3}}))
    assert "Boosting" not in seeds.recipe.ensemble.members  # seeds alone name no members
    named = Ensemble(recipe=Recipe.of({"lags": {"horizon": 24}, "ensemble": {"members": usual}}))
    assert [member.name for member in named.members] == [*usual]


def test_what_stands_in_far_ahead_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    far = {"lags": {"recent": 24, "seasons": [], "horizon": 24}}
    said: list[str] = []

    def fit(recipe: Recipe) -> None:
        monkeypatch.setattr(module, "fit_members", lambda *_: module.MemberFits())
        with pytest.raises(StopIteration):  # nothing is trained here
            Ensemble(GRAPH, recipe).fit(
                PANEL, SPLITS, on_progress=lambda update: said.append(update.message or "")
            )

    fit(change(QUICK, far, source="test"))
    assert said == [module.REPLACED]
    fit(change(QUICK, far, {"ensemble": {"members": ["Ridge"]}}, source="test"))
    assert said == [module.REPLACED]
