"""A small estimator that forecasts locations it was not trained on: they stay as they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.choices import Weather
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.forecast_inputs import Changes
from forecaster.estimators.predictor import Predictor, WindowForecasts
from forecaster.panel.panel import Panel
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.new_locations import select_run_locations


class AcceptingRidge(Ridge):
    """Ridge for the locations of its run; the last value and mean intervals for all others."""

    accepts_new_locations = True

    def predictor(self, panel: Panel, weather: Weather) -> Predictor:
        if self.run is None:
            raise ValueError("not fitted")
        old = super().predictor(select_run_locations(self.run, panel), weather)
        new = [i for i in panel.locations.ids if i not in self.run.about["ids"]]
        values = panel.select(tuple(new)).values if new else np.empty((len(panel.values), 0))
        both = replace(
            old.panel,
            values=np.concatenate([old.panel.values, values.astype(np.float32)], axis=1),
            locations=old.panel.locations.join(panel.locations.take(columns_of(panel, new))),
            local_covariates=replace(
                old.panel.local_covariates,
                values=_widen(old.panel.local_covariates.values, len(new)),
            ),
        )

        def forecast_origins(origins: np.ndarray, changes: Changes | None) -> WindowForecasts:
            forecasts = old.forecast_origins(origins, changes)
            last = np.array(
                [[last_value(values[: t + 1, n]) for n in range(len(new))] for t in origins]
            )
            K = forecasts.mean.shape[1]
            repeated = np.repeat(last.reshape(len(origins), 1, len(new)), K, axis=1)
            mean = np.concatenate([forecasts.mean, repeated.astype(np.float32)], axis=2)
            return WindowForecasts(
                mean,
                _widen(forecasts.quantiles, len(new)),
                None,
                None if forecasts.doubt is None else _widen(forecasts.doubt, len(new)),
            )

        def counts(steps: np.ndarray) -> np.ndarray:
            counted = old.counts(steps)
            return counted if counted.ndim == 1 else _widen(counted, len(new))

        calibration = replace(
            old.calibration,
            spread=_widen(old.calibration.spread, len(new)),
            offsets=None
            if old.calibration.offsets is None
            else _widen(old.calibration.offsets, len(new)),
        )
        return Predictor(both, forecast_origins, calibration, counts)


def columns_of(panel: Panel, ids: list[str]) -> list[int]:
    return [panel.locations.ids.index(identity) for identity in ids]


def last_value(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else 0.0


def _widen(array: np.ndarray, count: int) -> np.ndarray:
    """Repeat the last column."""
    return np.concatenate([array, *[array[..., -1:]] * count], axis=-1)


def load_accepting(run: Path) -> ServedModel:
    """Return the model of a Ridge's run, which accepts new locations."""
    estimator = AcceptingRidge.from_run(Ridge.load(run).run)
    return ServedModel(estimator, str(estimator.run.digest)[:12])
