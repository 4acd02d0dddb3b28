"""Who may read and write: tokens with a scope and a limit, from a file that may change."""

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from forecaster.errors import ConfigError, Faults
from forecaster.serve.problems import Problem

Scope = Literal["read", "write", "admin"]
ALLOWED: dict[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"write"}),
    "admin": frozenset(get_args(Scope)),
}
MIN_TOKEN = 16  # characters
MAX_FILE_BYTES = 64 << 10
LOOK_SECONDS = 1.0  # between two looks at the file
FORM = "one line per token, NAME SCOPE TOKEN and, if it is limited, 600/min"
WRITES_OFF = "writing is off: the service was started without a token"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AccessToken:
    """A token as it is kept: without its text."""

    name: str  # in the audit log, and in refusals
    scope: Scope
    digest: bytes  # digests have one length, so that comparing them takes one time
    per_minute: int | None = None  # requests; None: without a limit

    @staticmethod
    def of(
        text: str,
        name: str = "token",
        scope: Scope = "admin",
        per_minute: int | None = None,
    ) -> "AccessToken":
        """The token of a text; alone in its file it may do everything."""
        return AccessToken(name, scope, _digest(text), per_minute)


def read_tokens(file: Path) -> tuple[AccessToken, ...]:
    """Read the tokens of a file that only its owner may read.

    The file holds a single token, or one line per token: `NAME SCOPE TOKEN [N/min]`.
    """
    try:
        mode, text = file.stat().st_mode, _read_bounded(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: no token can be read ({error})") from error
    if mode & 0o077:
        raise ConfigError(f"{file}: others may read the token; run chmod 600 {file}")
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, fields) for number, fields in lines if fields and fields[0][0] != "#"]
    faults = Faults(str(file))
    if len(lines) == 1 and len(lines[0][1]) == 1:
        _check_text(lines[0][1][0], "line 1", faults)
        faults.raise_any(ConfigError)
        return (AccessToken.of(lines[0][1][0]),)
    tokens = [_parse_line(fields, f"line {number}", faults) for number, fields in lines]
    if not lines:
        faults.add(f"no token; give a single one, as from `openssl rand -hex 32`, or {FORM}")
    if len({token.digest for token in tokens}) < len(tokens):
        faults.add("the same token stands in two lines")
    _check_limits(tokens, faults)
    faults.raise_any(ConfigError)
    return tuple(tokens)


class TokenFile:
    """The tokens of a file, read again when it changes: tokens are rotated without a restart."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state = _state(file)
        self._tokens = read_tokens(file)
        self._looked = time.monotonic()

    def __call__(self) -> tuple[AccessToken, ...]:
        """Return the current tokens; a file that cannot be used changes nothing."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked, state = now, _state(self._file)
            if state != self._state:
                self._state = state
                self._reload()
        return self._tokens

    def _reload(self) -> None:
        try:
            self._tokens = read_tokens(self._file)
        except ConfigError as error:
            log.error("the tokens stay as they were: %s", error)
        else:
            log.info("tokens read again: %s", ", ".join(token.name for token in self._tokens))


class Access:
    """Decides which requests are let in."""

    def __init__(
        self,
        tokens: Callable[[], tuple[AccessToken, ...]] = tuple,
        *,
        reads_open: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with full allowances.

        Args:
            tokens: returns the tokens that are valid now.
            reads_open: whether reading needs no token.
            now: a clock for the limits.
        """
        self._tokens, self._reads_open, self._now = tokens, reads_open, now
        self._allowances: dict[str, _Allowance] = {}

    def authorize(self, authorization: str, scope: Scope) -> str | None:
        """Return the name of the token of a request, None without one; a Problem refuses it."""
        if scope == "read" and self._reads_open:
            return None
        tokens = self._tokens()
        if not tokens and scope != "read":
            raise Problem(403, "writes_off", WRITES_OFF)
        token = _find(tokens, authorization)
        if token is None:
            detail = "the header `Authorization: Bearer TOKEN` is needed"
            raise Problem(401, "no_token", detail, WWW_Authenticate="Bearer")
        if scope not in ALLOWED[token.scope]:
            detail = f"the token {token.name} may {token.scope}; this needs one that may {scope}"
            raise Problem(403, "wrong_scope", detail)
        if token.per_minute is not None:
            self._spend(token, token.per_minute)
        return token.name

    def _spend(self, token: AccessToken, per_minute: int) -> None:
        """Take one request from the allowance of a token."""
        allowance = self._allowances.get(token.name)
        if allowance is None:
            allowance = _Allowance(per_minute, float(per_minute), self._now())
            self._allowances[token.name] = allowance
        allowance.per_minute = per_minute  # of the file; what is left stays
        wait = allowance.spend(self._now())
        if wait > 0:
            detail = f"the token {token.name} may send {per_minute:,} requests a minute"
            raise Problem(429, "too_many", detail, Retry_After=str(int(wait) + 1))


@dataclass
class _Allowance:
    """Requests that a token may still send; they grow back evenly."""

    per_minute: int
    remaining: float
    updated: float  # seconds

    def spend(self, now: float) -> float:
        """Take one request, and return 0, or the seconds until there is one again."""
        rate = self.per_minute / 60
        self.remaining = min(
            self.remaining + rate * max(now - self.updated, 0.0), float(self.per_minute)
        )
        self.updated = now
        if self.remaining < 1:
            return (1 - self.remaining) / rate
        self.remaining -= 1
        return 0.0


def _find(tokens: tuple[AccessToken, ...], authorization: str) -> AccessToken | None:
    """Return the token of a header; all are compared, so that the time tells nothing."""
    scheme, _, credentials = authorization.partition(" ")
    digest = _digest(credentials.strip())
    matches = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
    return matches[0] if matches and scheme.lower() == "bearer" else None


def _parse_line(fields: list[str], line: str, faults: Faults) -> AccessToken:
    """Return the token of a line; its text is in no message."""
    name, scope, text, limit = (*fields, "", "", "")[:4]
    if not 3 <= len(fields) <= 4:  # noqa: PLR2004 (see FORM)
        faults.add(f"{line}: {len(fields)} words; {FORM}")
        return AccessToken(line, "read", line.encode())
    _check_text(text, line, faults)
    if not (name.isascii() and name.isprintable() and len(name) <= MIN_TOKEN * 4):
        faults.add(f"{line}: a name of at most {MIN_TOKEN * 4} ASCII characters is needed")
    number = limit.removesuffix("/min")
    if limit and not (limit.endswith("/min") and number.isdecimal() and int(number) > 0):
        faults.add(f"{line}: the limit {limit[:20]!a} is not of the form 600/min")
        number = ""
    known_scope = next((valid for valid in ALLOWED if valid == scope), None)
    if known_scope is None:
        faults.add(f"{line}: the scope {scope[:20]!a} is not {', '.join(ALLOWED)}")
    return AccessToken(name, known_scope or "read", _digest(text), int(number) if number else None)


def _check_limits(tokens: list[AccessToken], faults: Faults) -> None:
    """Refuse different limits of one name: its tokens share one allowance while they rotate."""
    limits: dict[str, set[int | None]] = {}
    for token in tokens:
        limits.setdefault(token.name, set()).add(token.per_minute)
    for name, of_name in limits.items():
        if len(of_name) > 1:
            faults.add(f"the name {name!a} has lines with different limits; give it one")


def _check_text(text: str, line: str, faults: Faults) -> None:
    if len(text) < MIN_TOKEN or not text.isascii() or not text.isprintable():
        need = f"at least {MIN_TOKEN} printable characters are needed"
        faults.add(f"{line}: not a token; {need}, as from `openssl rand -hex 32`")


def _read_bounded(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(f"larger than {MAX_FILE_BYTES:,} bytes")
    return content.decode("utf-8")


def _state(file: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced; nothing while it is not there."""
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
