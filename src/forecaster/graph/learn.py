"""Learning a dependency graph from a panel (section 2.2), or an alternative for comparison."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from forecaster.clock.lags import choose_lags
from forecaster.config import GraphConfig, LagConfig
from forecaster.errors import DataError, RunError, count_of
from forecaster.graph.alternatives import (
    complete,
    distance_kernel,
    invert,
    no_edges,
    random_edges,
)
from forecaster.graph.correlations import (
    TrainingCorrelations,
    correlate_training_steps,
    describe_steps,
    training_ranges,
)
from forecaster.graph.covariance import BLOCK_STEPS, take_sample
from forecaster.graph.dependency import About, DependencyGraph, InverseComparison, bare
from forecaster.graph.edges import (
    EdgeList,
    conditional_correlation,
    edges_above,
    threshold_for_degree,
)
from forecaster.graph.lagged.deviations import take_deviations
from forecaster.graph.lagged.learn import FACTORS, learn_lagged
from forecaster.graph.lasso import LassoResult, graphical_lasso
from forecaster.graph.neighbourhood.learn import learn_neighbourhoods
from forecaster.graph.selection import (
    MessageCallback,
    SelectedPenalty,
    choose_by_ebic,
    choose_by_likelihood,
)
from forecaster.panel.panel import Panel
from forecaster.remaining import Paced
from forecaster.splits import SPLITS, Splits, assign_splits

MOST_TOGETHER = 5_000  # locations that the graphical lasso takes on without being asked
_SIGMAS = 3  # standard errors, 1/√M each, of a correlation of 0
_MATRICES = 12  # N × N doubles in memory at the peak of the path
_PRODUCTS_PER_SECOND = 2e10  # of the covariance, and
_SECONDS_PER_CUBE = 4e-9  # of the path, by N³: both measured on one core
_NEIGHBOURHOOD_NUMBERS = 1_500  # of a location: sketch, candidates and their coefficients
_NEIGHBOURHOOD_BLOCKS = 2**26  # numbers at a time
_SECONDS_PER_SKETCH, _SECONDS_PER_STEP = 2e-8, 3e-7  # of a pair, and of a location's step
_LAGGED_PRODUCTS_PER_SECOND = 5e10  # of lagged covariances,
_SECONDS_PER_DEVIATION = 8e-8  # of a location's step, and
_SECONDS_PER_TERM = 1e-6  # of a fold's regressions, by D·N²: all measured on two cores
_LAGGED_FOLDS = 4  # where training is not long
_LAGGED_ROOM = 256  # others' terms of a regression
_LAGGED_MATRICES = 28  # copies of the (D + 1)·N² covariances at the peak, of N·T deviations,
_LAGGED_SERIES, _LAGGED_REGRESSIONS = 8, 28  # and of regressions: four folds


class Estimate(NamedTuple):
    """The peak memory of learning besides the panel, and its time on one core or two."""

    memory_bytes: int
    seconds: float


class PairStrengths(NamedTuple):
    """Strengths of all pairs before the threshold, with facts and notes about them."""

    strengths: Float64[np.ndarray, "N N"] | EdgeList  # of all, or of those that are not zero
    facts: dict[str, Any]  # of About
    notes: tuple[str, ...] = ()


def estimate(locations: int, steps: int) -> Estimate:
    """Estimate the memory and time of learning a graph from its size."""
    N, block = locations, min(steps, BLOCK_STEPS)
    doubles = max(_MATRICES * N * N, 3 * N * N + 3 * block * N)  # solver; sums of products
    seconds = steps * N**2 / _PRODUCTS_PER_SECOND + _SECONDS_PER_CUBE * N**3
    return Estimate(max(8 * doubles, steps * N), seconds)  # one byte per value for the mask


def estimate_neighbourhoods(locations: int, steps: int) -> Estimate:
    """Estimate the memory and time of learning sparse neighbourhoods from the sizes."""
    N, M = locations, steps
    floats = N * M + _NEIGHBOURHOOD_NUMBERS * N + 2 * _NEIGHBOURHOOD_BLOCKS
    seconds = N * (N * _SECONDS_PER_SKETCH + M * _SECONDS_PER_STEP)
    return Estimate(4 * floats + 2 * N * M, seconds)


def estimate_lagged(locations: int, steps: int, max_delay: int) -> Estimate:
    """Estimate the memory and time of learning lagged edges from the sizes."""
    N, D, covariances = locations, max_delay, (max_delay + 1) * locations**2
    terms = N * (max(FACTORS) + 1) * D + N * min(_LAGGED_ROOM, D * N)
    floats = _LAGGED_MATRICES * covariances + _LAGGED_SERIES * N * steps
    doubles = _LAGGED_REGRESSIONS * 2 * terms  # numbers and coefficients
    seconds = steps * (covariances / _LAGGED_PRODUCTS_PER_SECOND + N * _SECONDS_PER_DEVIATION)
    seconds += _LAGGED_FOLDS * _SECONDS_PER_TERM * D * N**2
    return Estimate(4 * floats + 8 * doubles, seconds)


def learn_graph(  # noqa: PLR0913 (two of them are the solver's)
    panel: Panel,
    splits: Splits,
    config: GraphConfig = GraphConfig(),  # noqa: B008 (frozen)
    *,
    lags: LagConfig | None = None,
    allow_unconverged: bool = False,
    progress: MessageCallback | None = None,
    start: LassoResult | None = None,
) -> DependencyGraph:
    """Learn the dependency graph of a panel from its training steps alone.

    Args:
        panel: values of all locations.
        splits: the training, validation and test ranges.
        config: the kind of graph, the penalty λ of Eq. 4 and the threshold on Eq. 3.
        lags: of the network that takes lagged edges: they go no further back than its recent
            steps, and are measured up to its horizon, or half a week; None: chosen for the panel.
        allow_unconverged: accept a solution with a duality gap above the tolerance.
        progress: called with a message before each stage.
        start: what the lasso of a given penalty begins from, such as an earlier result.
    """
    tell = progress or (lambda _: None)
    N = len(panel.locations)
    resolved = resolve_kind(config, N)
    if resolved.kind != config.kind:
        tell(reason := _explain_neighbourhoods(N))
        return _with_note(_neighbourhood(panel, splits, resolved, tell), reason)
    match config.kind:
        case "lagged":
            return _lagged(panel, splits, config, lags, tell)
        case "neighbourhood":
            return _neighbourhood(panel, splits, config, tell)
        case "lasso" | "inverse" | "pearson":
            return _from_correlations(panel, splits, config, allow_unconverged, tell, start)
        case "random":
            edges = _random(panel, splits, config, allow_unconverged, tell)
            return _graph(panel, config, edges, degree=config.degree)
        case _:
            return _without_values(panel, config)


def _without_values(panel: Panel, config: GraphConfig) -> DependencyGraph:
    """Return a graph that needs no values."""
    match config.kind:
        case "own":
            return _graph(panel, config, no_edges())
        case "complete":
            return _graph(panel, config, complete(len(panel.locations)))
        case _:
            return _threshold(panel, config, PairStrengths(distance_kernel(panel.locations), {}))


def _from_correlations(
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
    allow_unconverged: bool,
    tell: MessageCallback,
    start: LassoResult | None,
) -> DependencyGraph:
    """Return the graph of the correlations of all pairs in the training steps."""
    train = assign_splits(panel, splits) == SPLITS.index("train")
    tell(f"covariance of {count_of(int(train.sum()), 'training step')}")
    training = correlate_training_steps(panel, train, config)
    match config.kind:
        case "pearson":
            pairs = PairStrengths(training.correlation, {})
        case "inverse":
            pairs = _inverse(training)
        case _:
            pairs = _lasso(training, config, allow_unconverged, tell, start)
    facts = {**describe_steps(training.sample, train), **pairs.facts}
    return _threshold(
        panel, config, PairStrengths(pairs.strengths, facts, training.notes + pairs.notes)
    )


def resolve_kind(config: GraphConfig, locations: int) -> GraphConfig:
    """The settings with the kind to learn: of many locations a lasso only if it is asked for."""
    asked_for = "kind" in config.model_fields_set or config.choose != "likelihood"
    if config.kind == "lasso" and not asked_for and locations > MOST_TOGETHER:
        return config.model_copy(update={"kind": "neighbourhood"})
    return config


def _explain_neighbourhoods(locations: int) -> str:
    """Say why the graph is one of neighbourhoods."""
    reason = f"more than {MOST_TOGETHER:,} locations, {locations:,}: each is regressed on a few"
    return f"{reason} candidates (kind neighbourhood); kind lasso takes all together"


def largest_delay(panel: Panel, config: GraphConfig, lags: LagConfig | None = None) -> int:
    """Return the largest delay of a lagged edge: the recipe's, or what a network can use."""
    if config.max_delay is not None:
        return config.max_delay
    recent = choose_lags(panel.clock, len(panel.values), LagConfig().horizon).lags.recent
    return recent if lags is None else min(recent, lags.recent)


def _lagged(
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
    lags: LagConfig | None,
    tell: MessageCallback,
) -> DependencyGraph:
    """Return the directed graph of whose past tells about whose future."""
    train = assign_splits(panel, splits) == SPLITS.index("train")
    tell("deviations from what is usual")
    room = max(panel.clock.season_slots // 2, 1)  # for many origins in a held-out week
    horizon = min((lags or LagConfig()).horizon, room)
    max_delay = largest_delay(panel, config, lags)
    sample = take_deviations(panel, train, max_delay + horizon)
    pairs, delays, strengths, record, notes = learn_lagged(
        sample, config, max_delay, horizon, tell
    )
    about = About(
        kind=config.kind,
        panel=panel.digest,
        chosen_by=_lagged_choice(config),
        steps=sample.steps,
        hours=training_ranges(panel, train),
        degree=config.degree,
        lagged=record,
        notes=notes,
    )
    return DependencyGraph(bare(panel.locations), pairs, strengths, about, None, delays)


def _neighbourhood(
    panel: Panel, splits: Splits, config: GraphConfig, tell: MessageCallback
) -> DependencyGraph:
    """Return the graph of a sparse regression of each location on its candidates."""
    train = assign_splits(panel, splits) == SPLITS.index("train")
    tell(f"means of {count_of(int(train.sum()), 'training step')}")
    sample = take_sample(panel, train, config.subtract)
    learned = learn_neighbourhoods(sample, config, tell)
    facts = {
        **describe_steps(sample, train),
        "penalise_diagonal": config.penalise_diagonal,
        "penalty": learned.penalty,
        "chosen_by": "given" if config.penalty is not None else "likelihood",
        "path": learned.path,
        "gap": learned.gap,
        "gap_tolerance": config.gap_tolerance,
        "converged": learned.gap <= config.gap_tolerance,
    }
    graph = _threshold(panel, config, PairStrengths(learned.pairs, facts, learned.notes))
    missing = int((learned.missing > (graph.about.threshold or 0.0)).sum())
    checked = count_of(len(learned.missing), "location")
    note = f"of {checked} that were checked, {missing} may have a neighbour that was no candidate"
    return _with_note(graph, note)


def _with_note(graph: DependencyGraph, note: str) -> DependencyGraph:
    about = graph.about.model_copy(update={"notes": (*graph.about.notes, note)})
    return replace(graph, about=about)


def _lagged_choice(config: GraphConfig) -> str:
    """Return what chose the penalty of a lagged graph."""
    if config.penalty is not None:
        return "given"
    return "held-out weeks" if config.degree is None else "degree"


def _random(
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
    allow_unconverged: bool,
    tell: MessageCallback,
) -> EdgeList:
    """Draw random edges: as many as the wanted degree needs, else as the learned graph has."""
    N, degree = len(panel.locations), config.degree
    if degree is None:
        like = config.model_copy(update={"kind": "lasso"})
        degree = learn_graph(
            panel, splits, like, allow_unconverged=allow_unconverged, progress=tell
        ).average_degree
    return random_edges(N, round(degree * N / 2), np.random.default_rng(config.seed))


def _lasso(
    evidence: TrainingCorrelations,
    config: GraphConfig,
    allow_unconverged: bool,
    tell: MessageCallback,
    start: LassoResult | None,
) -> PairStrengths:
    """Return the conditional correlations of the graphical lasso (Eq. 3 and 4)."""
    choice = _choose(evidence, config, tell, start)
    result = choice.result
    if not (result.converged or allow_unconverged):
        passes = count_of(result.iterations, "iteration")
        message = f"dual gap {result.gap:.2g} > {config.gap_tolerance:.2g} after {passes}"
        remedy = "raise max_iterations or the penalty, or allow an unconverged graph"
        raise RunError(f"graph: {message}; {remedy}")
    tell("comparison with the thresholded inverse")
    strengths = conditional_correlation(result.precision)
    facts = {
        "penalise_diagonal": config.penalise_diagonal,
        "penalty": choice.penalty,
        "chosen_by": "given" if config.penalty is not None else config.choose,
        "path": choice.path,
        "gap": result.gap,
        "gap_tolerance": config.gap_tolerance,
        "iterations": result.iterations,
        "converged": result.converged,
        "beside": _compare_with_inverse(evidence, strengths, config),
    }
    return PairStrengths(strengths, facts, _solver_notes(choice))


def _solver_notes(choice: SelectedPenalty) -> tuple[str, ...]:
    notes = [f"solver, locations by number from 0: {note}" for note in choice.result.notes]
    last = choice.path[-1] if choice.path else None
    if last and choice.penalty == last.penalty:
        notes.append(f"the best penalty is the smallest that was tried, {choice.penalty:g}")
    if last and not last.converged:
        notes.append(f"the path ended at penalty {last.penalty:g}: not converged there")
    return tuple(notes)


def _choose(
    evidence: TrainingCorrelations,
    config: GraphConfig,
    tell: MessageCallback,
    begin: LassoResult | None,
) -> SelectedPenalty:
    """Return the penalty of the recipe, or the best one, with the solution for all steps."""
    correlation = evidence.correlation

    def solve(penalty: float, start: LassoResult | None = None) -> LassoResult:
        tell(f"graphical lasso at penalty {penalty:.3g}")
        return graphical_lasso(
            correlation,
            penalty,
            penalise_diagonal=config.penalise_diagonal,
            gap_tolerance=config.gap_tolerance,
            max_iterations=config.max_iterations,
            start=start,
            tell=Paced(tell),
        )

    if config.penalty is not None:
        return SelectedPenalty(config.penalty, solve(config.penalty, begin), ())
    if config.choose == "ebic":
        return choose_by_ebic(correlation, len(evidence.sample.steps), config, tell)
    fit, held_out = evidence.parts
    chosen = choose_by_likelihood(fit, held_out, config, tell)
    return SelectedPenalty(chosen.penalty, solve(chosen.penalty, chosen.result), chosen.path)


def _inverse(evidence: TrainingCorrelations) -> PairStrengths:
    precision, reason = invert(evidence.correlation)
    if precision is None:
        size = f"{count_of(len(evidence.correlation), 'location')}"
        steps = count_of(len(evidence.sample.steps), "step")
        raise DataError(f"graph: {reason} ({size}, {steps}); use the graphical lasso")
    return PairStrengths(conditional_correlation(precision), {})


def _compare_with_inverse(
    evidence: TrainingCorrelations, strengths: Float64[np.ndarray, "N N"], config: GraphConfig
) -> InverseComparison:
    """Compare the lasso with the inverse covariance, thresholded in the same way."""
    precision, reason = invert(evidence.correlation)
    if precision is None:
        return InverseComparison(edges=None, average_degree=None, overlap=None, note=reason)
    panel, inverse = evidence.sample.panel, conditional_correlation(precision)
    lasso_graph = _threshold(panel, config, PairStrengths(strengths, {}))
    inverse_graph = _threshold(panel, config, PairStrengths(inverse, {}))
    return InverseComparison(
        edges=len(inverse_graph),
        average_degree=inverse_graph.average_degree,
        overlap=lasso_graph.overlap(inverse_graph),
    )


def _threshold(panel: Panel, config: GraphConfig, pairs: PairStrengths) -> DependencyGraph:
    """Return the graph of the pairs above the threshold, from the recipe or the wanted degree."""
    threshold, N = config.threshold, len(panel.locations)
    if threshold is None:
        threshold = threshold_for_degree(pairs.strengths, config.degree or 0.0, N)
    edges = edges_above(pairs.strengths, threshold)
    notes = pairs.notes
    if N > 1 and len(edges.pairs) in (0, N * (N - 1) // 2):
        remaining = "no edge" if not len(edges.pairs) else "every edge"
        degree = f"average degree {2 * len(edges.pairs) / N:g} (the paper: 2.5 at 0.1)"
        notes += (f"threshold {threshold:g} leaves {remaining}: {degree}",)
    if config.degree is not None and 2 * len(edges.pairs) + 1 < min(config.degree, N - 1) * N:
        most = 2 * len(edges.pairs) / N
        notes += (f"average degree {config.degree:g} is not possible; the largest is {most:.3g}",)
    steps = pairs.facts.get("steps")
    if steps and len(edges.pairs) and 0 < threshold < (noise := _SIGMAS / steps**0.5):
        notes += (
            f"threshold {threshold:g} is below 3/√M = {noise:.3g}: weak edges may be chance",
        )
    facts = {**pairs.facts, "threshold": threshold, "degree": config.degree, "notes": notes}
    return _graph(panel, config, edges, **facts)


def _graph(panel: Panel, config: GraphConfig, edges: EdgeList, **facts: Any) -> DependencyGraph:
    about = About(kind=config.kind, panel=panel.digest, **facts)
    return DependencyGraph(bare(panel.locations), edges.pairs, edges.strengths, about)
