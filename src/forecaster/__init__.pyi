from .estimators.base import Estimator as Estimator
from .estimators.baselines.boosting import Boosting as Boosting
from .estimators.baselines.naive import HistoricalMean as HistoricalMean
from .estimators.baselines.naive import LastValue as LastValue
from .estimators.baselines.naive import SeasonalNaive as SeasonalNaive
from .estimators.baselines.ridge import Ridge as Ridge
from .estimators.baselines.var import VAR as VAR
from .estimators.checks.suite import check_forecaster as check_forecaster
from .estimators.forecast_inputs import ForecastInputs as ForecastInputs
from .estimators.networks.dcrnn import DCRNN as DCRNN
from .estimators.networks.forecaster import Forecaster as Forecaster
from .estimators.networks.transformer import Transformer as Transformer
from .estimators.predictor import Prediction as Prediction
from .estimators.registry import load_estimator as load_estimator
from .estimators.training_data import FitResult as FitResult
from .estimators.training_data import TrainingData as TrainingData
from .evaluation.comparison import Comparison as Comparison
from .evaluation.comparison import evaluate as evaluate
from .explain.explain import explain_forecast as explain_forecast
from .explain.explanation import Explanation as Explanation
from .graph.dependency import DependencyGraph as DependencyGraph
from .graph.learn import learn_graph as learn_graph
from .panel.panel import Panel as Panel
from .recipe import Recipe as Recipe
from .splits import Splits as Splits
from .synthetic.city import make_city as make_city

__version__: str
