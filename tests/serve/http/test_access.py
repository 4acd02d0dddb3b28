"""Who is let in."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from forecaster.errors import ConfigError
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http import access
from forecaster.serve.http.access import Access, AccessToken, Scope, TokenFile, read_tokens
from forecaster.serve.http.settings import HttpSettings
from forecaster.serve.problems import Problem
from tests.serve.client import TOKEN
from tests.serve.conftest import Running, SettableClock

READER, SENSOR = "reader-0123456789abcdef", "sensor-0123456789abcdef"
TOKENS = (
    AccessToken.of(READER, "grafana", "read"),
    AccessToken.of(SENSOR, "feed", "write"),
    AccessToken.of(TOKEN, "operator", "admin"),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a file that only its owner may read."""
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    return path


def test_V10_tokens_are_compared_whole() -> None:
    guard = Access(lambda: (AccessToken.of(TOKEN),))
    assert guard.authorize(f"Bearer {TOKEN}", "write") == "token"
    guard.authorize(f"bearer  {TOKEN} ", "write")
    for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Token {TOKEN}", TOKEN, "Bearer \udcff"):
        with pytest.raises(Problem) as refused:
            guard.authorize(wrong, "write")
        assert refused.value.code == "no_token"


def test_V10_without_tokens_writing_is_off() -> None:
    with pytest.raises(Problem, match="writes_off"):
        Access().authorize(f"Bearer {TOKEN}", "write")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [(READER, {"read"}), (SENSOR, {"write"}), (TOKEN, {"read", "write", "admin"})],
)
def test_a_token_may_do_what_its_scope_says(text: str, allowed: set[Scope]) -> None:
    guard = Access(lambda: TOKENS, reads_open=False)
    for scope in access.ALLOWED:
        if scope in allowed:
            guard.authorize(f"Bearer {text}", scope)
            continue
        with pytest.raises(Problem, match="wrong_scope"):
            guard.authorize(f"Bearer {text}", scope)


def test_reading_needs_no_token_unless_it_is_closed() -> None:
    assert Access(lambda: TOKENS).authorize("", "read") is None
    with pytest.raises(Problem, match="no_token"):
        Access(lambda: TOKENS, reads_open=False).authorize("", "read")


def test_a_limit_grows_back_evenly() -> None:
    clock = SettableClock(0.0)
    limited = AccessToken.of(SENSOR, "feed", "write", per_minute=120)
    guard = Access(lambda: (limited,), now=clock)
    for _ in range(120):
        guard.authorize(f"Bearer {SENSOR}", "write")
    with pytest.raises(Problem, match="too_many") as refused:
        guard.authorize(f"Bearer {SENSOR}", "write")
    assert (refused.value.headers or {})["Retry-After"] == "1"
    clock.seconds += 0.51
    guard.authorize(f"Bearer {SENSOR}", "write")
    with pytest.raises(Problem, match="too_many"):
        guard.authorize(f"Bearer {SENSOR}", "write")


def test_two_tokens_of_one_name_share_its_limit_and_a_new_limit_gives_no_more(file: Path) -> None:
    """While a token is rotated its name stands in two lines."""
    clock, text = SettableClock(0.0), f"feed write {SENSOR} 60/min\nfeed write {READER} 60/min\n"
    file.write_text(text)
    guard = Access(lambda: read_tokens(file), now=clock)

    def count_accepted(requests: int) -> int:
        accepted = 0
        for n in range(requests):
            with suppress(Problem):
                guard.authorize(f"Bearer {(SENSOR, READER)[n % 2]}", "write")
                accepted += 1
        return accepted

    assert count_accepted(200) == 60
    file.write_text(text.replace("60/min", "600/min"))
    assert count_accepted(200) == 0  # it begins with what was left
    clock.seconds += 1
    assert count_accepted(200) == 10
    file.write_text(text.replace("60/min", "5/min"))
    clock.seconds += 3600
    assert count_accepted(200) == 5


def test_a_file_holds_one_token_for_everything(file: Path) -> None:
    file.write_text(f"{TOKEN}\n")
    assert read_tokens(file) == (AccessToken.of(TOKEN),)


def test_a_file_holds_tokens_by_scope(file: Path) -> None:
    file.write_text(f"# ours\n\ngrafana read {READER}\nfeed write {SENSOR} 600/min\n")
    assert read_tokens(file) == (
        AccessToken.of(READER, "grafana", "read"),
        AccessToken.of(SENSOR, "feed", "write", per_minute=600),
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no token"),
        ("short\n", "at least 16 printable"),
        (f"grafana read {READER} 5/s\n", "not of the form 600/min"),
        (f"grafana reads {READER}\n", "'reads' is not read, write, admin"),
        (f"grafana read {READER}\nfeed write {READER}\n", "stands in two lines"),
        (
            f"feed read {READER} 60/min\nfeed write {SENSOR} 600/min\n",
            "'feed' has lines with diff",
        ),
        (f"feed read {READER} 60/min\nfeed write {SENSOR}\n", "'feed' has lines with different"),
        (f"grafana {READER}\n", "2 words; one line per token"),
        (f"grafana read {READER}\n" + "x" * 70_000, "larger than 65,536 bytes"),
    ],
)
def test_a_file_that_is_none_is_refused_without_its_tokens(
    file: Path, text: str, fault: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=fault) as refused:
        read_tokens(file)
    assert READER not in str(refused.value)


def test_a_file_that_others_may_read_is_refused(file: Path) -> None:
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read"):
        read_tokens(file)
    with pytest.raises(ConfigError, match="no token can be read"):
        read_tokens(file.with_name("none"))


def test_tokens_are_rotated_without_a_restart(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LOOK_SECONDS", 0.0)
    file.write_text(f"feed write {SENSOR}\n")
    tokens = TokenFile(file)
    assert [token.name for token in tokens()] == ["feed"]
    file.write_text(f"feed write {SENSOR}\nfeed-2 write {READER}\n")
    assert [token.name for token in tokens()] == ["feed", "feed-2"]
    file.write_text("feed wri")
    assert len(tokens()) == 2  # half-written: those of before
    file.unlink()
    assert len(tokens()) == 2
    file.touch(mode=0o600)
    file.write_text(f"feed-2 write {READER}\n")
    assert [token.name for token in tokens()] == ["feed-2"]


def test_a_closed_service_asks_for_a_token_everywhere_but_at_probes(
    engine: Engine, start: Callable[..., Running]
) -> None:
    service = start(engine, HttpSettings(access=Access(lambda: TOKENS, reads_open=False)))
    for path in ("/v1/locations", "/v1/forecast", "/metrics"):
        assert service.get(path).json["code"] == "no_token", path
        assert service.get(path, Authorization=f"Bearer {READER}").status == 200, path
        assert service.get(path, Authorization=f"Bearer {SENSOR}").json["code"] == "wrong_scope"
    assert service.get("/livez").status == 200
    refused = service.post("/v1/locations", {"id": "new"}, token=SENSOR)
    assert (refused.status, refused.json["code"]) == (403, "wrong_scope")
