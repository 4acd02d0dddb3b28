"""The base of networks of others, which see recent steps only, or the lags of all."""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from forecaster.config import LagConfig, PastConfig
from forecaster.errors import ConfigError
from forecaster.estimators.match import MAX_HISTORY
from forecaster.estimators.networks.estimator import NetworkEstimator, NetworkFit
from forecaster.estimators.training_data import TrainingData
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Windows, assign_splits, history_steps, is_incomplete


class PastEstimator(NetworkEstimator):
    """A network whose section of the recipe says which past steps it sees."""

    section: ClassVar[str]  # of the recipe
    masks_lags: ClassVar[bool] = False  # whether missing values are masked, with the lags of all

    @property
    def masks_missing(self) -> bool:  # type: ignore[override]
        """Whether missing history is a masked input."""
        return self.masks_lags and self.config.inputs == "lags"

    @property
    @abstractmethod
    def config(self) -> PastConfig:
        """Its section of the recipe."""

    @property
    def lags(self) -> LagConfig:
        """The past steps that the network sees: only the most recent, or the recipe's lags."""
        lags = self.recipe.lags
        if self.config.inputs == "lags":
            return lags
        return LagConfig(recent=self.config.recent, seasons=(), horizon=lags.horizon)

    @property
    def bounds_values(self) -> bool:
        """True: it has neither levels nor presets of its own."""
        return True

    def begin_fit(self, data: TrainingData) -> NetworkFit:
        """The fit, to the windows that suit the network's own lags."""
        if self.config.inputs == "recent":
            self._refuse_short_lags(data.panel)
            data = replace(data, windows=self._own_windows(data))
        return super().begin_fit(data)

    def refuse_long_history(self) -> None:
        """Refuse more past steps than a run may claim."""
        if self.lags.length > MAX_HISTORY:
            raise ConfigError(
                f"{self.section}.recent = {self.lags.length:,}; at most {MAX_HISTORY:,}"
            )

    def _refuse_short_lags(self, panel: Panel) -> None:
        """Refuse `recent` beyond the reach of the lags by which windows are cut."""
        reach = int(panel.clock.lag_steps(self.recipe.lags, panel.times).max(axis=1).min()) + 1
        if self.lags.length > reach:
            name = f"{self.section}.recent"
            message = f"{name} = {self.lags.length} steps, but lags reach back only {reach}"
            raise ConfigError(f"{message}; lower {name}, or add to lags")

    def _own_windows(self, data: TrainingData) -> Windows:
        """The windows whose history, by this network's lags, has no held-out or missing steps."""
        panel, windows = data.panel, data.windows
        split = assign_splits(panel, data.splits)
        usable = {}
        for number, name in enumerate(SPLITS[:2]):
            origins = getattr(windows, name)
            history = history_steps(panel, self.lags, origins)
            held_out = (split[history] > number).any(axis=1)
            usable[name] = origins[~held_out & ~is_incomplete(panel, history, origins)]
        return replace(windows, **usable)
