"""The allowed values of settings, shared by recipes and command-line options.

Without heavy imports, so that `--help` is fast.
"""

from typing import Literal

Kind = Literal["count", "measurement"]
Ambiguous = Literal["null", "split"]
Nonexistent = Literal["refuse", "null", "next"]
Gaps = Literal["refuse", "null", "zero"]
Combine = Literal["sum", "mean", "count"]
DateOrder = Literal["day-first", "month-first"]
DecimalMark = Literal[".", ","]
GraphKind = Literal[
    "lasso",
    "neighbourhood",
    "lagged",
    "inverse",
    "pearson",
    "distance",
    "random",
    "complete",
    "own",
]
Subtract = Literal["hour_of_week", "nothing"]
Choose = Literal["likelihood", "ebic"]
PositionKind = Literal["location", "literal"]
Precision = Literal["float32", "bf16"]
MemberName = Literal[
    "Forecaster",
    "STID",
    "STID-lags",
    "GraphWaveNet",
    "GraphWaveNet-lags",
    "STAEformer",
    "STAEformer-lags",
    "Transformer",
    "DCRNN",
    "DCRNN-lags",
    "Ridge",
    "Boosting",
]
Objective = Literal["squares", "poisson"]
InputKind = Literal["recent", "lags"]
Weather = Literal["observed", "persist", "climatology", "none"]
EngineName = Literal["duckdb", "spark"]
TrialEngine = Literal["processes", "ray"]
JobEngine = Literal["process", "spark"]
