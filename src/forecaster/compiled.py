"""Compilation of loops by numba, cached on disk where a folder is writable."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from numba import njit

Result = TypeVar("Result")


def compiled(fastmath: frozenset[str]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """A decorator that compiles a function; `fastmath` names numba's fast-math flags."""
    compiler = partial(njit, nogil=True, error_model="numpy", fastmath=set(fastmath))

    def compile_loop(function: Callable[..., Result]) -> Callable[..., Result]:
        try:
            return compiler(cache=True)(function)
        except RuntimeError:  # no cache folder of numba is writable
            return compiler()(function)

    return compile_loop
