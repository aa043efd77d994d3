"""Updates of all coefficients and of the noise variance that leave their posterior invariant.

`JointUpdate`: sigma^2 with delta integrated out, then delta: one factorisation for all coefficients
(`coefficient_draws`).

`HalvesUpdate`: the coefficients are divided into two random halves; (sigma^2, delta_a) is drawn
given delta_b, then (sigma^2, delta_b) given delta_a. With r = g_a - G_ab delta_b, this is the joint
update of a problem with G_aa and r, where

    E = r'A^-1 r + 2 g_b'delta_b - delta_b'G_bb delta_b - delta_b'D_b^-1 delta_b,
    A = G_aa + D_a^-1.

A new division is drawn every few sweeps, independently of the state of the chain, so that no two
correlated coefficients stay in different halves. Two factorisations of half the size take a quarter
of the work of a full one and fit into the cache. `python -m benchmarks last-layer` compares
effective sample sizes: those of halves are similar to those of joint updates, those of quarters
lower.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv

from bandgap.inference.last_layer.coefficient_draws import CoefficientForm, GramForm, form_of
from bandgap.inference.last_layer.noise_variance import Response, draw_noise_variance
from bandgap.inference.last_layer.reduced_regression import ReducedRegression

LEAST = 256  # coefficients above which halves are drawn
EVERY = 20  # sweeps between two divisions into halves

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CoefficientDraw:
    """Coefficients delta (p,), the noise variance, and delta'G delta."""

    delta: Floats
    sigma2: float
    fitted: float


class CoefficientUpdate(Protocol):
    """Updates of delta and sigma^2 for prior variances that change with every sweep."""

    form: CoefficientForm

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> CoefficientDraw:
        """Draw delta (p,) and sigma^2, starting from `delta`.

        `variances` (p,) are the prior variances of delta in units of sigma^2.
        """
        ...


def update_of(problem: ReducedRegression) -> CoefficientUpdate:
    """Return the update for this problem: in halves for large Gram matrices."""
    halves = problem.rows is None and problem.moment.size >= LEAST
    return HalvesUpdate(problem) if halves else JointUpdate(form_of(problem))


class JointUpdate:
    """Draws all coefficients together, independently of those before."""

    def __init__(self, form: CoefficientForm) -> None:
        self.form = form

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> CoefficientDraw:
        """Draw sigma^2, then delta."""
        del delta
        sigma2 = draw_noise_variance(self.form.factor(variances), response, rng)
        return CoefficientDraw(self.form.draw(math.sqrt(sigma2), rng), sigma2, self.form.fitted)


@dataclass(frozen=True, eq=False)
class _Half:
    """One half of the coefficients: its indices (h,) and its own problem.

    `tie` is the block of G (h, p - h) that connects it to the other half.
    """

    which: Indices
    gram: Floats
    moment: Floats
    tie: Floats
    form: GramForm

    def explained(self, delta: Floats, variances: Floats, fitted: float) -> float:
        """Return 2 g'delta - delta'G delta - delta'D^-1 delta; `fitted` is delta'G delta."""
        return 2.0 * float(self.moment @ delta) - fitted - float((delta / variances) @ delta)


class HalvesUpdate:
    """Draws one random half of the coefficients given the other, then the other."""

    def __init__(self, problem: ReducedRegression) -> None:
        self.form: CoefficientForm = GramForm(problem)
        self._problem = problem
        self._n_sweeps_left = 0
        self._halves: tuple[_Half, _Half]

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> CoefficientDraw:
        """Draw sigma^2 and a half, twice; the noise variance is that of the second draw."""
        if self._n_sweeps_left == 0:
            self._divide(rng)
        self._n_sweeps_left -= 1
        first, second = self._halves
        b = delta[second.which]
        fitted = float(b @ dsymv(1.0, second.gram, b, lower=1))
        _, a, fitted_a, _ = _draw_half(first, second, b, fitted, variances, response, rng)
        sigma2, b, fitted_b, tied = _draw_half(second, first, a, fitted_a, variances, response, rng)
        result = np.empty_like(delta)
        result[first.which] = a
        result[second.which] = b
        return CoefficientDraw(result, sigma2, fitted_a + fitted_b + 2.0 * float(tied @ b))

    @property
    def halves(self) -> tuple[Indices, Indices]:
        """Indices of both halves of the last update."""
        first, second = self._halves
        return first.which, second.which

    def _divide(self, rng: np.random.Generator) -> None:
        p = self._problem.moment.size
        order = rng.permutation(p)
        a = np.sort(order[: p // 2])
        b = np.sort(order[p // 2 :])
        tie = self._problem.gram[np.ix_(a, b)]
        self._halves = (self._half(a, tie), self._half(b, tie.T))
        self._n_sweeps_left = EVERY

    def _half(self, which: Indices, tie: Floats) -> _Half:
        gram = np.asfortranarray(self._problem.gram[np.ix_(which, which)])
        moment = self._problem.moment[which]
        form = GramForm(replace(self._problem, gram=gram, moment=moment))
        return _Half(which, gram, moment, tie, form)


def _draw_half(
    half: _Half,
    other: _Half,
    other_delta: Floats,
    fitted: float,
    variances: Floats,
    response: Response,
    rng: np.random.Generator,
) -> tuple[float, Floats, float, Floats]:
    """Draw sigma^2 and a half, given the other half's delta, `other_delta`, and its delta'G delta.

    Returns sigma^2, delta of the half, its delta'G delta, and G_ab delta_b.
    """
    tied = half.tie @ other_delta
    explained = half.form.factor(variances[half.which], half.moment - tied)
    explained += other.explained(other_delta, variances[other.which], fitted)
    sigma2 = draw_noise_variance(explained, response, rng, n_fixed=other_delta.size)
    return sigma2, half.form.draw(math.sqrt(sigma2), rng), half.form.fitted, tied
