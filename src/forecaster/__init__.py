"""Forecasts spatial and time-dependent data with a graph Transformer (Li & Moura, ECAI 2020)."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forecaster.clock.clock import Clock as Clock
    from forecaster.config import Recipe as Recipe
    from forecaster.panel.panel import Panel as Panel

__version__ = version("forecaster")

# Loaded when first asked for, so that `forecaster --help` pays for none of them.
_HOME = {
    "Clock": "forecaster.clock.clock",
    "Panel": "forecaster.panel.panel",
    "Recipe": "forecaster.config",
}
__all__ = ["Clock", "Panel", "Recipe"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'forecaster' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
