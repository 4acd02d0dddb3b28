import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl

from forecaster.compiled import compiled


def half(x):
    return x / 2


def test_a_compiled_function_gives_what_it_gave():
    assert compiled(frozenset())(half)(3.0) == 1.5


def test_division_by_zero_is_infinite_as_in_numpy():
    assert compiled(frozenset())(lambda x: 1.0 / x)(0.0) == np.inf


def test_it_works_where_no_folder_can_be_written(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(half)
    assert compiled(frozenset())(half)(5.0) == 2.5
