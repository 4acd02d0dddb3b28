"""Noise that travels: a location's noise follows its own past, that of others, and city factors.

With edges e from j to i of strength s_e and delay d_e, factors g_f of loading λ_if and delay d_if,
and innovations ε that have the city's partial correlations:

    u_{i,t} = φ·u_{i,t−1} + Σ_e s_e·u_{j,t−d_e} + Σ_f λ_if·g_{f,t−d_if} + ε_{i,t}
    g_{f,t} = ψ·g_{f,t−1} + √(1−ψ²)·η_{f,t}

The edges form no cycle, so the largest eigenvalue of the recursion is that of φ or ψ. Every
location is scaled to the stationary deviation σ, as in a city where nothing travels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64, Int64
from scipy.sparse import csr_array

from forecaster.synthetic.demand import (
    NOISE_AR,
    NOISE_SD,
    blocks,
    draw_shocks,
    mix_of,
    round_mix,
)
from forecaster.synthetic.lagged import (
    FACTOR_AR,
    MAX_DELAY,
    LaggedEdges,
    LaggedFactors,
    draw_lagged_edges,
    draw_lagged_factors,
)
from forecaster.synthetic.locations import StreetGrid
from forecaster.synthetic.streams import BLOCK_HOURS, Stream, autoregress, open_stream

LENT_MEMORY = 0.40  # φ falls by this at full travel: what a place keeps less, others pass on
OWN_HOURS = 48  # of its own past that a location's forecast alone looks at
_RESPONSE_HOURS = 240  # after which a shock is forgotten: ψ²⁴⁰ is 1e-11
_CHUNK = 32  # shocks whose responses are followed at a time, to save memory
_DECIMALS = 12  # of scales, so that the last digits do not depend on the machine's libraries
_EDGES, _FACTOR_VALUES, _BEFORE = range(3)  # parts of the stream


@dataclass(frozen=True, eq=False)
class Travel:
    """How noise travels: the terms of its recursion."""

    memory: float  # φ
    edges: LaggedEdges
    factors: LaggedFactors
    mix: Float64[np.ndarray, "N N"]  # ε = z·mix with independent normal z

    def draw_noise(
        self, steps: int, seed: int
    ) -> tuple[Float32[np.ndarray, "T N"], Float32[np.ndarray, "T F"]]:
        """Draw the noise and the factors, after enough hours to be stationary.

        The innovations are those of the city with this seed where nothing travels, but for scale.
        """
        N, F = self.factors.loadings.shape
        factors = _draw_factors(BLOCK_HOURS + steps, F, seed)
        noise = np.zeros((BLOCK_HOURS + steps, N), dtype=np.float32)
        before = open_stream(seed, Stream.TRAVEL, _BEFORE)
        shocks = open_stream(seed, Stream.NOISE)
        draw_shocks(1, self.mix, shocks)  # the state before the first hour where nothing travels
        transition = self._transition()
        for block in blocks(len(noise)):
            generator = shocks if block.start else before
            inputs = draw_shocks(block.stop - block.start, self.mix, generator)
            inputs = inputs + self._arrivals(factors, np.arange(block.start, block.stop))
            for step in range(max(block.start, MAX_DELAY), block.stop):
                past = noise[step - MAX_DELAY : step].reshape(-1)
                noise[step] = transition @ past + inputs[step - block.start]
        return noise[BLOCK_HOURS:], factors[BLOCK_HOURS:]

    def means_ahead(
        self,
        noise: Float32[np.ndarray, "_ N"],
        factors: Float32[np.ndarray, "_ F"],
        origins: Int64[np.ndarray, " _"],
        horizon: int,
    ) -> Iterator[Float64[np.ndarray, "_ N"]]:
        """Yield the mean of the noise of every step ahead given all noise and factors so far.

        It follows the recursion with ε = η = 0 after the origin.
        """
        B, N = len(origins), noise.shape[1]
        past = np.arange(1 - MAX_DELAY, 1)
        state = noise[origins + past[:, None]].astype(np.float64)  # [delay, B, N], oldest first
        state = state.transpose(0, 2, 1).reshape(-1, B)
        ahead = factors[origins[:, None]] * FACTOR_AR ** np.arange(1.0, horizon + 1)[:, None]
        inputs = np.concatenate([factors[origins[:, None] + past], ahead], axis=1)
        transition = self._transition()
        for step in range(horizon):
            mean = transition @ state
            for f in range(inputs.shape[2]):
                at = MAX_DELAY + step - self.factors.delays[:, f]
                mean += self.factors.loadings[:, f, None] * inputs[:, at, f].T
            state = np.concatenate([state[N:], mean])
            yield np.asarray(mean.T)

    def variances_ahead(self, horizon: int) -> Float64[np.ndarray, "K N"]:
        """Return the variance of the noise around the mean of every step ahead."""
        by_hour = sum(np.square(part).sum(axis=2) for part in self._responses(horizon))
        return np.cumsum(by_hour, axis=0)

    def predict_alone(
        self, horizon: int
    ) -> tuple[Float64[np.ndarray, "K P N"], Float64[np.ndarray, "K N"]]:
        """Return the best weights of a location's own last hours, and the variances left.

        The weights solve the normal equations of the true autocovariances; the newest is first.
        """
        covariance = self._autocovariances(OWN_HOURS + horizon)
        hours = np.arange(OWN_HOURS)
        own_past = covariance[np.abs(hours[:, None] - hours)].transpose(2, 0, 1)
        ahead = covariance[1 + hours[:, None] + np.arange(horizon)].transpose(2, 0, 1)
        weights = np.linalg.solve(own_past, ahead)  # [N, P, K]
        remaining = covariance[0] - (weights * ahead).sum(axis=1).T
        return np.ascontiguousarray(weights.transpose(2, 1, 0)), remaining

    def scaled(self) -> "Travel":
        """Return the same recursion in units in which every location has the deviation σ."""
        scale = (NOISE_SD / np.sqrt(self._autocovariances(1)[0])).round(_DECIMALS)
        source, target = self.edges.pairs.T
        strengths = self.edges.strengths * scale[target] / scale[source]
        loadings = self.factors.loadings * scale[:, None]
        return replace(
            self,
            edges=replace(self.edges, strengths=strengths),
            factors=replace(self.factors, loadings=loadings),
            mix=round_mix(self.mix * scale),
        )

    def _transition(self) -> csr_array:
        """Return the coefficients of the last hours, the oldest first: [N, hours · N]."""
        N = len(self.mix)
        everyone = np.arange(N)
        source, target = self.edges.pairs.T
        rows = np.concatenate([everyone, target])
        columns = np.concatenate(
            [(MAX_DELAY - 1) * N + everyone, (MAX_DELAY - self.edges.delays) * N + source]
        )
        values = np.concatenate([np.full(N, self.memory), self.edges.strengths])
        return csr_array((values, (rows, columns)), shape=(N, MAX_DELAY * N))

    def _arrivals(
        self, factors: Float32[np.ndarray, "T F"], steps: Int64[np.ndarray, " S"]
    ) -> Float64[np.ndarray, "S N"]:
        """Return what the factors add at some steps; nothing has arrived before the first."""
        arrivals = np.zeros((len(steps), len(self.mix)))
        for f, (loading, delay) in enumerate(
            zip(self.factors.loadings.T, self.factors.delays.T, strict=True)
        ):
            sent = steps[:, None] - delay
            arrivals += loading * np.where(sent < 0, 0.0, factors[np.maximum(sent, 0), f])
        return arrivals

    def _responses(self, hours: int) -> Iterator[Float64[np.ndarray, "_ N _"]]:
        """Yield how the noise responds over time to a unit of some shocks, for all shocks."""
        N, F = self.factors.loadings.shape
        transition = self._transition()
        for begin in range(0, N + F, _CHUNK):
            shocks = np.arange(begin, min(begin + _CHUNK, N + F))
            response = np.zeros((MAX_DELAY + hours, N, len(shocks)))
            response[MAX_DELAY, :, shocks < N] = self.mix[shocks[shocks < N]]
            for column in np.flatnonzero(shocks >= N):
                response[MAX_DELAY:, :, column] = self._pulse(int(shocks[column]) - N, hours)
            for hour in range(MAX_DELAY, MAX_DELAY + hours):
                past = response[hour - MAX_DELAY : hour].reshape(-1, len(shocks))
                response[hour] += transition @ past
            yield response[MAX_DELAY:]

    def _pulse(self, factor: int, hours: int) -> Float64[np.ndarray, "hours N"]:
        """Return what a unit shock of one factor adds to each location, hour by hour."""
        since = np.arange(hours)[:, None] - self.factors.delays[:, factor]
        fading = np.where(since < 0, 0.0, FACTOR_AR ** np.maximum(since, 0.0))
        return np.asarray(np.sqrt(1.0 - FACTOR_AR**2) * self.factors.loadings[:, factor] * fading)

    def _autocovariances(self, lags: int) -> Float64[np.ndarray, "lags N"]:
        """Return the stationary autocovariance of every location, from lag 0 on."""
        covariance = np.zeros((lags, len(self.mix)))
        for response in self._responses(_RESPONSE_HOURS):
            for lag in range(min(lags, _RESPONSE_HOURS)):
                later, sooner = response[lag:], response[: len(response) - lag]
                covariance[lag] += np.einsum("hns,hns->n", later, sooner)
        return covariance


def draw_travel(
    grid: StreetGrid, precision: Float64[np.ndarray, "N N"], strength: float, seed: int
) -> Travel:
    """Draw how noise travels in a city; `strength` above 0 and up to 1 multiplies all of it."""
    generator = open_stream(seed, Stream.TRAVEL, _EDGES)
    edges = draw_lagged_edges(grid, generator)
    factors = draw_lagged_factors(grid, generator)
    memory = NOISE_AR - LENT_MEMORY * strength
    return Travel(
        memory=memory,
        edges=replace(edges, strengths=strength * edges.strengths),
        factors=replace(factors, loadings=strength * factors.loadings),
        mix=mix_of(precision) * np.sqrt(1.0 - memory**2),
    ).scaled()


def _draw_factors(steps: int, count: int, seed: int) -> Float32[np.ndarray, "steps F"]:
    generator = open_stream(seed, Stream.TRAVEL, _FACTOR_VALUES)
    before = generator.standard_normal(count)
    shocks = generator.standard_normal((steps, count))
    return autoregress(shocks, FACTOR_AR, before).astype(np.float32)
