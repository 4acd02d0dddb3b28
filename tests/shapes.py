"""Shape checks that a whole suite can afford.

The import hook of jaxtyping wraps every function of the package, and checks the arguments of each
call twice, in a stub of the function: with networks this small that takes most of the time. Here
a call is checked once, and the sizes of arrays are compared only where a signature has arrays.

Two kinds of modules are left as they are: those with functions for numba or triton, which compile
a plain function and no wrapper of it, and those of the command, whose types typer reads.
"""

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeException

check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
in_one_scope = jaxtyping.jaxtyped  # N is the same number in all of a call
COMPILED = re.compile(r"^@(compiled|njit|triton\.jit)\b", re.MULTILINE)  # how such functions begin


def checked(target: Any = None, **_: Any) -> Any:
    """Wrap a function, or the constructor of a dataclass, as `jaxtyping.jaxtyped` does."""
    if target is None:
        return checked
    if _is_left_alone(target.__module__):
        return target
    if not inspect.isclass(target):
        return _check_calls(target)
    if is_dataclass(target) and "__init__" in vars(target):
        target.__init__ = _check_calls(target.__init__)
    return target


@cache
def _is_left_alone(module: str) -> bool:
    file = sys.modules[module].__file__
    return module.startswith("forecaster.cli") or (
        file is not None and COMPILED.search(Path(file).read_text(encoding="utf-8")) is not None
    )


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
    """Whether an annotation contains an array type, at any depth."""
    if isinstance(annotation, str):  # read when it is needed: maybe
        return "[" in annotation
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_array, get_args(annotation)))
