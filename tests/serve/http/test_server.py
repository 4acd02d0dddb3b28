"""Room for connections, and patience with what must be refused."""

import resource
from collections.abc import Callable

import pytest

from forecaster.serve.http import server
from forecaster.serve.http.server import (
    MAX_CONNECTIONS,
    PAUSE_SECONDS,
    SPARE_FILES,
    ThrottledSelector,
    allow_connections,
)

WANTED = MAX_CONNECTIONS + SPARE_FILES
ENDLESS = resource.RLIM_INFINITY


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[int]]:
    """Return a function that sets how many files may be open, and notes what is asked for."""

    def allow(soft: int, hard: int) -> list[int]:
        asked: list[int] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda _, pair: asked.append(pair[0]))
        return asked

    return allow


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "room"),
    [
        (1024, 1 << 20, [WANTED], MAX_CONNECTIONS),
        (1024, ENDLESS, [WANTED], MAX_CONNECTIONS),
        (1024, 4099, [4099], 4099 - SPARE_FILES),
        (1 << 20, 1 << 20, [], MAX_CONNECTIONS),
        (ENDLESS, ENDLESS, [], MAX_CONNECTIONS),
        (127, 127, [127], 64),  # too few for what should be spare
    ],
)
def test_connections_never_need_more_files_than_there_are(
    files: Callable[[int, int], list[int]], soft: int, hard: int, asked: list[int], room: int
) -> None:
    found = files(soft, hard)
    assert allow_connections() == room
    assert found == asked


def test_a_limit_that_cannot_be_raised_is_kept_to(
    files: Callable[[int, int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError

    files(1021, ENDLESS)
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_connections() == 1021 - 510


def test_V7_requests_are_looked_for_less_often_while_they_must_be_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(server.time, "sleep", pauses.append)
    states = iter([False, True, True, False])
    with ThrottledSelector(lambda: next(states)) as selector:
        for _ in range(4):
            assert selector.select(0.0) == []
    assert pauses == [PAUSE_SECONDS] * 2
