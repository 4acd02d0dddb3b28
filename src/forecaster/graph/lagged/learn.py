"""Choice of factors, penalty and edges by held-out weeks, and what they are worth there.

1. The factors of the city: as many as forecast held-out weeks best.
2. The penalty of others' past: smaller ones are tried until forecasts of held-out weeks get worse;
   the largest is taken that has 95 % of the best one's gain.
3. If no penalty forecasts them better than none by more than chance, no edge is left.
4. All training steps are fitted with these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from forecaster.config import GraphConfig
from forecaster.errors import DataError, count_of, name_some
from forecaster.graph.dependency import LaggedRecord, PathStep, Worth
from forecaster.graph.edges import Delays, Pairs, Strengths
from forecaster.graph.lagged.covariances import (
    LaggedSums,
    find_factors,
    sum_products,
    to_covariances,
)
from forecaster.graph.lagged.deviations import Bounds, LaggedSample
from forecaster.graph.lagged.regressions import (
    Regressions,
    begin,
    duality_gap,
    largest_penalty,
    refit,
    solve,
    squared_errors,
)
from forecaster.graph.lagged.worth import sum_ahead
from forecaster.graph.selection import HELD_OUT, PER_DECADE, MessageCallback
from forecaster.paired import MAX_BLOCKS, MIN_BLOCKS, p_values

FACTORS = (1, 2, 4, 8)  # that are tried, beside none
MAX_PENALTIES = 40  # five decades
FALLS = 2  # successive penalties worse than the best after which the path ends
SPARED = 0.05  # of the best gain, for a sparser graph
NEW_EDGES = 0.1  # that a smaller penalty must find, where forecasts are not better
CHANCE = 0.05  # of any edge where none helps
Blocks = Float64[np.ndarray, " blocks"]


class LaggedGraph(NamedTuple):
    """Directed edges, and the record of how they were learned."""

    pairs: Pairs
    delays: Delays
    strengths: Strengths  # deviations of the target per deviation of the source
    record: LaggedRecord
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Fold:
    """Some weeks that are fitted, and others that are held out."""

    fitted: LaggedSums
    held_out: Bounds
    sample: LaggedSample
    factors: Float32[np.ndarray, "F N"]  # of the fitted weeks, the most telling first

    @cached_property
    def series(self) -> Float32[np.ndarray, "P T"]:
        """All locations and factors, scaled."""
        return to_covariances(self.fitted, self.factors).series(self.sample)

    def start(self, factors: int) -> "Fit":
        """The regressions on own past and some factors."""
        return Fit(self, begin(to_covariances(self.fitted, self.factors[:factors])))


@dataclass(frozen=True, eq=False)
class Fit:
    """The regressions of a fold."""

    fold: Fold
    regressions: Regressions

    def errors(self, regressions: Regressions) -> Blocks:
        """The squared errors of the held-out steps, by block of days."""
        held_out, sample = self.fold.held_out, self.fold.sample
        series = self.fold.series[: regressions.inputs.lags.shape[1]]
        return np.asarray(squared_errors(regressions, sample, series, held_out).sum(axis=1))


@dataclass(frozen=True, eq=False)
class TriedPenalty:
    """One penalty: the regressions of every fold, and their errors on held-out days."""

    penalty: float
    solved: tuple[Regressions, ...]
    fitted: tuple[Regressions, ...]  # without penalty
    errors: Blocks


def learn_lagged(
    sample: LaggedSample, config: GraphConfig, max_delay: int, horizon: int, tell: MessageCallback
) -> LaggedGraph:
    """Learn lagged edges from the training steps.

    Args:
        sample: the training steps.
        config: a penalty or an average degree, if wanted.
        max_delay: D, the largest delay of an edge.
        horizon: the steps ahead for which the worth of edges is measured.
        tell: called with a message before each stage.
    """
    parts = []
    for number, runs in enumerate(sample.runs, start=1):
        tell(f"covariances of {max_delay} delays, part {number} of {len(sample.runs)}")
        parts.append(sum_products(sample, runs, max_delay))
    folds, N = _make_folds(sample, parts), len(sample.deviations)
    most = min(len(fold.factors) for fold in folds)
    own_past, without = _try_factors(folds, 0, tell)
    fits = own_past
    for count in FACTORS:
        if 0 < count <= most:
            tried, errors = _try_factors(folds, count, tell)
            if errors.sum() < without.sum():  # the others are not kept: they take much memory
                fits, without = tried, errors
    factors = len(fits[0].regressions.inputs.factors)
    path = _walk(fits, config, without, tell)
    trial = _choose(path, config, without, N)
    p = 1.0 if trial is None else _p_value(without, trial.errors, len(path))
    if trial is not None and config.penalty is None and config.degree is None and p > CHANCE:
        trial = None
    tell("fit of all training steps")
    total = sum(parts[1:], parts[0])
    inputs = to_covariances(total, find_factors(total, factors))
    final, gap = begin(inputs), None
    if trial is not None:
        larger = [step for step in path if step.penalty >= trial.penalty]
        trial, final = _solve_all(final, larger)
        gap = duality_gap(final, trial.penalty)
    pairs, delays, strengths = _edges(refit(final), config.degree)
    models = [[fit.regressions for fit in part] for part in (own_past, fits)]
    models.append(models[1] if trial is None else list(trial.fitted))
    record = LaggedRecord(
        max_delay=max_delay,
        factors=len(inputs.factors),
        penalty=None if trial is None else trial.penalty,
        gap=gap,
        p_value=p,
        blocks=int(np.count_nonzero(without)),
        path=tuple(_describe(trial_, without) for trial_ in path),
        worth=_measure_worth(folds, models, horizon),
    )
    notes = _notes(sample, record, config, pairs)
    return LaggedGraph(pairs, delays, strengths, record, notes)


def _make_folds(sample: LaggedSample, parts: Sequence[LaggedSums]) -> list[Fold]:
    """Hold out every fourth week; where these are few days, each quarter of the weeks in turn."""
    last = HELD_OUT - 1
    held = np.zeros(len(sample.blocks), np.bool_)
    for start, stop in sample.runs[last].tolist():
        held[start:stop] = True
    is_long = len(np.unique(sample.blocks[held])) >= MAX_BLOCKS
    folds = []
    for number in [last] if is_long else range(HELD_OUT):
        learning = [part for n, part in enumerate(parts) if n != number]
        fitted = sum(learning[1:], learning[0])
        folds.append(Fold(fitted, sample.runs[number], sample, find_factors(fitted, max(FACTORS))))
    return folds


def _try_factors(
    folds: Sequence[Fold], count: int, tell: MessageCallback
) -> tuple[list[Fit], Blocks]:
    """The regressions on own past and some factors, and their errors on held-out days."""
    fits = [fold.start(count) for fold in folds]
    errors = np.sum([fit.errors(fit.regressions) for fit in fits], axis=0)
    tell(f"{count_of(count, 'factor')} of the city: squared error {errors.sum():.6g}")
    return fits, errors


def _walk(
    fits: Sequence[Fit], config: GraphConfig, without: Blocks, tell: MessageCallback
) -> list[TriedPenalty]:
    """The penalties that are tried, the largest first, until forecasts get worse repeatedly."""
    largest = max(largest_penalty(fit.regressions) for fit in fits)
    if config.penalty is not None:
        penalties = [config.penalty]
    else:
        steps = np.arange(1, MAX_PENALTIES + 1)
        penalties = (largest * 10 ** (-steps / PER_DECADE)).tolist()
    solved, path, best, at = (
        [fit.regressions for fit in fits],
        list[TriedPenalty](),
        without.sum(),
        -1,
    )
    for penalty in penalties:
        solutions = [solve(regressions, penalty) for regressions in solved]
        solved = [solution for solution in solutions if solution is not None]
        if len(solved) < len(fits):  # a location depends on more than there is room for
            break
        fitted = tuple(map(refit, solved))
        errors = [fit.errors(part) for fit, part in zip(fits, fitted, strict=True)]
        path.append(TriedPenalty(penalty, tuple(solved), fitted, np.sum(errors, axis=0)))
        edges = count_of(int(fitted[0].edges.sum()), "edge")
        change = _change(path[-1].errors, without)
        tell(f"penalty {penalty:.3g}: {edges}, {change:+.2%} error on held-out weeks")
        wanted = config.degree is not None and len(path) > 1 and _degree(fitted[0]) < config.degree
        if path[-1].errors.sum() < best or wanted:
            best, at = min(best, path[-1].errors.sum()), len(path) - 1
        elif len(path) - 1 - at >= FALLS or _is_exhausted(path):
            break
    if config.penalty is not None and not path:
        problem = f"at penalty {config.penalty:g} a location depends on too many others"
        raise DataError(f"graph: {problem}; give a larger penalty")
    return path


def _is_exhausted(path: Sequence[TriedPenalty]) -> bool:
    """Whether the last penalty has added few edges to those of the one before, and no gain.

    Where it has added none, the strongest may be far above the others, which come later.
    """
    if len(path) < 2:  # noqa: PLR2004 (the last two)
        return False
    before, last = (sum(int(fit.edges.sum()) for fit in trial.fitted) for trial in path[-2:])
    return last != before and last < before * (1 + NEW_EDGES)


def _choose(
    path: Sequence[TriedPenalty], config: GraphConfig, without: Blocks, N: int
) -> TriedPenalty | None:
    """The trial of the wanted penalty or degree; else the sparsest nearly as good as the best."""
    if not path or N < 2:  # noqa: PLR2004 (one location has no others)
        return None
    if config.degree is not None:
        enough = [trial for trial in path if _degree(trial.fitted[0]) >= config.degree]
        return enough[0] if enough else path[-1]
    lowest = min(float(trial.errors.sum()) for trial in path)
    enough = (1 - SPARED) * lowest + SPARED * without.sum()
    return next(trial for trial in path if trial.errors.sum() <= max(enough, lowest))


def _solve_all(
    start: Regressions, path: Sequence[TriedPenalty]
) -> tuple[TriedPenalty, Regressions]:
    """Solve all training steps at the last penalty of a path, or the last with room for its terms.

    With more steps a location may use more terms than it did with some held out.
    """
    for trial in reversed(path):
        solved = solve(start, trial.penalty)
        if solved is not None:
            return trial, solved
    return path[0], start


def _p_value(without: Blocks, errors: Blocks, trials: int) -> float:
    """The p-value of edges being of use, for the best of so many trials."""
    p = p_values((without - errors)[:, None], (without > 0)[:, None])
    return min(float(p[0]) * max(trials, 1), 1.0)


def _degree(regressions: Regressions) -> float:
    """The average number of neighbours that tell about a location, whatever the delays."""
    pairs, _, _ = _edges(regressions, None)
    return len(np.unique(pairs, axis=0)) / len(regressions.counts)


def _edges(regressions: Regressions, degree: float | None) -> tuple[Pairs, Delays, Strengths]:
    """The edges by source, target and delay; if a degree is wanted, of the strongest pairs."""
    target, place = np.nonzero(regressions.edges)
    back, source = np.divmod(regressions.codes[target, place], regressions.inputs.lags.shape[1])
    strengths = regressions.beta[target, place]
    order = np.lexsort((back, target, source))
    if degree is not None:
        wanted = round(degree * len(regressions.counts))
        pair = source * len(regressions.counts) + target
        falling = pair[np.argsort(-np.abs(strengths), kind="stable")]
        _, first = np.unique(falling, return_index=True)  # the strongest delay of each pair
        strongest = falling[np.sort(first)[:wanted]]
        order = order[np.isin(pair[order], strongest)]
    pairs = np.column_stack([source, target])[order]
    return pairs, back[order] + 1, strengths[order]


def _describe(trial: TriedPenalty, without: Blocks) -> PathStep:
    return PathStep(
        penalty=trial.penalty,
        score=-_change(trial.errors, without),
        edges=int(trial.fitted[0].edges.sum()),
        converged=True,
    )


def _change(errors: Blocks, without: Blocks) -> float:
    """The relative change of the root mean squared error."""
    return float(np.sqrt(errors.sum() / max(without.sum(), 1e-12)) - 1)


def _measure_worth(
    folds: Sequence[Fold], models: Sequence[Sequence[Regressions]], horizon: int
) -> tuple[Worth, ...]:
    """The errors of own past, with factors and with edges, on held-out weeks some steps ahead."""
    root = []
    for regressions in models:
        measure = partial(sum_ahead, horizon=horizon)
        sums = [
            measure(part, fold.sample, fold.held_out)
            for part, fold in zip(regressions, folds, strict=True)
        ]
        squares, counts = (np.sum(column, axis=0) for column in zip(*sums, strict=True))
        root.append(np.sqrt(squares / np.maximum(counts, 1)))
    steps = sorted({1, horizon})
    return tuple(
        Worth(step=k, own=root[0][k - 1], factors=root[1][k - 1], edges=root[2][k - 1])
        for k in steps
        if root[0][k - 1] > 0
    )


def _notes(
    sample: LaggedSample, record: LaggedRecord, config: GraphConfig, pairs: Pairs
) -> tuple[str, ...]:
    notes, N = [], len(sample.deviations)
    most = len(np.unique(pairs, axis=0)) / N
    if config.degree is not None:
        if most * N < round(min(config.degree, N - 1) * N):
            wanted = f"average degree {config.degree:g}"
            notes.append(f"{wanted} is not possible without chance; the largest is {most:.3g}")
    elif not len(pairs):
        notes.append(f"no edges: {_why_none(record)}")
    if sample.constant.any():
        places = count_of(int(sample.constant.sum()), "location")
        numbers = name_some(str(n) for n in np.flatnonzero(sample.constant))
        notes.append(f"no deviations in training, and so no edges: {places}, {numbers}")
    return tuple(notes)


def _why_none(record: LaggedRecord) -> str:
    if record.penalty is not None:
        return f"penalty {record.penalty:g} leaves none, or chance could explain them"
    if record.blocks < MIN_BLOCKS:
        days = count_of(record.blocks, "block") + " of held-out days"
        return f"{days}, and {MIN_BLOCKS} are needed to tell whether edges help"
    return "on held-out weeks no edge helps by more than chance"
