import pytest

from forecaster.estimators.networks.estimator import NetworkEstimator


@pytest.fixture(autouse=True)
def _their_own_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks of one epoch forecast themselves, however bad: they are what is tested."""
    monkeypatch.setattr(NetworkEstimator, "falls_back", False)
