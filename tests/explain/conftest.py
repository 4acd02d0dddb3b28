import pytest


@pytest.fixture(autouse=True)
def _small_sums(one_thread: None) -> None:
    """Compute with one thread in all of these tests."""
