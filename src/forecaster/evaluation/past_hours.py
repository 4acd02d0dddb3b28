"""Which past steps carried a forecast, by up to four methods."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.case import Case
from forecaster.evaluation.explanation import Agreement, Hour, compare_orders
from forecaster.evaluation.lags import name_lags, name_step
from forecaster.evaluation.shares import as_shares, attended, rolled_through
from forecaster.evaluation.value_path import ablate
from forecaster.panel.panel import local_texts
from forecaster.splits import history_steps


@dataclass(frozen=True, eq=False)
class PastHours:
    """The part of each past step of a case."""

    case: Case
    shares_by: str  # attention, or ablation
    shares: Float64[np.ndarray, "K L"]
    rolled: Float64[np.ndarray, "K L"] | None  # of attention
    gradient: Float64[np.ndarray, " L"]
    ablation: Float64[np.ndarray, " L"]

    def hours(self) -> tuple[Hour, ...]:
        """Return the past steps by name, in the order of `Clock.lag_steps`."""
        known, lags = self.case.known, self.case.lags
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
                share=float(self.shares[:, s].mean()),
                shares=tuple(self.shares[:, s].tolist()),
                rolled=None if self.rolled is None else float(self.rolled[:, s].mean()),
                gradient=float(self.gradient[s]),
                ablation=float(self.ablation[s]),
            )
            for s, local in enumerate(local_texts(known, times))
        )

    def agreement(self) -> list[Agreement]:
        """Return how far the other methods agree with ablation, which is what really happens."""
        methods = {"gradient": self.gradient}
        if self.rolled is not None:
            attention = {"attention": self.shares, "attention through the encoder": self.rolled}
            methods = {n: shares.mean(axis=0) for n, shares in attention.items()} | methods
        of = f"{name_step(self.case.known.clock)}s"
        return [
            compare_orders(of, (name, "ablation"), sizes, self.ablation)
            for name, sizes in methods.items()
        ]


def measure_hours(case: Case) -> PastHours:
    """Return the part of each past step: with nothing held, but for attention's own shares."""
    window = case.window
    N, L = len(window.history.signal), window.history.signal.shape[3]
    each = np.zeros((L, N, L), dtype=np.bool_)
    each[np.arange(L), :, np.arange(L)] = True  # all locations at one step
    effect = ablate(window, window.free.roll_out, each)  # [L, K]
    attends = window.held.attends
    return PastHours(
        case,
        shares_by="attention" if attends else "ablation",
        shares=attended(window.held, window.place) if attends else as_shares(np.abs(effect.T)),
        rolled=rolled_through(window.held, window.place) if attends else None,
        gradient=case.free.sum(axis=1).mean(axis=0),
        ablation=effect.mean(axis=1),
    )


def sum_groups(hours: tuple[Hour, ...]) -> dict[str, float]:
    """Return the shares of recent steps, of days and of weeks before."""
    groups = dict.fromkeys((hour.group for hour in reversed(hours)), 0.0)
    for hour in hours:
        groups[hour.group] += hour.share
    return groups
