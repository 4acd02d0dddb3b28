from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.artifact import Run
from forecaster.errors import ArtifactError
from forecaster.estimators.areas import add_areas, read_areas
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.fallback.served import (
    MODEL,
    NAMES,
    describe_fallback,
    fallback_of,
    served_models,
)
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.transformer import Transformer
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from tests.estimators.fallback.conftest import NOISY, PLACES, Partial, PartialQuantiles, bare

K = 3


def run_of(estimator: Estimator) -> Run:
    assert estimator.run is not None
    return estimator.run


def last_days(town: Panel) -> np.ndarray:
    return np.arange(len(town.values) - 24 * 5, len(town.values) - K)


def truth(town: Panel, origins: np.ndarray) -> np.ndarray:
    return np.asarray(town.values[origins[:, None] + np.arange(1, K + 1)])


def test_L11_a_model_worse_at_some_places_falls_back_there_and_says_so(
    fitted: Partial, town: Panel
) -> None:
    origins, ids = last_days(town), town.locations.ids
    forecast, own = fitted.predict(town, origins), bare(fitted).predict(town, origins)
    changed = np.flatnonzero((forecast != own).any(axis=(0, 1)))
    assert changed.tolist() == list(NOISY)
    errors = [np.square(f - truth(town, origins)).mean(axis=(0, 1)) for f in (forecast, own)]
    assert (errors[0][list(NOISY)] < 0.5 * errors[1][list(NOISY)]).all()
    assert list(served_models(run_of(fitted))) == [ids[n] for n in NOISY]
    text = describe_fallback(run_of(fitted).about)
    reason = "(better there on validation by more than chance)"
    assert text == f"at 2 of {PLACES} locations: Ridge 2 {reason}"
    table = fitted.forecast(town, town.times[-1])
    said = table.groupby("unique_id", sort=False)["fallback"].unique().map(list)
    assert said.to_dict() == {i: ["Ridge" if n in NOISY else ""] for n, i in enumerate(ids)}


@pytest.mark.slow
def test_L11_a_network_falls_back_at_places_of_noise_and_gains_on_test_days() -> None:
    """Five epochs learn a city of twenty places, four of which are noise without a pattern."""
    panel, generator = (
        make_city(locations=20, hours=24 * 150, seed=3).panel,
        np.random.default_rng(0),
    )
    values, noise = panel.values.copy(), np.arange(0, 20, 5)
    values[:, noise] = generator.poisson(np.exp(generator.normal(1, 1, (len(values), 4))))
    panel = replace(panel, values=values, digest=None)
    splits = Splits.by_share(panel, validation=0.2, test=0.2)
    recipe = Recipe.of(
        {
            "preset": "best",
            "training": {"epochs": 5, "batch": 32},
            "graph": {"kind": "inverse"},
        }
    )
    network = Forecaster(recipe=recipe).fit(panel, splits)
    places = [panel.locations.ids.index(i) for i in served_models(run_of(network))]
    assert places
    assert set(places) <= set(noise.tolist())
    origins = np.arange(len(panel.values) - 24 * 25, len(panel.values) - K)
    outcomes = truth(panel, origins)
    errors = [
        np.square(e.predict(panel, origins) - outcomes)[..., places].mean()
        for e in (network, bare(network))
    ]
    assert errors[0] < errors[1]


def test_a_finished_training_that_is_resumed_falls_back_at_the_same_places(tmp_path: Path) -> None:
    panel = small_city().save(tmp_path / "panel")
    splits = Splits.by_share(panel, validation=0.25, test=0.2)
    first, again = (
        run_of(Transformer(RECIPE).fit(panel, splits, folder=tmp_path / "training"))
        for _ in range(2)
    )
    assert served_models(first)  # after one epoch
    assert first.about == again.about
    assert first.arrays.keys() == again.arrays.keys()
    for name, array in first.arrays.items():
        assert np.array_equal(array, again.arrays[name]), name


def test_the_served_forecasts_are_those_of_the_simple_model(
    fitted: Partial, town: Panel, weeks: Splits, short_recipe: Recipe
) -> None:
    origins, at = last_days(town), list(NOISY)
    ridge = Ridge(short_recipe).fit(town, weeks).predict(town, origins)
    served = fitted.predict(town, origins)
    assert np.array_equal(served[..., at], ridge[..., at])


def test_every_form_of_a_forecast_serves_the_same(with_quantiles: Partial, town: Panel) -> None:
    origins = last_days(town)
    means = with_quantiles.predict(town, origins)
    prediction = with_quantiles.predict_all(town, origins)
    assert np.array_equal(prediction.forecast, means)
    single = np.concatenate([with_quantiles.predict(town, origins[[n]]) for n in (0, 17)])
    assert np.allclose(single, means[[0, 17]], rtol=1e-5)
    backwards = town.select(town.locations.ids[::-1])
    assert np.array_equal(with_quantiles.predict(backwards, origins)[..., ::-1], means)
    at = town.times[origins[3]]
    table = with_quantiles.forecast(town, at)
    assert np.allclose(table["y_hat"].to_numpy().reshape(PLACES, K), means[3].T, rtol=1e-5)


def test_intervals_of_a_simple_model_are_calibrated_where_it_is_served(
    with_quantiles: PartialQuantiles, town: Panel
) -> None:
    """The model's own quantiles would be ± 30 % of its forecast, the same everywhere."""
    origins, at = last_days(town), list(NOISY)
    prediction = with_quantiles.predict_all(town, origins)
    outcomes = truth(town, origins)
    for quantiles in (prediction.static, prediction.online):
        inside = (outcomes >= quantiles[:, 0]) & (outcomes <= quantiles[:, -1])
        assert inside[..., at].mean() == pytest.approx(0.8, abs=0.06)
    run = run_of(with_quantiles)
    others = np.delete(np.arange(PLACES), at)
    own = bare(with_quantiles).predict_all(town, origins)
    assert np.array_equal(own.static[..., others], prediction.static[..., others])
    assert run.arrays["fallback.offsets"].shape == (24, 3, K, len(NOISY))


def test_relative_forecasts_of_a_simple_model_have_their_lowest_relative_error(
    with_quantiles: PartialQuantiles, town: Panel
) -> None:
    origins, at = last_days(town), list(NOISY)
    prediction = with_quantiles.predict_all(town, origins)
    mean, relative = prediction.forecast[..., at], prediction.relative[..., at]
    factors = run_of(with_quantiles).arrays["fallback.relative"][at]
    assert ((factors < 1) & (factors > 0.8)).all()  # counts: the median of y / ŷ, weighted, is low
    assert np.allclose(relative, factors * mean, rtol=1e-6)


def test_a_model_keeps_its_output_for_relative_error_where_that_is_lower(
    with_quantiles: PartialQuantiles, town: Panel, weeks: Splits
) -> None:
    class Informed(PartialQuantiles):
        """Its mean is bad at some places, its forecast of the lowest relative error is not."""

        def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
            outputs = super().predict_outputs(arrays, inputs)
            begin = int((inputs.panel.start - town.start) / town.clock.step)
            ahead = begin + inputs.origins[:, None] + np.arange(1, outputs.mean.shape[1] + 1)
            seen = np.minimum(ahead, len(town.values) - 1)
            return outputs._replace(relative=np.nan_to_num(town.values[seen]) + np.float32(0.01))

    informed = Informed(with_quantiles.recipe).fit(town, weeks)
    factors = run_of(informed).arrays["fallback.relative"]
    origins, at = last_days(town), list(NOISY)
    assert (factors[at] == 0).all()
    prediction = informed.predict_all(town, origins)
    assert np.allclose(prediction.relative[..., at], truth(town, origins)[..., at] + 0.01)
    assert not np.allclose(prediction.forecast[..., at], prediction.relative[..., at])


def test_a_saved_run_forecasts_the_same(
    with_quantiles: PartialQuantiles, town: Panel, tmp_path: Path
) -> None:
    with_quantiles.save(tmp_path / "run")
    loaded = PartialQuantiles.load(tmp_path / "run")
    origins = last_days(town)
    for a, b in zip(
        *(vars(e.predict_all(town, origins).base).values() for e in (with_quantiles, loaded)),
        strict=True,
    ):
        assert np.array_equal(a, b)
    assert run_of(loaded).about == run_of(with_quantiles).about


def test_a_sum_of_places_is_the_sum_of_what_is_served(fitted: Partial, town: Panel) -> None:
    at, ids = town.times[-30], [town.locations.ids[n] for n in (1, 2, 5)]
    areas = read_areas(pd.DataFrame({"area": ["centre"] * 3, "id": ids}), town.locations)
    table = add_areas(fitted.forecast(town, at), areas, fitted, town)
    centre = table[table["unique_id"] == "centre"]
    parts = table[table["unique_id"].isin(ids)].groupby("ds")["y_hat"].sum()
    assert np.allclose(centre["y_hat"].to_numpy(), parts.to_numpy(), rtol=1e-6)
    assert (centre["fallback"] == "").all()
    assert ((centre["q10"] <= centre["y_hat"]) & (centre["y_hat"] <= centre["q90"])).all()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({MODEL: np.array([0, 0, 9, 0, 0, 1, 0])}, "0…4 are known"),
        ({MODEL: np.array([0, 0, -1, 0, 0, 1, 0])}, "0…4 are known"),
        ({MODEL: np.zeros(7, dtype=np.int64)}, "one is above 0"),
        ({MODEL: np.array([1, 2])}, "int64 (2,)"),
        ({MODEL: np.ones(7, dtype=np.float32)}, "float32 (7,)"),
        ({MODEL: np.array([0, 0, 1, 0, 0, 1, 0])}, "fallback.HistoricalMean.counts"),
        ({"fallback.Ridge.weights": np.zeros((2, 3, 7), np.float32)}, "fallback.Ridge.weights"),
        ({"fallback.offsets": np.zeros((24, 3, K, 1), np.float32)}, "fallback.offsets"),
        ({"fallback.relative": np.zeros(3, np.float32)}, "fallback.relative"),
    ],
)
def test_a_damaged_fallback_is_refused(
    with_quantiles: PartialQuantiles, damage: dict[str, np.ndarray], said: str
) -> None:
    run = run_of(with_quantiles)
    with pytest.raises(ArtifactError, match="not a forecaster run") as refusal:
        PartialQuantiles.from_run(replace(run, arrays={**run.arrays, **damage}))
    assert said in str(refusal.value)


def test_a_run_of_an_earlier_version_serves_its_own_model(fitted: Partial, town: Panel) -> None:
    old = bare(fitted)
    assert fallback_of(run_of(old)) is None
    assert served_models(run_of(old)) == {}
    own = old.own_forecasts(run_of(old), town, "observed", last_days(town))
    assert np.array_equal(old.predict(town, last_days(town)), own.mean)
    assert "fallback" not in old.forecast(town, town.times[-1]).columns


def test_own_forecasts_are_those_of_the_model(fitted: Partial, town: Panel) -> None:
    origins = last_days(town)
    own = fitted.own_forecasts(run_of(fitted), town, "observed", origins)
    assert np.array_equal(own.mean, bare(fitted).predict(town, origins))


def test_the_preset_paper_and_simple_models_never_fall_back(
    town: Panel, weeks: Splits, short_recipe: Recipe
) -> None:
    paper = change(short_recipe, {"preset": "paper"}, source="test")
    for estimator in (Partial(paper), HistoricalMean(short_recipe)):
        run = run_of(estimator.fit(town, weeks))
        assert "fallback" not in run.about
        assert MODEL not in run.arrays
        assert describe_fallback(run.about) is None


def test_the_positions_that_runs_store_stay() -> None:
    assert NAMES == ("HistoricalMean", "Ridge", "SeasonalNaive", "LastValue")


def test_a_run_without_fallback_says_at_none() -> None:
    about = {"fallback": {"locations": 0, "of": 1_234, "models": {}}}
    assert describe_fallback(about) == "at none of 1,234 locations"
