"""Values that are read from disk when they are first needed.

A panel that is opened without verification knows the shape of its values, and reads them when
somebody asks for them; `Panel.steps` reads a part alone.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

T = TypeVar("T")
_VALUES, _STORED = "values", "_stored"  # in the dict of an instance


@runtime_checkable
class Stored(Protocol):
    """Values on disk, of which some steps can be read."""

    @property
    def steps(self) -> int:
        """The number of steps."""

    def read(self, first: int, end: int) -> np.ndarray:
        """Return steps first…end−1."""


class Deferred:
    """The attribute `values` of a dataclass: read when it is first needed, unless it was given."""

    def __get__(self, instance: Any, owner: type | None = None) -> np.ndarray:
        """Read the values; a dataclass is told that they have no default."""
        if instance is None or stored_of(instance) is None:
            raise AttributeError(_VALUES)
        read_deferred(instance)
        values: np.ndarray = vars(instance)[_VALUES]
        return values


def defer(cls: type[T], stored: Stored, fields: Mapping[str, Any]) -> T:
    """Return an instance whose values are not read yet; nothing is checked."""
    instance = object.__new__(cls)
    vars(instance).update(fields, **{_STORED: stored})
    return instance


def stored_of(instance: object) -> Any:
    """Return the values on disk of an instance that has not read them yet, else None."""
    return vars(instance).get(_STORED)


def read_deferred(instance: Any) -> None:
    """Read the values of an instance, unless that was done, and check it."""
    stored, content = stored_of(instance), vars(instance)
    if stored is None:
        return
    content[_VALUES] = stored.read(0, stored.steps)
    try:
        instance.__post_init__()
    except BaseException:
        content.pop(_VALUES, None)
        raise
    content.pop(_STORED, None)


def read_part(instance: Any, steps: slice, axis: int) -> np.ndarray:
    """Return some steps of an instance's values; of values that are not read yet, these alone."""
    stored = stored_of(instance)
    if stored is None:
        values: np.ndarray = instance.values[(slice(None),) * axis + (steps,)]
        return values
    part: np.ndarray = stored.read(*steps.indices(stored.steps)[:2])
    return part
