"""Which past hours carried a forecast, by four methods."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecaster.estimators.table import local_texts
from forecaster.evaluation.case import Case
from forecaster.evaluation.explanation import Agreement, Hour, compare_orders
from forecaster.evaluation.lags import name_lags
from forecaster.evaluation.shares import attended, rolled_through
from forecaster.evaluation.value_path import ablate
from forecaster.splits import history_steps


@dataclass(frozen=True, eq=False)
class PastHours:
    """The part of each past step of a case."""

    case: Case
    attention: Float64[np.ndarray, "K L"]
    rolled: Float64[np.ndarray, "K L"]
    gradient: Float64[np.ndarray, " L"]
    ablation: Float64[np.ndarray, " L"]

    def hours(self) -> tuple[Hour, ...]:
        """Return the past steps by name, the oldest first."""
        known, lags = self.case.known, self.case.run.recipe.lags
        steps = history_steps(known, lags, np.array([self.case.origin]))[0]
        times, values = known.times[steps], known.values[steps, self.case.window.place]
        named = name_lags(known.clock, lags, known.times[self.case.origin])
        return tuple(
            Hour(
                ds=f"{times[s]}Z",
                ds_local=local,
                lag=str(named[s]),
                group=named[s].group,
                days=named[s].days,
                value=float(values[s]) if np.isfinite(values[s]) else None,
                share=float(self.attention[:, s].mean()),
                shares=tuple(self.attention[:, s].tolist()),
                rolled=float(self.rolled[:, s].mean()),
                gradient=float(self.gradient[s]),
                ablation=float(self.ablation[s]),
            )
            for s, local in enumerate(local_texts(known, times))
        )

    def agreement(self) -> list[Agreement]:
        """Return how far the other methods agree with ablation, which is what really happens."""
        methods = {
            "attention": self.attention.mean(axis=0),
            "attention through the encoder": self.rolled.mean(axis=0),
            "gradient": self.gradient,
        }
        return [
            compare_orders("hours", (name, "ablation"), sizes, self.ablation)
            for name, sizes in methods.items()
        ]


def measure_hours(case: Case) -> PastHours:
    """Return the part of each past step: with nothing held, but for attention's own shares."""
    window = case.window
    N, L = len(window.history.signal), window.history.signal.shape[3]
    each = np.zeros((L, N, L), dtype=np.bool_)
    each[np.arange(L), :, np.arange(L)] = True  # all locations at one step
    return PastHours(
        case,
        attention=attended(window.held, window.place),
        rolled=rolled_through(window.held, window.place),
        gradient=case.free.sum(axis=1).mean(axis=0),
        ablation=ablate(window, window.free.roll_out, each).mean(axis=1),
    )


def sum_groups(hours: tuple[Hour, ...]) -> dict[str, float]:
    """Return the shares of recent steps, of days and of weeks before."""
    groups = dict.fromkeys((hour.group for hour in reversed(hours)), 0.0)
    for hour in hours:
        groups[hour.group] += hour.share
    return groups
