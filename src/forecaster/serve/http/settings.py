"""How a service meets its clients: who is let in, under which names, and what is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forecaster.serve.http.access import Access
from forecaster.serve.http.audit import AuditLog
from forecaster.serve.http.tiles import Tiles


@dataclass(frozen=True)
class HttpSettings:
    """The settings of the web application; by default anybody reads, nobody writes."""

    access: Access = field(default_factory=Access)
    hosts: frozenset[str] = frozenset()  # names that clients may call the service by; empty: any
    audit: AuditLog | None = None  # a line for each write
    tiles: Tiles | None = None  # of the page's base map; None: it loads nothing from elsewhere
    areas: Mapping[str, frozenset[str]] = field(default_factory=dict)  # ids of their locations
