from pathlib import Path

import numpy as np
import pytest

from forecaster import pipeline
from forecaster.estimators.registry import ESTIMATORS, load_estimator
from forecaster.panel.panel import Panel


@pytest.mark.slow
def test_the_demo_leaves_a_panel_and_runs_that_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "DEMO_LOCATIONS", 7)
    monkeypatch.setattr(pipeline, "DEMO_HOURS", 24 * 150)
    said: list[str] = []
    made = pipeline.run_demo(tmp_path, said.append)
    panel = Panel.open(tmp_path / "panel")
    assert panel.digest == made.panel.digest
    assert said == [
        "generating the city",
        "examining the panel",
        *(f"fitting {n}" for n in ESTIMATORS),
    ]
    for name, report in made.reports.items():
        fitted = load_estimator(tmp_path / "runs" / name)
        assert fitted.run is not None
        assert fitted.run.parents == {"panel": panel.digest}
        for score, floor in zip(report.steps, made.floor, strict=True):
            assert score.rmse.value is not None
            assert score.rmse.value > floor  # the floor knows more than any forecast
    best = min(report.average.rmse.value or np.inf for report in made.reports.values())
    assert made.reports["Ridge"].average.rmse.value == best


@pytest.mark.slow
def test_the_demo_has_missing_hours_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "DEMO_LOCATIONS", 3)
    monkeypatch.setattr(pipeline, "DEMO_HOURS", 24 * 150)
    monkeypatch.setattr(pipeline, "ESTIMATORS", {})
    made = pipeline.run_demo(tmp_path, lambda _: None)
    assert np.isnan(made.panel.values[pipeline.LOST_FEED]).all()
    assert made.windows.dropped["too little history observed"] > 0
