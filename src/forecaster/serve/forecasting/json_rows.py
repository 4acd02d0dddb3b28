"""A list as JSON that is encoded once, of which every answer takes the rows that it needs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class JsonRows:
    """The content of a JSON object: what all rows share, and a list with a text for each row."""

    shared: bytes  # without braces
    name: str  # of the list
    rows: tuple[bytes, ...]

    @staticmethod
    def of(shared: Mapping[str, Any], name: str, rows: Iterable[Mapping[str, Any]]) -> "JsonRows":
        """Encode strict JSON."""
        encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
        texts = tuple(encode(row).encode() for row in rows)
        return JsonRows(encode(shared)[1:-1].encode(), name, texts)

    def join(self, columns: Sequence[int] | None = None) -> bytes:
        """The content of the object without its braces, in time that the chosen rows take.

        Args:
            columns: numbers of the rows; None: all.
        """
        rows = self.rows if columns is None else [self.rows[n] for n in columns]
        head = [self.shared] if self.shared else []
        return b",".join([*head, b'"%b":[%b]' % (self.name.encode(), b",".join(rows))])
