"""Shape checks that a whole suite can afford.

The import hook of jaxtyping wraps every function of the package, and checks the arguments of each
call twice, in a stub of the function: with networks this small that takes most of the time. Here
a call is checked once, the sizes of arrays are compared only where a signature has arrays, and a
call with the types and shapes of an earlier one that passed is not checked again.

Two kinds of modules are left as they are: those with functions for numba or triton, which compile
a plain function and no wrapper of it, and those of the command, whose types typer reads.
"""

import inspect
import re
import sys
import threading
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeException

check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
in_one_scope = jaxtyping.jaxtyped  # N is the same number in all of a call
COMPILED = re.compile(r"^@(compiled|njit|triton\.jit)\b", re.MULTILINE)  # how such functions begin
MOST_ITEMS = 16  # of a list whose items are all described


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
    annotations = function.__annotations__.values()
    if not any(map(_has_array, annotations)):
        return typed
    is_lazy = inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
    is_sampled = any(map(_is_sampled, annotations))
    passed: dict[Hashable, set[Hashable]] = {}  # forms of results, by the form of the arguments

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        form = None if is_lazy else _form_of_call(args, kwargs, is_sampled)
        if form in passed:
            result = function(*args, **kwargs)
            if (returned := _form(result, is_sampled)) in passed[form]:
                return result
            _returned.value = result
            with in_one_scope("context"):
                _stub(function)(*args, **kwargs)
        else:
            with in_one_scope("context"):
                result = typed(*args, **kwargs)
            returned = _form(result, is_sampled)
        if form is not None and returned is not None:
            passed.setdefault(form, set()).add(returned)
        return result

    return call


_returned = threading.local()


@cache
def _stub(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same signature that returns the last result of this thread."""

    @wraps(function)
    def stub(*_args: Any, **_kwargs: Any) -> Any:
        return _returned.value

    return check_types(stub)


def _form_of_call(args: tuple[Any, ...], kwargs: dict[str, Any], is_sampled: bool) -> Hashable:
    forms = tuple([_form(value, is_sampled) for value in (*args, *kwargs.values())])
    return None if None in forms else (forms, tuple(kwargs))


def _form(value: Any, is_sampled: bool) -> Hashable:
    """All that the check of a value depends on; None if that is more than types and shapes."""
    kind = type(value)
    if _is_array(kind):
        return kind, value.dtype, value.shape
    if kind is str or kind is bool:  # which `Literal` may name
        return value
    if isinstance(value, tuple | list) and len(value) <= MOST_ITEMS:
        forms = tuple([_form(item, is_sampled) for item in value])
        if None in forms or (is_sampled and len(set(forms)) > 1):
            return None
        return kind, forms
    return None if _is_collection(kind) else kind


@cache
def _is_array(kind: type) -> bool:
    return hasattr(kind, "dtype") and hasattr(kind, "shape")


@cache
def _is_collection(kind: type) -> bool:
    return issubclass(kind, Collection)


def _is_sampled(annotation: Any) -> bool:
    """Whether an annotation contains a collection of which only one item is checked."""
    if isinstance(annotation, str):
        return "[" in annotation
    origin, within = get_origin(annotation), get_args(annotation)
    if origin is tuple and Ellipsis not in within:
        return any(map(_is_sampled, within))
    is_collection = inspect.isclass(origin) and issubclass(origin, Iterable)
    return is_collection or any(map(_is_sampled, within))


def _has_array(annotation: Any) -> bool:
    """Whether an annotation contains an array type, at any depth."""
    if isinstance(annotation, str):  # read when it is needed: maybe
        return "[" in annotation
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_array, get_args(annotation)))
