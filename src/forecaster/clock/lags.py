"""The rule by which lags suit the step of a panel, its length and the horizon.

| steps | recent | similar steps, as far ahead as the horizon |
|---|---|---|
| below a day | an hour, 6 to 30 steps | of 6 days (3 at least, or none) and 4 weeks |
| a day to a week | 7 | of 4 weeks and 2 years (364 days keep the weekday) |
| weeks | 8 | of 2 years (364 days) |
| months | a year, at least 4 | of 3 years; none of steps of years |

No lag reaches further back than 35 % of the panel, half of its training steps: a short panel has
fewer seasons, or none. Where a long horizon makes windows large, fewer seasons are taken. Hours
up to 6 ahead have the paper's 76 lags (section 3.1.2).
"""

from dataclasses import dataclass

from forecaster.clock.clock import Clock
from forecaster.config import CLOCK_CHANGE_MINUTES, LagConfig, Season
from forecaster.errors import count_of

HISTORY_SHARE = 0.35  # largest reach of a window as a share of all steps
MAX_LENGTH = 300  # past steps of a window, where seasons can be left out
DAY_MINUTES, WEEK_DAYS, YEAR_DAYS, CALENDAR_YEAR_DAYS = 24 * 60, 7, 364, 365
YEAR_MONTHS = 12
PAPER = LagConfig()
_UNITS = {1: "day", WEEK_DAYS: "week", YEAR_DAYS: "year", CALENDAR_YEAR_DAYS: "year"}


@dataclass(frozen=True)
class ChosenLags:
    """Lags, and why they were chosen."""

    lags: LagConfig
    reason: str


@dataclass(frozen=True)
class _Wish:
    """The seasons of one length that a long panel would have."""

    days: int
    count: int
    least: int = 1  # kept, however long windows become
    fewest: int = 1  # that are worth having: one or two past days say more of chance than of habit


def choose_lags(clock: Clock, steps: int, horizon: int) -> ChosenLags:
    """Return the lags for a panel by the rule above, and the reason in words.

    Args:
        clock: of the panel.
        steps: the panel's length.
        horizon: the number of steps to forecast.
    """
    reach = max(int(HISTORY_SHARE * steps), 1)
    wishes = _wishes(clock)
    seasons = [_season(clock, wish, horizon, reach) for wish in wishes]
    recent = min(_recent(clock), reach)
    lags = LagConfig(recent=recent, seasons=tuple(s for s in seasons if s), horizon=horizon)
    shorter = _shorten(lags, {wish.days: wish.least for wish in wishes})
    return ChosenLags(shorter, _explain(clock, shorter, wishes, steps, reach))


def _recent(clock: Clock) -> int:
    if clock.step_months:
        return max(YEAR_MONTHS // clock.step_months, 4)
    if clock.has_yearly_season:
        return 8
    if clock.step_minutes >= DAY_MINUTES:
        return WEEK_DAYS
    return min(max(60 // clock.step_minutes, PAPER.recent), 30)


def _wishes(clock: Clock) -> tuple[_Wish, ...]:
    if clock.step_months:  # of years, the recent steps are all
        return (_Wish(CALENDAR_YEAR_DAYS, 3),) if clock.step_months < YEAR_MONTHS else ()
    if clock.has_yearly_season:
        return (_Wish(YEAR_DAYS, 2),)
    if clock.step_minutes >= DAY_MINUTES:
        return _Wish(WEEK_DAYS, 4), _Wish(YEAR_DAYS, 2)
    return _Wish(1, 6, least=2, fewest=3), _Wish(WEEK_DAYS, 4)


def _season(clock: Clock, wish: _Wish, horizon: int, reach: int) -> Season | None:
    """Return the season with as many repetitions as the panel has; None for none."""
    length = wish.days * DAY_MINUTES
    count = min(wish.count, int((reach + 0.5) * clock.step_minutes // length))
    room = (length - CLOCK_CHANGE_MINUTES) // clock.step_minutes  # steps before the origin
    if count < wish.fewest or not room:
        return None
    paper = PAPER.seasons[0]
    ahead = paper.after if horizon <= PAPER.recent and not clock.has_yearly_season else horizon
    after = min(ahead, room)
    return Season(days=wish.days, count=count, before=min(paper.before, after), after=after)


def _shorten(lags: LagConfig, least: dict[int, int]) -> LagConfig:
    """Return the lags with fewer seasons, the shorter ones first, where windows are too long."""
    seasons = list(lags.seasons)
    for number, season in enumerate(seasons):
        other_steps = lags.recent + sum(_length(s) for n, s in enumerate(seasons) if n != number)
        fitting = (MAX_LENGTH - other_steps) // (season.before + season.after + 1)
        count = min(season.count, max(fitting, min(least[season.days], season.count)))
        seasons[number] = season.model_copy(update={"count": count})
    return LagConfig(recent=lags.recent, seasons=tuple(seasons), horizon=lags.horizon)


def _length(season: Season) -> int:
    return season.count * (season.before + season.after + 1)


def _explain(
    clock: Clock, lags: LagConfig, wishes: tuple[_Wish, ...], steps: int, reach: int
) -> str:
    """`6 recent steps of 60 min; 1 before to 5 after the same time 1 to 6 days back; …`."""
    parts = [f"{count_of(lags.recent, 'recent step')} of {clock.step_text}"]
    for season in lags.seasons:
        back = count_of(season.count, _UNITS[season.days])
        around = f"{season.before} before to {season.after} after the same time"
        parts.append(f"{around} {'1 to ' if season.count > 1 else ''}{back} back")
    absent = [
        wish.days for wish in wishes if wish.days not in {season.days for season in lags.seasons}
    ]
    parts += [
        f"no {_UNITS[days]}: lags reach back {reach:,} of the panel's {count_of(steps, 'step')}"
        for days in absent
    ]
    inputs = f"{count_of(lags.length, 'past step')} to forecast {lags.horizon} ahead"
    return f"{inputs}: {'; '.join(parts)}"
