r"""Updates of all coefficients and of the noise variance given the prior variances D, which leave their law as it is.

`JointUpdate`: sigma^2 with delta integrated out, then delta: one factorisation of all (`coefficient_draws`).

`HalvesUpdate`: the coefficients fall into two random halves; (sigma^2, delta_a) is drawn given delta_b, then (sigma^2,
delta_b) given delta_a. With r = g_a - G_ab delta_b, that is the joint update of a problem with G_aa and r, where

    E = r'A^-1 r + 2 g_b'delta_b - delta_b'G_bb delta_b - delta_b'D_b^-1 delta_b,   A = G_aa + D_a^-1.

The halves are drawn anew every few sweeps, whatever the state of the chain is, so that no two correlated coefficients
stay apart. Two factorisations of half the size take a quarter of the work of a whole one, and memory near the processor
holds them. Measured, effective draws in 1,000 sweeps of log tau, log sigma^2 and, median and least, of 20 predictions,
each to about 30 %; 512 random ReLU features of 128 inputs: change of 25 weights, n = 500, jointly 51, 117, 228, 178, in
halves 71, 133, 255, 153; n = 2,000, 106, 773, 351, 189 and 96, 765, 347, 188; change of all weights, n = 500, 26, 59,
219, 155 and 51, 94, 243, 135. Of 8 inputs, much correlated, change of all, n = 2,000: 30, 361, 176, 100 and 22, 311,
95, 68. Quarters lose more.
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

LEAST = 256  # coefficients from which on halves are drawn
EVERY = 20  # sweeps between two divisions into halves

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Coefficients delta (p,), the noise variance, and delta'G delta."""

    delta: Floats
    sigma2: float
    fitted: float


class CoefficientUpdate(Protocol):
    """Updates of delta and sigma^2 for prior variances that change from sweep to sweep."""

    form: CoefficientForm

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> Drawn:
        """Draw delta (p,) and sigma^2 given the prior variances (p,) of delta in units of sigma^2, and from `delta`."""
        ...


def update_of(problem: ReducedRegression) -> CoefficientUpdate:
    """Return the update of this problem: in halves where a Gram matrix is large."""
    halves = problem.rows is None and problem.moment.size >= LEAST
    return HalvesUpdate(problem) if halves else JointUpdate(form_of(problem))


class JointUpdate:
    """All coefficients at once, independent of those before."""

    def __init__(self, form: CoefficientForm) -> None:
        self.form = form

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> Drawn:
        """Draw sigma^2, then delta."""
        del delta
        sigma2 = draw_noise_variance(self.form.factor(variances), response, rng)
        return Drawn(self.form.draw(math.sqrt(sigma2), rng), sigma2, self.form.fitted)


@dataclass(frozen=True, eq=False)
class _Half:
    """Indices of a half (h,), its own problem, and the block of G (h, p - h) that ties it to the other."""

    which: Indices
    gram: Floats
    moment: Floats
    tie: Floats
    form: GramForm

    def explained(self, delta: Floats, variances: Floats, fitted: float) -> float:
        """Return 2 g'delta - delta'G delta - delta'D^-1 delta of this half, `fitted` being delta'G delta."""
        return 2.0 * float(self.moment @ delta) - fitted - float((delta / variances) @ delta)


class HalvesUpdate:
    """One random half of the coefficients given the other, then the other given the first."""

    def __init__(self, problem: ReducedRegression) -> None:
        self.form: CoefficientForm = GramForm(problem)
        self._problem, self._left = problem, 0
        self._halves: tuple[_Half, _Half]

    def update(
        self, delta: Floats, variances: Floats, response: Response, rng: np.random.Generator
    ) -> Drawn:
        """Draw sigma^2 and a half, twice; the noise variance is that of the second draw."""
        if self._left == 0:
            self._divide(rng)
        self._left -= 1
        first, second = self._halves
        held = delta[second.which]
        fitted = float(held @ dsymv(1.0, second.gram, held, lower=1))
        _, a, fitted_a, _ = _draw_half(first, second, held, fitted, variances, response, rng)
        sigma2, b, fitted_b, tied = _draw_half(second, first, a, fitted_a, variances, response, rng)
        result = np.empty_like(delta)
        result[first.which], result[second.which] = a, b
        return Drawn(result, sigma2, fitted_a + fitted_b + 2.0 * float(tied @ b))

    @property
    def halves(self) -> tuple[Indices, Indices]:
        """Indices of both halves of the last update."""
        first, second = self._halves
        return first.which, second.which

    def _divide(self, rng: np.random.Generator) -> None:
        p = self._problem.moment.size
        order = rng.permutation(p)
        a, b = np.sort(order[: p // 2]), np.sort(order[p // 2 :])
        tie = self._problem.gram[np.ix_(a, b)]
        self._halves, self._left = (self._half(a, tie), self._half(b, tie.T)), EVERY

    def _half(self, which: Indices, tie: Floats) -> _Half:
        gram, moment = (
            np.asfortranarray(self._problem.gram[np.ix_(which, which)]),
            self._problem.moment[which],
        )
        return _Half(
            which, gram, moment, tie, GramForm(replace(self._problem, gram=gram, moment=moment))
        )


def _draw_half(
    half: _Half,
    other: _Half,
    held: Floats,
    fitted: float,
    variances: Floats,
    response: Response,
    rng: np.random.Generator,
) -> tuple[float, Floats, float, Floats]:
    """Return sigma^2, delta of the half and its delta'G delta, and G_ab delta_b, given `held` and its delta'G delta."""
    tied = half.tie @ held
    explained = half.form.factor(variances[half.which], half.moment - tied)
    explained += other.explained(held, variances[other.which], fitted)
    sigma2 = draw_noise_variance(explained, response, rng, held=held.size)
    return sigma2, half.form.draw(math.sqrt(sigma2), rng), half.form.fitted, tied
