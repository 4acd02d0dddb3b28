"""Spans of what a service does, where OpenTelemetry is turned on; else they cost nothing."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from starlette.types import ASGIApp


@runtime_checkable
class Telemetry(Protocol):
    """Where spans go; `telemetry.OpenTelemetry` sends them to a collector."""

    def span(self, name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Return a span that lasts as long as the context."""

    def instrument(self, app: ASGIApp, counts: Any) -> ASGIApp:
        """Return the application with a span for every request."""

    def close(self) -> None:
        """Send what has not been sent."""


_telemetry: Telemetry | None = None


def use(telemetry: Telemetry | None) -> None:
    """Send spans there from now on; None: nowhere."""
    global _telemetry  # noqa: PLW0603 (of the process, like its log)
    _telemetry = telemetry


def current() -> Telemetry | None:
    """Return where spans go."""
    return _telemetry


def span(name: str, **attributes: Any) -> AbstractContextManager[None]:
    """Return a span of one operation."""
    return nullcontext() if _telemetry is None else _telemetry.span(name, attributes)
