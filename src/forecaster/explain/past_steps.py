"""The effects of past steps on a forecast, by up to four methods, and the names of lags."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.config import MONTH_MINUTES, LagConfig
from forecaster.errors import count_of
from forecaster.explain.attention import as_shares, attention_rollout, attention_shares
from forecaster.explain.attribution import ablate
from forecaster.explain.case import Case
from forecaster.explain.explanation import Agreement, StepEffect, compare_orders
from forecaster.models.open_first import OpenFirst
from forecaster.panel.panel import local_texts
from forecaster.remaining import Tell, ignore
from forecaster.splits import history_steps

GROUPS = {
    1: "days",
    7: "weeks",
    364: "years",
    365: "years",
}  # named seasons, by their length in days
STEPS = {
    1: "minute",
    60: "hour",
    24 * 60: "day",
    7 * 24 * 60: "week",
    MONTH_MINUTES: "month",
    3 * MONTH_MINUTES: "quarter",
    12 * MONTH_MINUTES: "year",
}  # by their length in minutes


@dataclass(frozen=True)
class Lag:
    """One past step in the notation of section 3.1.2: x_{t−i}, or x_{t+i} some days earlier."""

    group: str  # recent, days, weeks, or "every n days"
    days: int  # before the origin, by local time
    shift: int  # i, in steps

    def __str__(self) -> str:
        shifted = f"t{self.shift:+d}".replace("-", "−") if self.shift else "t"
        if not self.days:
            return shifted
        weeks, days = divmod(self.days, 7)
        ago = count_of(self.days, "day")
        if self.group == GROUPS[7] and not days:
            ago = count_of(weeks, "week")
        if self.group == GROUPS[365]:
            ago = count_of(round(self.days / 365), "year")
        return f"{shifted}, {ago} back"


def name_step(clock: Clock) -> str:
    """Return the name of a step: `hour`, `day`; `step` for other lengths."""
    return STEPS.get(clock.step_minutes, "step")


def name_lags(clock: Clock, lags: LagConfig, origin: np.datetime64) -> list[Lag]:
    """Return the L lags of an origin in the order of its history (`Clock.lag_steps`)."""
    seasonal, steps = list[Lag](), [np.empty(0, np.int64)]
    for season in lags.seasons:
        group = GROUPS.get(season.days, f"every {season.days} days")
        around = np.arange(-season.before, season.after + 1)
        if clock.hours:
            back = clock.similar_open_steps(around, season.days, season.count, np.array([origin]))
            days = _days_between(clock, origin, around, back[0])
            seasonal += [
                Lag(group, int(d), int(i))
                for row in days
                for d, i in zip(row, around, strict=True)
            ]
            steps.append(back.ravel())
            continue
        back = np.arange(1, season.count + 1) * season.days
        seasonal += [Lag(group, int(days), int(i)) for days in back for i in around]
        steps.append(clock.same_time_steps(around, back, np.array([origin])).ravel())
    order = np.argsort(-np.concatenate(steps), kind="stable")
    recent = [Lag("recent", 0, i) for i in range(1 - lags.recent, 1)]
    return [*(seasonal[n] for n in order), *recent]


def _days_between(
    clock: Clock,
    origin: np.datetime64,
    around: Int64[np.ndarray, " I"],
    back: Int64[np.ndarray, "J I"],
) -> Int64[np.ndarray, "J I"]:
    """Return by how many local days past steps lie before the times of t + i.

    Args:
        clock: of the panel.
        origin: t.
        around: i.
        back: lags of the past steps.
    """
    source, past = (
        clock.local(clock.instants(origin, steps.ravel())).astype("datetime64[D]")
        for steps in (np.broadcast_to(around, back.shape), -back)
    )
    return np.asarray((source - past).astype(np.int64).reshape(back.shape))


@dataclass(frozen=True, eq=False)
class PastStepEffects:
    """The effect of each past step on a forecast."""

    case: Case
    shares_by: str  # attention, or ablation
    shares: Float64[np.ndarray, "K L"]
    rolled: Float64[np.ndarray, "K L"] | None  # of attention
    gradient: Float64[np.ndarray, " L"]
    ablation: Float64[np.ndarray, " L"]

    def effects(self) -> tuple[StepEffect, ...]:
        """Return the effect of each past step, in the order of `Clock.lag_steps`."""
        panel, lags = self.case.panel, self.case.lags
        steps = history_steps(panel, lags, np.array([self.case.origin]))[0]
        times, values = panel.times[steps], panel.values[steps, self.case.window.location]
        names = name_lags(panel.clock, lags, panel.times[self.case.origin])
        return tuple(
            StepEffect(
                ds=f"{times[s]}Z",
                ds_local=local,
                lag=str(names[s]),
                group=names[s].group,
                days=names[s].days,
                value=float(values[s]) if np.isfinite(values[s]) else None,
                share=float(self.shares[:, s].mean()),
                shares=tuple(self.shares[:, s].tolist()),
                rolled=None if self.rolled is None else float(self.rolled[:, s].mean()),
                gradient=float(self.gradient[s]),
                ablation=float(self.ablation[s]),
            )
            for s, local in enumerate(local_texts(panel, times))
        )

    def agreement(self) -> list[Agreement]:
        """Compare the other methods with ablation, which measures the real change."""
        methods = {"gradient": self.gradient}
        if self.rolled is not None:
            attention = {"attention": self.shares, "attention through the encoder": self.rolled}
            methods = {n: shares.mean(axis=0) for n, shares in attention.items()} | methods
        of = f"{name_step(self.case.panel.clock)}s"
        return [
            compare_orders(of, (name, "ablation"), sizes, self.ablation)
            for name, sizes in methods.items()
        ]


def measure_past_steps(case: Case, tell: Tell = ignore) -> PastStepEffects:
    """Measure the effect of each past step in the whole network."""
    window = case.window
    N, L = len(window.history.signal), window.history.signal.shape[3]
    masks = np.zeros((L, N, L), dtype=np.bool_)
    masks[np.arange(L), :, np.arange(L)] = True  # all locations at one step
    effect = ablate(window, window.free.roll_out, masks, tell)  # [L, K]
    attends, rows = window.frozen.attends, np.arange(window.ahead.auxiliary.shape[2])
    if window.ahead.open is not None:  # attention is recorded in the order of the roll-out
        rows = OpenFirst.of(window.ahead.open).steps[0].argsort().cpu().numpy()
    return PastStepEffects(
        case,
        shares_by="attention" if attends else "ablation",
        shares=attention_shares(window.frozen, window.location)[rows]
        if attends
        else as_shares(np.abs(effect.T)),
        rolled=attention_rollout(window.frozen, window.location)[rows] if attends else None,
        gradient=case.total_gradients.sum(axis=1).mean(axis=0),
        ablation=effect.mean(axis=1),
    )


def sum_groups(hours: tuple[StepEffect, ...]) -> dict[str, float]:
    """Return the sums of shares by group: recent steps, days and weeks before."""
    groups = dict.fromkeys((hour.group for hour in reversed(hours)), 0.0)
    for hour in hours:
        groups[hour.group] += hour.share
    return groups
