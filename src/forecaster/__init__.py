"""Forecasts spatial and time-dependent data with a graph Transformer (Li & Moura, ECAI 2020).

The public names are those of `__init__.pyi`. Each is imported when it is first used: `forecaster
--help` needs none of them.
"""

from importlib.metadata import PackageNotFoundError, version

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

try:
    __version__ = version("forecaster")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"
