"""Forecasts spatial and time-dependent data with a graph Transformer (Li & Moura, ECAI 2020).

The public names are those of `__init__.pyi`. Each is imported when it is first used: `forecaster
--help` needs none of them.
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Return a public name, or the version, which takes time to be found."""
    return _read_version() if name == "__version__" else _load(name)


def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 (see above)

    try:
        return version("forecaster")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"
