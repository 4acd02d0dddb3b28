"""A row of the ledger: what the forecasts of a run were worth on a local day."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class DayScore:
    """Sums over the values of a local day that were forecast, all steps ahead together."""

    model: str  # digest of the run
    day: str  # local date: 2015-11-01
    terms: int  # number of values, each once for every forecast of it
    squares: float  # of errors
    absolutes: float  # of errors
    signed: float  # forecast minus observed
    sizes: float  # of counts; of measurements: how far from what is usual
    spans: int  # values with an interval
    inside: int  # values inside it

    @property
    def rmse(self) -> float | None:
        """The root mean square error."""
        return float((self.squares / self.terms) ** 0.5) if self.terms else None

    @property
    def bias(self) -> float | None:
        """Forecast minus observed, relative to the size; above 0: too high."""
        return self.signed / self.sizes if self.sizes else None

    @property
    def coverage(self) -> float | None:
        """The share of values inside their interval."""
        return self.inside / self.spans if self.spans else None

    def to_json(self) -> str:
        """Return its fields as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "DayScore":
        """Return the score of some JSON."""
        return DayScore(**json.loads(text))


def add_up(scores: "list[DayScore]") -> DayScore | None:
    """Return the sums over several days; None without any."""
    if not scores:
        return None
    numbers = ("terms", "squares", "absolutes", "signed", "sizes", "spans", "inside")
    totals = {name: sum(getattr(score, name) for score in scores) for name in numbers}
    return DayScore(model=scores[0].model, day=scores[0].day, **totals)
