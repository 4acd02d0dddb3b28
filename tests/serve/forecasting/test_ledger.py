"""The ledger: forecasts against outcomes by day, for the served run and the one in the shadow."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forecaster.estimators.baselines.naive import LastValue
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.scores import DayScore
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.accuracy import PastForecast
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.ledger import compare, rows, score_days
from forecaster.serve.forecasting.shadow import Shadow
from forecaster.serve.service import RunVersions
from forecaster.versions import Versions
from tests.serve.conftest import HOURS, Running, SettableClock, fit
from tests.serve.test_following import wait_until

DAY = 24


def score(model: str, day: str, terms: int = 10, squares: float = 40.0) -> DayScore:
    return DayScore(model, day, terms, squares, 15.0, 5.0, 50.0, 10, 8)


def past(
    live: LiveData, model: ServedModel, origins: range, off: float
) -> dict[int, PastForecast]:
    """Return forecasts that are off by a number at every location."""
    values, ids = live.snapshot.final_values(0, HOURS), live.snapshot.locations.ids
    K = model.horizon
    forecasts = {}
    for origin in origins:
        truth = values[origin + 1 : origin + 1 + K]
        y_hat = np.full((K, len(ids)), np.nan, dtype=np.float32)
        y_hat[: len(truth)] = truth + off
        spread = np.linspace(-3, 3, len(model.quantile_levels), dtype=np.float32)
        forecasts[origin] = PastForecast(ids, y_hat, y_hat + spread[:, None, None])
    return forecasts


def test_days_that_are_over_are_scored_with_all_steps_ahead(
    live: LiveData, model: ServedModel
) -> None:
    origins = range(HOURS - 4 * DAY, HOURS - 1)
    scores = score_days(model, live.snapshot, past(live, model, origins, 2.0), HOURS)
    assert [s.day for s in scores] == ["2015-10-29", "2015-10-30", "2015-10-31"]
    observed = np.isfinite(live.snapshot.final_values(HOURS - 3 * DAY, HOURS)).sum()
    assert sum(s.terms for s in scores) <= model.horizon * observed
    for one in scores:
        assert one.rmse == pytest.approx(2.0, abs=1e-5)
        assert one.signed == pytest.approx(2.0 * one.terms, rel=1e-5)
        assert one.coverage == 1.0
        assert one.bias == pytest.approx(one.signed / one.sizes)
    assert score_days(model, live.snapshot, {}, HOURS) == []


def test_two_runs_are_compared_on_the_days_that_both_have() -> None:
    scores = [score("a", "2020-01-01"), score("a", "2020-01-02"), score("b", "2020-01-02", 5, 5.0)]
    compared = compare("a", "b", scores)
    assert compared is not None
    assert (compared["days"], compared["served"]["rmse"]) == (1, 2.0)
    assert (compared["challenger"]["rmse"], compared["challenger"]["terms"]) == (1.0, 5)
    assert compare("a", "c", scores) is None
    assert [(row["day"], row["model"]) for row in rows(scores, ("b",))] == [("2020-01-02", "b")]


def test_the_ledger_survives_a_restart_and_takes_better_known_days(
    panel: Panel, tmp_path: Path, clock: SettableClock
) -> None:
    live = LiveData(panel, Store(tmp_path / "s.sqlite", panel_digest(panel)), clock)
    asyncio.run(live.record([score("a", "2020-01-01"), score("b", "2020-01-01")]))
    asyncio.run(live.record([score("a", "2020-01-01", terms=9), score("b", "2020-01-01", 11)]))
    version = live.snapshot.version
    live.close()
    again = LiveData(panel, Store(tmp_path / "s.sqlite", panel_digest(panel)), clock)
    assert {key: s.terms for key, s in again.scores.items()} == {
        ("a", "2020-01-01"): 10, ("b", "2020-01-01"): 11,
    }  # fmt: skip
    assert again.snapshot.version == version
    again.close()


@pytest.fixture
def shadowed(
    run: Path, panel: Panel, live: LiveData, tmp_path: Path, start: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
) -> Running:  # fmt: skip
    """Return a service with a naive challenger in the shadow."""
    monkeypatch.setattr("forecaster.serve.forecasting.background.FOLLOW_SECONDS", 0.02)
    monkeypatch.setattr("forecaster.serve.forecasting.background.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("forecaster.serve.forecasting.background.ACCURACY_HOURS", 2 * DAY)
    versions = Versions.begin(tmp_path / "runs")
    versions.add(fit(panel, 7, tmp_path / "naive", LastValue))
    versions.add(run)
    models = RunVersions(versions.folder)
    engine = Engine(models.load_current, live, None, models)
    engine.shadow = Shadow(models, live, None)
    return start(engine)


def test_a_challenger_is_scored_in_the_shadow_and_drift_is_judged(shadowed: Running) -> None:
    told = shadowed.get("/v1/run").json
    assert (told["version"], told["refused"]) == ("v0002", None)
    wait_until(lambda: shadowed.get("/v1/run").json["shadow"]["version"] == "v0001")
    challenger = shadowed.get("/v1/run").json["shadow"]["model"]
    wait_until(lambda: {model for model, _ in shadowed.engine.data.scores} >= {challenger})
    accuracy = shadowed.get("/v1/accuracy").json
    assert accuracy["model"] == told["model"]
    compared = accuracy["shadow"]["compared"]
    assert compared["days"] >= 1
    assert compared["served"]["rmse"] < compared["challenger"]["rmse"]  # the naive one is worse
    assert {row["model"] for row in accuracy["ledger"]} == {told["model"], challenger}
    wait_until(lambda: shadowed.engine.drift is not None)  # judged in quiet times
    drift = shadowed.get("/v1/run").json["drift"]
    assert drift["advice"] in ("unknown", "look")
    assert "of 7 days in the ledger; judged by whole weeks" in drift["text"]
    metrics = shadowed.get("/metrics").body.decode()
    assert f'forecaster_shadow{{model="{challenger}",version="v0001"}} 1' in metrics
    for run in ("served", "challenger"):
        rmse = compared[run]["rmse"]
        assert f'forecaster_shadow_rmse{{run="{run}"}} {rmse}\n' in metrics
    assert "forecaster_shadow_refused 0" in metrics


def test_a_challenger_that_becomes_current_leaves_the_shadow(
    shadowed: Running, tmp_path: Path
) -> None:
    wait_until(lambda: shadowed.get("/v1/run").json["shadow"]["version"] == "v0001")
    Versions(tmp_path / "runs").promote("v0001")
    wait_until(lambda: shadowed.get("/v1/run").json["version"] == "v0001")
    wait_until(lambda: shadowed.get("/v1/run").json["shadow"]["version"] == "v0002")
    assert shadowed.get("/v1/run").json["version"] == "v0001"


def test_a_challenger_that_cannot_forecast_is_named_and_the_service_goes_on(
    shadowed: Running, tmp_path: Path
) -> None:
    versions = Versions(tmp_path / "runs")
    wait_until(lambda: shadowed.get("/v1/run").json["shadow"]["version"] == "v0001")
    shadow = shadowed.engine.shadow
    assert shadow is not None
    shadow._name = "v0009"
    wait_until(lambda: shadowed.get("/v1/run").json["shadow"]["refused"] is not None)
    told = shadowed.get("/v1/run").json["shadow"]
    assert (told["model"], told["refused"]["version"]) == (None, "v0009")
    assert "no version 'v0009'" in told["refused"]["reason"]
    assert shadowed.get("/v1/forecast").status == 200
    assert versions.current == "v0002"
