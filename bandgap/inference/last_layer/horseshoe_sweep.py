r"""One sweep of a Markov chain for a regression under the horseshoe prior, with moves that let tau mix.

    sigma^2, delta | lambda, tau    exactly, or in two halves (`coefficient_updates`)
    tau                             along a line: coefficients in `centred` keep delta_j and tau lambda_j, the others
                                    keep delta_j / tau and lambda_j
    tau     | delta, sigma^2        with all lambda integrated out, then lambda exactly (`priors.horseshoe`)

Given delta and lambda, p local scales pin tau down, and plain Gibbs sampling needs a hundred sweeps to move it. The
line is an interweaving strategy (Yu and Meng, 2011) that is centred for coefficients that the data determine and not
centred for those that the prior does; which is which is learned during warm-up (`choose_centred`), then fixed.

Measured (`python -m benchmarks last-layer`), effective draws of log tau in 1,000 sweeps, 512 ReLU features, change of
25 weights and of all. Makalic and Schmidt (2016): 9 and 21 at n = 500, 12 and 44 at n = 2,000. These sweeps: 85 and 41,
67 and 155. With joint updates, a random walk of log tau with delta and sigma^2 integrated out, at one more
factorisation a sweep, gave 74 and 53, 46 and 70 where the line gave 60 and 53, 73 and 109.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.last_layer.coefficient_draws import CoefficientForm
from bandgap.inference.last_layer.coefficient_updates import CoefficientUpdate
from bandgap.inference.last_layer.noise_variance import Response
from bandgap.priors.horseshoe import (
    LARGEST,
    SMALLEST,
    draw_local_variances,
    log_marginal,
    log_prior_log_tau,
)

LARGEST_LOG_TAU = 280.0
LINE_WIDTH = 1.0  # of the slice's first bracket in log tau, along the line
SCALE_WIDTH = 8.0  # the same given delta, times 1 / sqrt(p)
POINTS = 4  # of a slice, evaluated at once: a step takes about three
CENTRED_TELLS = 1.5  # of log tau by a centred coefficient, in `choose_centred`

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class HorseshoeState:
    """Coefficients delta (p,), noise variance, log tau, and squared local scales lambda^2 (p,)."""

    delta: Floats
    sigma2: float
    log_tau: float
    local: Floats

    @property
    def variances(self) -> Floats:
        """tau^2 lambda^2 (p,), the prior variances of delta in units of sigma^2."""
        return np.minimum(np.maximum(math.exp(2.0 * self.log_tau) * self.local, SMALLEST), LARGEST)


@dataclass(frozen=True, eq=False)
class Line:
    """The coefficients that are centred along the line, (c,) indices, and their columns of G, (p, c)."""

    centred: NDArray[np.intp]
    columns: Floats


def line_of(form: CoefficientForm, centred: Bools) -> Line:
    """Return the line on which the coefficients `centred` (p,) keep their values."""
    which = np.flatnonzero(centred)
    return Line(which, form.columns(which))


def sweep(
    state: HorseshoeState,
    update: CoefficientUpdate,
    moment: Floats,
    response: Response,
    *,
    line: Line | None,
    rng: np.random.Generator,
) -> HorseshoeState:
    """Make one sweep; `line` None leaves the move along it out."""
    drawn = update.update(state.delta, state.variances, response, rng)
    state = HorseshoeState(drawn.delta, drawn.sigma2, state.log_tau, state.local)
    if line is not None:
        state = move_along_line(state, line, moment, fitted=drawn.fitted, rng=rng)
    return draw_scales(state, rng)


def move_along_line(
    state: HorseshoeState, line: Line, moment: Floats, *, fitted: float, rng: np.random.Generator
) -> HorseshoeState:
    """Slice-sample log tau where centred coefficients keep delta and tau lambda, the others delta / tau and lambda.

    With k = tau' / tau and delta = delta_c + delta_o, the likelihood is exp(-(k^2 delta_o'G delta_o + 2 k (delta_o'G
    delta_c - g'delta_o)) / (2 s2)); each centred coefficient adds the half-Cauchy density of lambda / k, which in log
    tau is (lambda / k) / (1 + (lambda / k)^2). `fitted` is delta'G delta: with G delta_c, which has few terms, it gives
    the rest without a product of G.
    """
    which, start = line.centred, state.log_tau
    other, local, kept = state.delta.copy(), state.local[which], state.delta[which]
    other[which] = 0.0
    image = line.columns @ kept
    between = float(image @ other)
    square = max(fitted - 2.0 * between - float(image[which] @ kept), 0.0) / (2.0 * state.sigma2)
    linear = (between - float(moment @ other)) / state.sigma2

    def log_density(at: Floats) -> Floats:
        k = np.exp(at)
        pull = np.log1p(np.outer(k**-2, local)).sum(axis=1) + local.size * at
        result: Floats = log_prior_log_tau(start + at) - k * (k * square + linear) - pull
        return result

    at = slice_step(log_density, width=LINE_WIDTH, rng=rng)
    k = math.exp(at)
    scaled = state.local.copy()
    scaled[which] = local * (1.0 / k**2)
    return HorseshoeState(
        state.delta + (k - 1.0) * other, state.sigma2, _bounded(start + at), scaled
    )


def draw_scales(state: HorseshoeState, rng: np.random.Generator) -> HorseshoeState:
    """Slice-sample log tau given delta and sigma^2 with lambda integrated out; then draw lambda."""
    log_squares = np.log(np.maximum(state.delta**2, 1e-300)) - math.log(2.0 * state.sigma2)
    p, start = log_squares.size, state.log_tau

    def log_density(at: Floats) -> Floats:
        likelihood = log_marginal(log_squares - 2.0 * (start + at[:, None])).sum(axis=1)
        result: Floats = likelihood - p * at + log_prior_log_tau(start + at)
        return result

    log_tau = _bounded(
        start + slice_step(log_density, width=SCALE_WIDTH / math.sqrt(max(p, 1)), rng=rng)
    )
    local = draw_local_variances(
        np.exp(np.minimum(np.maximum(log_squares - 2.0 * log_tau, -690.0), 690.0)), rng
    )
    return HorseshoeState(state.delta, state.sigma2, log_tau, local)


def choose_centred(state: HorseshoeState, form: CoefficientForm, activity: Floats) -> Bools:
    """Return the coefficients (p,) to keep along the line: the most active ones, as many as pin tau down least.

    All others together tell delta_o'G delta_o / s2 about log tau (Fisher information); a centred one tells 1/2 by its
    half-Cauchy law, and counts three times that here: the step after the line is centred for all. Effective draws of
    log tau in 1,000 sweeps with counts of 0.5, 1.5 and 4: 30, 53 and 33; 83, 109 and 105 (a change of all weights).
    """
    order = np.argsort(-activity)
    told = (
        CENTRED_TELLS * np.arange(order.size + 1)
        + form.tail_squares(state.delta, order) / state.sigma2
    )
    centred = np.zeros(order.size, dtype=bool)
    centred[order[: int(np.argmin(told))]] = True
    return centred


def slice_step(
    log_density: Callable[[Floats], Floats], *, width: float, rng: np.random.Generator
) -> float:
    """Return the next position of a slice sampler at 0 (Neal, 2003), its bracket placed at random and then shrunk.

    `log_density` maps positions (m,) to values (m,). Points are drawn in advance for one call; those that the bracket
    has lost meanwhile are skipped, which leaves uniform points of the bracket that there is.
    """
    high = width * float(rng.random())
    low = high - width
    points = np.zeros(POINTS + 1)
    points[:-1] = low + (high - low) * rng.random(POINTS)
    *values, value = log_density(points).tolist()
    level = value - float(rng.standard_exponential())
    while True:
        for point, value in zip(points.tolist(), values, strict=False):
            if low <= point <= high:
                if value >= level or high - low < 1e-12:
                    return float(point)
                low, high = (point, high) if point < 0 else (low, point)
        points = low + (high - low) * rng.random(POINTS)
        values = log_density(points).tolist()


def _bounded(log_tau: float) -> float:
    return min(max(log_tau, -LARGEST_LOG_TAU), LARGEST_LOG_TAU)
