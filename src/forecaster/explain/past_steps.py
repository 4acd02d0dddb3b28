"""Which past steps carried a forecast, by up to four methods."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig
from forecaster.errors import count_of
from forecaster.explain.attention import as_shares, attended, rolled_through
from forecaster.explain.attribution import ablate
from forecaster.explain.case import Case
from forecaster.explain.explanation import Agreement, Hour, compare_orders
from forecaster.panel.panel import local_texts
from forecaster.splits import history_steps

GROUPS = {1: "days", 7: "weeks"}  # seasons that have a name, by their length in days
STEPS = {1: "minute", 60: "hour", 24 * 60: "day", 7 * 24 * 60: "week"}  # by their minutes


@dataclass(frozen=True)
class Lag:
    """One past step as section 3.1.2 writes it: x_{t−i}, or x_{t+i} some days earlier."""

    group: str  # recent, days, weeks, or "every n days"
    days: int  # earlier, on the wall clock
    shift: int  # i, in steps

    def __str__(self) -> str:
        near = f"t{self.shift:+d}".replace("-", "−") if self.shift else "t"
        if not self.days:
            return near
        weeks, rest = divmod(self.days, 7)
        whole = self.group == GROUPS[7] and not rest
        ago = count_of(weeks, "week") if whole else count_of(self.days, "day")
        return f"{near}, {ago} back"


def name_step(clock: Clock) -> str:
    """Return what a step is called: `hour`, `day`; `step` if it has no name of its own."""
    return STEPS.get(clock.step_minutes, "step")


def name_lags(clock: Clock, lags: LagConfig, origin: np.datetime64) -> list[Lag]:
    """Return the L past steps of an origin in the order of its history (`Clock.lag_steps`)."""
    named, steps = list[Lag](), [np.empty(0, np.int64)]
    for season in lags.seasons:
        group = GROUPS.get(season.days, f"every {season.days} days")
        around = np.arange(-season.before, season.after + 1)
        back = np.arange(1, season.count + 1) * season.days
        named += [Lag(group, int(days), int(i)) for days in back for i in around]
        steps.append(clock.same_time_steps(around, back, np.array([origin])).ravel())
    order = np.argsort(-np.concatenate(steps), kind="stable")
    recent = [Lag("recent", 0, i) for i in range(1 - lags.recent, 1)]
    return [*(named[n] for n in order), *recent]


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
