"""Shape checks that a whole suite can afford.

The import hook of jaxtyping wraps every function of the package, and checks the arguments of each
call twice, in a stub of the function: with networks this small that takes most of the time. Here
a call is checked once, and the sizes of arrays are compared only where a signature has arrays.
"""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeException

check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
in_one_scope = jaxtyping.jaxtyped  # N is the same number in all of a call


def checked(given: Any = None, **_: Any) -> Any:
    """Return a function, or a class of which the fields are checked, as `jaxtyping.jaxtyped`."""
    if given is None:
        return checked
    if not inspect.isclass(given):
        return _check_calls(given)
    if is_dataclass(given) and "__init__" in vars(given):
        given.__init__ = _check_calls(given.__init__)
    return given


def _check_calls(function: Callable[..., Any]) -> Any:
    try:
        typed = check_types(function)
    except BeartypeException:  # a hint for readers alone, such as "pd.Series[str]"
        return in_one_scope(function, typechecker=check_types)
    if not any(map(_has_array, function.__annotations__.values())):
        return typed

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        with in_one_scope("context"):
            return typed(*args, **kwargs)

    return call


def _has_array(annotation: Any) -> bool:
    """Tell whether an array is in an annotation, however deep."""
    if isinstance(annotation, str):  # read when it is needed: maybe
        return "[" in annotation
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_array, get_args(annotation)))
