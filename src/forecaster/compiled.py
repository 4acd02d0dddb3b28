"""How loops are compiled: by numba, once, and kept on disk where there is a folder to write to."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from numba import njit

Result = TypeVar("Result")


def compiled(fastmath: frozenset[str]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return what compiles a function; `fastmath` names the freedoms that its sums may take."""
    compiler = partial(njit, nogil=True, error_model="numpy", fastmath=set(fastmath))

    def compile_loop(function: Callable[..., Result]) -> Callable[..., Result]:
        try:
            return compiler(cache=True)(function)
        except RuntimeError:  # none of the folders that numba knows can be written
            return compiler()(function)

    return compile_loop
