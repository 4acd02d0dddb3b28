"""Counts of input rows: rows_in = counted + rejected, by reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forecaster.errors import DataError, RunError

REASONS = (
    "malformed",
    "bad_timestamp",
    "non_finite",
    "out_of_area",
    "too_far",
    "time_outside_file",
    "ambiguous_local_time",
    "nonexistent_local_time",
)
BELOW_MIN_DEMAND = "below_min_demand"  # at a place that was not selected, if there are such rows
FAULTY = ("malformed", "bad_timestamp", "non_finite")  # limited by --max-reject


@dataclass
class RowCounts:
    """Counts of rows, with a few examples of rejected ones."""

    rows_in: int = 0
    counted: int = 0
    rejected: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[str, set[str]] = field(default_factory=dict)

    def reject(self, reason: str, count: int, examples: tuple[str, ...] = ()) -> None:
        """Count rejected rows; the examples kept do not depend on the order of files."""
        self.rejected[reason] = self.rejected.get(reason, 0) + count
        ordered = sorted({*self.examples.get(reason, set()), *examples})
        self.examples[reason] = {*ordered[:1], *ordered[-1:]}

    def check_balance(self) -> None:
        """Raise an error if rows are unaccounted for."""
        unaccounted = self.rows_in - self.counted - sum(self.rejected.values())
        if unaccounted:
            message = f"{unaccounted:,} of {self.rows_in:,} rows are unaccounted for"
            raise RunError(f"{message}; nothing is written. A file may have changed")

    def check_faulty(self, max_reject: float) -> None:
        """Raise an error if too many rows are faulty."""
        faulty = sum(self.rejected[reason] for reason in FAULTY)
        if faulty > max_reject * self.rows_in:
            share = 100 * faulty / self.rows_in
            reasons = ", ".join(f"{r} {self.rejected[r]:,}" for r in FAULTY if self.rejected[r])
            message = f"{share:.2f} % of {self.rows_in:,} rows are faulty ({reasons})"
            shown = "; ".join(x for r in FAULTY for x in sorted(self.examples.get(r, ()))[:2])
            raise DataError(f"{message}, at most {100 * max_reject:g} % are allowed; e.g. {shown}")

    def to_json(self) -> dict[str, Any]:
        """Return the counts as the panel's manifest records them."""
        examples: Mapping[str, list[str]] = {
            reason: sorted(texts) for reason, texts in sorted(self.examples.items()) if texts
        }
        return {
            "rows_in": self.rows_in,
            "counted": self.counted,
            "rejected": {reason: self.rejected[reason] for reason in sorted(self.rejected)},
            "examples": dict(examples),
        }
