"""Forecasts spatial and time-dependent data with a graph Transformer (Li & Moura, ECAI 2020)."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecaster.estimators.base import Estimator as Estimator
    from forecaster.estimators.baselines.boosting import Boosting as Boosting
    from forecaster.estimators.baselines.naive import HistoricalMean as HistoricalMean
    from forecaster.estimators.baselines.naive import SeasonalNaive as SeasonalNaive
    from forecaster.estimators.baselines.ridge import Ridge as Ridge
    from forecaster.estimators.baselines.var import VAR as VAR
    from forecaster.estimators.checks.suite import check_forecaster as check_forecaster
    from forecaster.estimators.forecast_inputs import ForecastInputs as ForecastInputs
    from forecaster.estimators.networks.dcrnn import DCRNN as DCRNN
    from forecaster.estimators.networks.forecaster import Forecaster as Forecaster
    from forecaster.estimators.networks.transformer import Transformer as Transformer
    from forecaster.estimators.predictor import Prediction as Prediction
    from forecaster.estimators.registry import load_estimator as load_estimator
    from forecaster.estimators.training_data import FitResult as FitResult
    from forecaster.estimators.training_data import TrainingData as TrainingData
    from forecaster.evaluation.comparison import Comparison as Comparison
    from forecaster.evaluation.comparison import evaluate as evaluate
    from forecaster.explain.explain import explain_forecast as explain_forecast
    from forecaster.explain.explanation import Explanation as Explanation
    from forecaster.graph.dependency import DependencyGraph as DependencyGraph
    from forecaster.graph.learn import learn_graph as learn_graph
    from forecaster.panel.panel import Panel as Panel
    from forecaster.recipe import Recipe as Recipe
    from forecaster.splits import Splits as Splits
    from forecaster.synthetic.city import make_city as make_city

try:
    __version__ = version("forecaster")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"

# The module of each public name, imported when the name is first used: `forecaster --help` needs
# none of them.
_MODULES = {
    "Boosting": "forecaster.estimators.baselines.boosting",
    "Comparison": "forecaster.evaluation.comparison",
    "DCRNN": "forecaster.estimators.networks.dcrnn",
    "DependencyGraph": "forecaster.graph.dependency",
    "Estimator": "forecaster.estimators.base",
    "Explanation": "forecaster.explain.explanation",
    "FitResult": "forecaster.estimators.training_data",
    "ForecastInputs": "forecaster.estimators.forecast_inputs",
    "Forecaster": "forecaster.estimators.networks.forecaster",
    "HistoricalMean": "forecaster.estimators.baselines.naive",
    "Panel": "forecaster.panel.panel",
    "Prediction": "forecaster.estimators.predictor",
    "Recipe": "forecaster.recipe",
    "Ridge": "forecaster.estimators.baselines.ridge",
    "SeasonalNaive": "forecaster.estimators.baselines.naive",
    "Splits": "forecaster.splits",
    "TrainingData": "forecaster.estimators.training_data",
    "Transformer": "forecaster.estimators.networks.transformer",
    "VAR": "forecaster.estimators.baselines.var",
    "check_forecaster": "forecaster.estimators.checks.suite",
    "evaluate": "forecaster.evaluation.comparison",
    "explain_forecast": "forecaster.explain.explain",
    "learn_graph": "forecaster.graph.learn",
    "load_estimator": "forecaster.estimators.registry",
    "make_city": "forecaster.synthetic.city",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'forecaster' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
