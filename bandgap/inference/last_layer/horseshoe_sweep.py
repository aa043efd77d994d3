"""One sweep of a Markov chain for a regression with the horseshoe prior; tau mixes well.

    sigma^2, delta | lambda, tau    exactly, or in two halves (`coefficient_updates`)
    tau along a line                coefficients in `centred` keep delta_j and tau lambda_j,
                                    the others delta_j / tau and lambda_j
    tau | delta, sigma^2            with all lambda integrated out, then lambda exactly
                                    (`priors.horseshoe`)

Given delta and lambda, p local scales determine tau, and plain Gibbs sampling needs a hundred
sweeps to move it. The line is an interweaving strategy (Yu and Meng, 2011): centred for
coefficients that the data determine, not centred for those that the prior determines. Which is
which is learned during warm-up (`choose_centred`) and then fixed. `python -m benchmarks last-layer`
compares the effective sample sizes with those of plain Gibbs sampling (Makalic and Schmidt, 2016).
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
    LogRange,
    draw_local_variances,
    log_marginal,
    log_prior_log_tau,
)

LARGEST_LOG_TAU = 280.0
LINE_WIDTH = 1.0  # first bracket of the slice in log tau, along the line
SCALE_WIDTH = 8.0  # the same given delta, times 1 / sqrt(p)
POINTS = 4  # points of a slice that are evaluated together: a step takes about three
CENTRED_INFORMATION = 1.5  # on log tau by a centred coefficient, in `choose_centred`

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
    """Indices (c,) of the centred coefficients of a line, and their columns of G (p, c)."""

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
    log_range: LogRange = None,
) -> HorseshoeState:
    """Make one sweep; `line` None omits the move along it, `log_range` truncates log tau."""
    coefficients = update.update(state.delta, state.variances, response, rng)
    state = HorseshoeState(coefficients.delta, coefficients.sigma2, state.log_tau, state.local)
    if line is not None:
        state = move_along_line(
            state, line, moment, fitted=coefficients.fitted, rng=rng, log_range=log_range
        )
    return draw_scales(state, rng, log_range=log_range)


def move_along_line(
    state: HorseshoeState,
    line: Line,
    moment: Floats,
    *,
    fitted: float,
    rng: np.random.Generator,
    log_range: LogRange = None,
) -> HorseshoeState:
    """Slice-sample log tau along the line; `fitted` is delta'G delta.

    Centred coefficients keep delta and tau lambda, the others delta / tau and lambda.
    """
    log_density = log_density_along_line(state, line, moment, fitted=fitted, log_range=log_range)
    shift = slice_step(log_density, width=LINE_WIDTH, rng=rng)
    k = math.exp(shift)
    uncentred = state.delta.copy()
    uncentred[line.centred] = 0.0
    local = state.local.copy()
    local[line.centred] *= 1.0 / k**2
    log_tau = _bounded(state.log_tau + shift, log_range)
    return HorseshoeState(state.delta + (k - 1.0) * uncentred, state.sigma2, log_tau, local)


def log_density_along_line(
    state: HorseshoeState,
    line: Line,
    moment: Floats,
    *,
    fitted: float,
    log_range: LogRange = None,
) -> Callable[[Floats], Floats]:
    r"""Return the log density, up to a constant, of shifts (m,) of log tau along the line.

    With k = tau' / tau, delta_c the centred and delta_o the other coefficients, the likelihood is

        exp(-(k^2 delta_o'G delta_o + 2 k (delta_o'G delta_c - g'delta_o)) / (2 s2)).

    Each centred coefficient adds the half-Cauchy density of lambda / k, which in log tau is
    (lambda / k) / (1 + (lambda / k)^2). `fitted` is delta'G delta. With G delta_c, which has few
    terms, it gives delta_o'G delta_o without a product with G.
    """
    local = state.local[line.centred]
    centred = state.delta[line.centred]
    uncentred = state.delta.copy()
    uncentred[line.centred] = 0.0
    image = line.columns @ centred
    between = float(image @ uncentred)
    uncentred_square = max(fitted - 2.0 * between - float(image[line.centred] @ centred), 0.0)
    square = uncentred_square / (2.0 * state.sigma2)
    linear = (between - float(moment @ uncentred)) / state.sigma2

    def log_density(shift: Floats) -> Floats:
        k = np.exp(shift)
        half_cauchy = np.log1p(np.outer(k**-2, local)).sum(axis=1) + local.size * shift
        prior = log_prior_log_tau(state.log_tau + shift, log_range=log_range)
        result: Floats = prior - k * (k * square + linear) - half_cauchy
        return result

    return log_density


def draw_scales(
    state: HorseshoeState, rng: np.random.Generator, *, log_range: LogRange = None
) -> HorseshoeState:
    """Slice-sample log tau given delta and sigma^2 with lambda integrated out; then draw lambda."""
    width = SCALE_WIDTH / math.sqrt(max(state.delta.size, 1))
    log_density = log_density_of_scale(state, log_range=log_range)
    shift = slice_step(log_density, width=width, rng=rng)
    log_tau = _bounded(state.log_tau + shift, log_range)
    log_m = np.minimum(np.maximum(_log_squares(state) - 2.0 * log_tau, -690.0), 690.0)
    local = draw_local_variances(np.exp(log_m), rng)
    return HorseshoeState(state.delta, state.sigma2, log_tau, local)


def log_density_of_scale(
    state: HorseshoeState, *, log_range: LogRange = None
) -> Callable[[Floats], Floats]:
    """Return the log density, up to a constant, of shifts (m,) of log tau given delta and sigma^2.

    The local scales are integrated out.
    """
    log_squares = _log_squares(state)

    def log_density(shift: Floats) -> Floats:
        log_tau = state.log_tau + shift
        likelihood = log_marginal(log_squares - 2.0 * log_tau[:, None]).sum(axis=1)
        prior = log_prior_log_tau(log_tau, log_range=log_range)
        result: Floats = likelihood - log_squares.size * shift + prior
        return result

    return log_density


def _log_squares(state: HorseshoeState) -> Floats:
    """Return log(delta^2 / (2 sigma^2)), (p,)."""
    result: Floats = np.log(np.maximum(state.delta**2, 1e-300)) - math.log(2.0 * state.sigma2)
    return result


def choose_centred(state: HorseshoeState, form: CoefficientForm, activity: Floats) -> Bools:
    """Return the coefficients (p,) to centre along the line.

    These are the most active ones, as many as give log tau the least Fisher information. All others
    together give delta_o'G delta_o / s2. A centred one gives 1/2 by its half-Cauchy prior, and
    counts three times that here, because the step after the line is centred for all coefficients.
    """
    order = np.argsort(-activity)
    information = (
        CENTRED_INFORMATION * np.arange(order.size + 1)
        + form.tail_squares(state.delta, order) / state.sigma2
    )
    centred = np.zeros(order.size, dtype=bool)
    centred[order[: int(np.argmin(information))]] = True
    return centred


def slice_step(
    log_density: Callable[[Floats], Floats], *, width: float, rng: np.random.Generator
) -> float:
    """Return the next position of a slice sampler at 0 (Neal, 2003).

    Its bracket is placed at random and then shrinks. `log_density` maps positions (m,) to values
    (m,). Several points are drawn for one call. Points that are outside the shrunken bracket are
    skipped; the others are uniform in it.
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


def _bounded(log_tau: float, log_range: LogRange) -> float:
    """Return log tau inside its range, which a slice of length 0 can miss by rounding."""
    low, high = log_range or (-LARGEST_LOG_TAU, LARGEST_LOG_TAU)
    return min(max(log_tau, low), high)
