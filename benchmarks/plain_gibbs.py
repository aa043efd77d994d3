r"""The Gibbs sampler of Makalic and Schmidt (2016) for the horseshoe regression.

The benchmark `last-layer` compares bandgap's sampler with it.

x ~ C+(0, 1) is x^2 | xi ~ InvGamma(1/2, 1/xi), xi ~ InvGamma(1/2, 1). xi is zeta_j for lambda_j and
nu for tau:

    delta      | .  N(A^-1 g, s2 A^-1)
    s2         | .  InvGamma(a + (n + p) / 2, b + Q / 2)
    lambda_j^2 | .  InvGamma(1, 1 / zeta_j + delta_j^2 / (2 tau^2 s2))
    tau^2      | .  InvGamma((p + 1) / 2, 1 / nu + sum delta_j^2 / lambda_j^2 / (2 s2))
    zeta_j     | .  InvGamma(1, 1 + 1 / lambda_j^2)
    nu         | .  InvGamma(1, 1 + 1 / tau^2)

with d_j = tau^2 lambda_j^2, A = G + diag(1 / d_j) and
Q = zz - 2 g'delta + delta'G delta + sum delta_j^2 / d_j.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.last_layer.coefficient_draws import CoefficientForm
from bandgap.inference.last_layer.noise_variance import Response
from bandgap.inference.last_layer.reduced_regression import ReducedRegression
from bandgap.priors.horseshoe import LARGEST, SMALLEST

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GibbsState:
    """Coefficients, noise variance, tau^2, lambda^2, and mixing variables nu and zeta."""

    delta: Floats
    sigma2: float
    tau2: float
    local: Floats
    nu: float
    zeta: Floats


def gibbs_sweep(
    state: GibbsState,
    form: CoefficientForm,
    moment: Floats,
    response: Response,
    rng: np.random.Generator,
) -> GibbsState:
    """Draw each block once from its full conditional."""
    p = moment.size
    form.factor(np.clip(state.tau2 * state.local, SMALLEST, LARGEST))
    delta = form.draw(float(np.sqrt(state.sigma2)), rng)
    squares = delta**2
    residual = max(
        response.square - 2.0 * float(moment @ delta) + float(delta @ form.gram_times(delta)), 0.0
    )
    rate = response.prior.scale + 0.5 * (
        residual + float((squares / state.local).sum()) / state.tau2
    )
    sigma2 = rate / float(rng.standard_gamma(response.prior.shape + 0.5 * (response.n + p)))
    local = (1.0 / state.zeta + squares / (2.0 * state.tau2 * sigma2)) / rng.standard_exponential(p)
    local = np.clip(local, SMALLEST, LARGEST)
    zeta = (1.0 + 1.0 / local) / rng.standard_exponential(p)
    rate = 1.0 / state.nu + float((squares / local).sum()) / (2.0 * sigma2)
    tau2 = min(max(rate / float(rng.standard_gamma(0.5 * (p + 1))), SMALLEST), LARGEST)
    nu = (1.0 + 1.0 / tau2) / float(rng.standard_exponential())
    return GibbsState(delta, sigma2, tau2, local, nu, zeta)


def gibbs_start(problem: ReducedRegression) -> GibbsState:
    """Return a state with zero coefficients and tau = 1 / p."""
    p = problem.moment.size
    sigma2 = max(problem.square / max(problem.n, 1), 1e-12)
    return GibbsState(np.zeros(p), sigma2, 1.0 / p**2, np.ones(p), 1.0, np.ones(p))
