"""New locations in the network of `best`."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean, LastValue
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.baselines.var import VAR
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.fallback.served import NAMES
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import backtest
from forecaster.evaluation.bias import bias_by_size
from forecaster.graph.extend import extend_graph
from forecaster.graph.learn import learn_graph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.recipe import change
from forecaster.splits import Splits
from tests.estimators import directed

BEST = change(
    RECIPE, {"preset": "best", "training": {"epochs": 2}, "mixer": {"hidden": 8}}, source="test"
)
ORIGINS = np.array([900, 930, 1000])


def with_new(panel: Panel, columns: np.ndarray) -> Panel:
    """The panel with further locations, which have these values."""
    n = columns.shape[1]
    ids = (*panel.locations.ids, *(f"new {k}" for k in range(n)))
    spread = np.linspace(0, 0.1, len(ids))
    locations = Locations(ids, ids, 48 + spread, 11 + spread)
    steps = len(panel.covariates.values)
    return replace(
        panel,
        values=np.concatenate([panel.values, columns.astype(np.float32)], axis=1),
        locations=locations,
        local_covariates=LocalCovariates.empty(steps, len(ids)),
        digest=None,
    )


@pytest.fixture(scope="module", params=["count", "measurement"])
def city(request: pytest.FixtureRequest) -> Panel:
    return small_city(request.param)


@pytest.fixture(scope="module")
def model(city: Panel) -> Estimator:
    estimator = Forecaster(recipe=BEST)
    estimator.falls_back = False
    return estimator.fit(city, Splits.by_share(city))


def test_L2_a_location_the_run_has_never_met_is_forecast_and_marked(
    city: Panel, model: Estimator
) -> None:
    panel = with_new(city, city.values[:, [3]])
    table = model.forecast(panel, panel.times[1000])
    new = table[table["unique_id"] == "new 0"]
    assert len(new) == BEST.lags.horizon
    assert (new["degraded"] == "new location").all()
    assert np.isfinite(new["y_hat"]).all()
    assert ((new["q10"] <= new["y_hat"]) & (new["y_hat"] <= new["q90"])).all()


def test_L2_new_locations_do_not_change_the_forecasts_of_others(
    city: Panel, model: Estimator
) -> None:
    before = model.predict(city, ORIGINS)
    for factor in (1.0, 1e4):
        panel = with_new(city, factor * city.values[:, [1, 4]])
        after = model.predict(panel, ORIGINS)
        N = len(city.locations)
        np.testing.assert_allclose(after[..., :N], before, rtol=1e-5, atol=1e-5)


def test_L2_a_new_location_is_forecast_nearly_as_well_as_a_known_one_at_its_own_level(
    city: Panel, model: Estimator
) -> None:
    def moved(numbers: np.ndarray) -> np.ndarray:
        return 40 * numbers if city.kind == "count" else numbers - 500

    origins = np.arange(880, 1020, 3)
    values = np.nan_to_num(city.values[:, [2]], nan=float(np.nanmean(city.values)))
    truth = moved(values[origins[:, None] + [1, 2], 0])
    new = model.predict(with_new(city, moved(values)), origins)[..., -1]
    familiar = moved(model.predict(city, origins)[..., 2])
    errors = [np.sqrt(np.square(f - truth).mean()) for f in (new, familiar)]
    assert errors[0] < 1.3 * errors[1]


def test_L2_nothing_after_the_origin_reaches_a_new_location(city: Panel, model: Estimator) -> None:
    panel = with_new(city, city.values[:, [2]])
    values = panel.values.copy()
    values[901:] = 1e6
    changed = panel.with_data(values)
    first = ORIGINS[:1]
    assert np.array_equal(model.predict(panel, first), model.predict(changed, first))


def test_L2_order_and_company_do_not_matter(city: Panel, model: Estimator) -> None:
    panel = with_new(city, city.values[:, [3, 0]])
    both = model.predict(panel, ORIGINS)
    ids = panel.locations.ids
    reverse = model.predict(panel.select(ids[::-1]), ORIGINS)[..., ::-1]
    np.testing.assert_allclose(reverse, both, rtol=1e-5, atol=1e-5)
    alone = model.predict(panel.select(ids[:-1]), ORIGINS)
    np.testing.assert_allclose(alone[..., -1], both[..., -2], rtol=1e-5, atol=1e-5)


def test_L9_a_new_location_with_a_day_of_history_is_forecast(
    city: Panel, model: Estimator
) -> None:
    values = city.values[:, [3]].copy()
    values[: 1000 - 24] = np.nan
    table = model.forecast(with_new(city, values), city.times[1000])
    new = table[table["unique_id"] == "new 0"]
    assert np.isfinite(new["y_hat"]).all()
    assert new["degraded"].str.contains("new location").all()


def test_L3_absent_locations_have_no_rows_and_the_rest_is_forecast(
    city: Panel, model: Estimator, caplog: pytest.LogCaptureFixture
) -> None:
    ids = city.locations.ids[:3]
    table = model.forecast(city.select(ids), city.times[1000])
    assert set(table["unique_id"]) == set(ids)
    assert "the panel lacks 2 locations of the run" in caplog.text
    with pytest.raises(ArtifactError, match="at most half of them may be absent"):
        model.forecast(city.select(ids[:2]), city.times[1000])


@pytest.mark.parametrize("kind", [HistoricalMean, LastValue])
def test_simple_models_forecast_new_locations_by_their_own_past(kind: type[Estimator]) -> None:
    city = small_city()
    fitted = kind(RECIPE).fit(city, Splits.by_share(city))
    values = np.full((len(city.values), 1), 77.0)
    values[:950] = np.nan
    table = fitted.forecast(with_new(city, values), city.times[1000])
    new = table[table["unique_id"] == "new 0"]
    assert (new["y_hat"] == 77).all()
    assert (new["q90"] > new["q10"]).all()


@pytest.mark.parametrize("kind", [VAR, DCRNN, Forecaster])
def test_L2_models_with_weights_of_each_location_refuse_and_say_what_to_do(
    kind: type[Estimator],
) -> None:
    city = small_city()
    fitted = kind(recipe=RECIPE).fit(city, Splits.by_share(city))
    with pytest.raises(ArtifactError, match="train again on a panel with them, use a run of the"):
        fitted.forecast(with_new(city, city.values[:, [0]]), city.times[1000])


def test_a_new_location_without_any_value_is_not_forecast(
    city: Panel, model: Estimator, caplog: pytest.LogCaptureFixture
) -> None:
    nothing = np.full((len(city.values), 1), np.nan)
    table = model.forecast(with_new(city, nothing), city.times[1000])
    assert set(table["unique_id"]) == set(city.locations.ids)
    assert "not forecast, since they have no value yet: new 0" in caplog.text


def test_a_panel_of_new_locations_only_is_refused(city: Panel, model: Estimator) -> None:
    ids = tuple(f"spot {n}" for n in range(len(city.locations)))
    panel = replace(city, locations=Locations.of_ids(ids))
    with pytest.raises(ArtifactError, match="knows none of the panel's locations"):
        model.forecast(panel, city.times[1000])


def test_new_locations_can_be_scored(city: Panel, model: Estimator) -> None:
    result = backtest(model, with_new(city, city.values[:, [2]]), ORIGINS)
    assert result.location_sizes is not None
    assert np.isnan(result.location_sizes[-1])
    groups = bias_by_size(result.by_location, result.location_sizes)
    assert sum(group.locations for group in groups) == len(city.locations)


def test_runs_that_fall_back_everywhere_take_new_locations() -> None:
    city = small_city()
    fitted = Forecaster(recipe=BEST).fit(city, Splits.by_share(city, validation=0.3))
    run = fitted.run
    assert run is not None
    N, K, Q = len(city.locations), BEST.lags.horizon, 3
    ridge = Ridge(BEST).fit(city, Splits.by_share(city, validation=0.3)).run
    assert ridge is not None
    simple = {f"fallback.Ridge.{n}": a for n, a in ridge.arrays.items() if "." not in n}
    simple |= {
        f"fallback.Ridge.{n}": a
        for n, a in ridge.arrays.items()
        if n.startswith(("values.", "covariates.", "local_covariates."))
    }
    arrays = {
        **run.arrays,
        **simple,
        "fallback.model": np.full(N, 1 + NAMES.index("Ridge")),
        "fallback.offsets": np.zeros((24, Q, K, N), dtype=np.float32),
        "fallback.relative": np.ones(N, dtype=np.float32),
    }
    served = Forecaster.from_run(replace(run, arrays=arrays))
    panel = with_new(city, city.values[:, [2]])
    before, after = served.predict(city, ORIGINS), served.predict(panel, ORIGINS)
    np.testing.assert_allclose(after[..., :N], before, rtol=1e-5)
    assert np.isfinite(after).all()


def test_threads_get_the_network_of_their_own_arrays(city: Panel, model: Estimator) -> None:
    panel = with_new(city, city.values[:, [2]])
    expected = {len(p.locations): model.predict(p, ORIGINS) for p in (city, panel)}
    with ThreadPoolExecutor(4) as pool:
        forecasts = list(
            pool.map(lambda n: model.predict((city, panel)[n % 2], ORIGINS), range(40))
        )
    for forecast in forecasts:
        assert np.array_equal(forecast, expected[forecast.shape[2]])


def test_a_graph_of_other_locations_follows_the_panel_when_asked() -> None:
    city = small_city()
    splits = Splits.by_share(city)
    graph = learn_graph(city, splits, BEST.graph)
    panel = with_new(city.select(city.locations.ids[:-1]), city.values[:, [-1]])
    followed = extend_graph(graph, panel.locations)
    fitted = Forecaster(followed, BEST).fit(panel, splits)
    assert fitted.run is not None
    assert len(panel.locations) - 1 in fitted.run.arrays["graph.pairs"]  # the new one has edges
    assert followed.learned_on == city.locations.ids


def test_L2_a_run_of_a_directed_graph_takes_new_locations_and_misses_absent_ones() -> None:
    estimator, city = directed.fitted(directed.BEST), directed.PANEL
    origins = np.array([directed.ORIGIN])
    panel = with_new(city, 1e3 * city.values[:, [1, 4]])
    before, after = (estimator.predict(one, origins) for one in (city, panel))
    np.testing.assert_allclose(after[..., :7], before, rtol=1e-5, atol=1e-5)
    assert np.isfinite(after).all()
    some = panel.select((*panel.locations.ids[1:6], "new 0"))
    table = estimator.forecast(some, panel.times[directed.ORIGIN])
    assert set(table["unique_id"]) == set(some.locations.ids)
    assert np.isfinite(table["y_hat"]).all()


def test_L2_edges_of_a_directed_graph_lead_into_new_locations_only() -> None:
    city = directed.PANEL
    panel = with_new(city, city.values[:, [1, 4]])
    run, _ = directed.fitted(directed.BEST).adapt(panel, len(panel.values))
    before = directed.fitted(directed.BEST).run
    assert before is not None
    pairs, delays = run.arrays["graph.pairs"], run.arrays["graph.delays"]
    assert np.array_equal(pairs[:5], before.arrays["graph.pairs"])
    assert (pairs[:5] < 7).all()
    assert pairs[5:, 1].tolist() == [7, 8]  # one source each, as the median location has
    assert (pairs[5:, 0] < 7).all()
    assert delays.dtype == np.int64
    assert delays.tolist() == [1, 3, 3, 1, 2, 2, 2]  # the median for new ones
    weights = run.arrays["model.linear.edges"]
    assert len(weights) == 9 + 4 + 2
    old = before.arrays["model.linear.edges"]
    assert np.array_equal(weights[:11], old)  # sorted by target: those of new ones come last
    assert weights.any(axis=(1, 2)).all()
