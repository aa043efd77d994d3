"""Penalized-complexity prior of the global scale tau, for a prior centred on a source model.

Simpson et al. (2017): the distance d(tau) = sqrt(2 KL(flexible || base)) is exponential with rate
lam. Abba (2023), eqs. 2.3, 2.4, 2.7 and 2.8, with the square root that is missing in print, gives
in both cases

    d(tau)^2 = S(tau) = sum_j w_j phi(a_j tau),   phi(x) = x - log(1 + x),
    p(tau) = lam exp(-lam d(tau)) d'(tau)

- VI case: theta_l ~ N(theta_hat_l, (1 + tau c_l) Sigma_l); j runs over layers, w_l = v_l (number of
  parameters) and a_l = c_l;
- PE case: theta_l ~ N(theta_hat_l, tau c_l I); j runs over the N training inputs of the target, w_j
  = 1/N, a_j = sum_l c_l alpha_l(x_j) / sigma^2 with alpha_l the squared gradient norm of layer l at
  theta_hat.

In the PE case t = tau / sigma^2 has the same prior with a_j = sum_l c_l alpha_l(x_j), free of
sigma. phi(x) is computed as x^2 psi(x) with a psi that is exact at both ends, so that all results
hold from tau = 1e-300 to overflow. All functions take float64 torch tensors, can be differentiated,
and broadcast over leading dimensions of `a`.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]

MEETING = 0.5  # the series of psi is used below, its closed form above
# Coefficients of (artanh(r) / r - 1) / r^2, highest power first; the next term is below 1e-17.
SERIES = tuple(1.0 / (2 * k + 3) for k in range(10, -1, -1))
_NEWTON_STEPS = 60  # at most 6 are needed when d is exact; the limit guards against a stall


def psi(x: Tensor) -> Tensor:
    """Return phi(x) / x^2 for x >= 0, accurate to about 1e-15; psi(0) = 1/2."""
    if not (x.is_cuda or x.requires_grad):
        # faster than the operations below
        return torch.from_numpy(psi_of_each(x.numpy().reshape(-1))).view(x.shape)
    high = x.clamp(min=MEETING)
    far = (1.0 - torch.log1p(high) / high) / high
    # Each branch has only arguments for which it is finite, so that gradients are finite too.
    low = x.clamp(max=MEETING)
    r = low / (2.0 + low)
    z = r * r
    series = torch.zeros_like(z)
    for factor in SERIES:
        series = series * z + factor
    near = 1.0 / (2.0 + low) - 2.0 * r * series / (2.0 + low) ** 2
    return torch.where(x <= MEETING, near, far)


@dataclass(frozen=True, eq=False)
class DistanceTerms:
    """Weights w (J,) and rates a (..., J) of S(tau) = sum_j w_j phi(a_j tau), in float64."""

    weights: Tensor
    rates: Tensor

    @property
    def products(self) -> Tensor:
        """w_j a_j^2, the terms of the curvature of S at tau = 0."""
        return self.weights * self.rates**2


def point_estimate_terms(alpha: Tensor, c: Tensor) -> DistanceTerms:
    """Return the terms of t = tau / sigma^2 in the PE case.

    `alpha` is (N, L), the layer weights `c` are (..., L). Raises ConfigError if alpha is negative
    or not finite, or zero for every input.
    """
    if (
        alpha.ndim != 2
        or not bool(torch.isfinite(alpha).all())
        or bool((alpha < 0).any())
        or not bool(alpha.any())
    ):
        raise ConfigError(
            "penalized-complexity prior: alpha must be finite, >= 0 and not all zero, of shape "
            "(inputs, layers)."
        )
    return DistanceTerms(alpha.new_full((alpha.shape[0],), 1.0 / alpha.shape[0]), c @ alpha.T)


def variational_terms(layer_sizes: tuple[int, ...], c: Tensor) -> DistanceTerms:
    """Return the terms of tau in the VI case.

    `layer_sizes` (L,) are the numbers of parameters, the layer weights `c` are (..., L).
    """
    return DistanceTerms(torch.tensor(layer_sizes, dtype=torch.float64, device=c.device), c)


def distance(tau: Tensor, terms: DistanceTerms) -> Tensor:
    """Return d(tau), in the shape of `tau` broadcast with the leading dimensions of the rates."""
    return tau * torch.sqrt(_q(tau, terms))


def log_density(tau: Tensor, terms: DistanceTerms, *, lam: float) -> Tensor:
    """Return log p(tau) = log lam - lam d(tau) + log d'(tau) for tau >= 0."""
    q = _q(tau, terms)
    m = _m(tau, terms)
    return (
        math.log(lam)
        - lam * tau * torch.sqrt(q)
        + torch.log(m)
        - math.log(2.0)
        - 0.5 * torch.log(q)
    )


def log_density_and_gradient(
    tau: Tensor, terms: DistanceTerms, *, lam: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log p(tau) and its derivatives by log tau and by the rates a (..., J).

    The first two have the shape of `tau`.

        d log p / d log tau = tau (-lam S' / (2 d) + S'' / S' - S' / (2 S))
        d log p / d a_j = w_j tau (-(lam / (2 d) + 1 / (2 S)) phi'(a_j tau)
                          + a_j (2 + a_j tau) / ((1 + a_j tau)^2 S'))

    They are computed with S = tau^2 Q and S' = tau M, so that tau = 0 is no special case.
    """
    a = terms.rates
    w = terms.weights
    products = terms.products
    x = a * tau.unsqueeze(-1)
    ratio = 1.0 / (1.0 + x)
    bent = products * ratio
    q = (products * psi(x)).sum(-1)
    m = bent.sum(-1)
    root = torch.sqrt(q)
    value = math.log(lam) - lam * tau * root + torch.log(m) - math.log(2.0) - 0.5 * torch.log(q)
    curvature = (bent * ratio).sum(-1)
    by_log_tau = -0.5 * lam * tau * m / root + curvature / m - 0.5 * m / q
    pull = (0.5 * lam * tau / root + 0.5 / q).unsqueeze(-1)
    by_a = w * a * ratio * (-pull + (1.0 + ratio) / m.unsqueeze(-1))
    return value, by_log_tau, by_a


def inverse_distance(delta: Tensor, terms: DistanceTerms) -> Tensor:
    """Return the tau at which d(tau) = delta.

    Newton's method converges from below, because d is concave and increasing.
    """
    sum_a = (terms.weights * terms.rates).sum(-1)
    sum_a2 = terms.products.sum(-1)
    tau = torch.maximum(delta * torch.sqrt(2.0 / sum_a2), delta**2 / sum_a)
    for _ in range(_NEWTON_STEPS):
        q = _q(tau, terms)
        step = (delta - tau * torch.sqrt(q)) * 2.0 * torch.sqrt(q) / _m(tau, terms)
        tau = tau + step
        if bool((step.abs() <= 1e-14 * tau).all()):
            break
    return tau


def prior_draws(
    terms: DistanceTerms, *, lam: float, generator: torch.Generator, size: tuple[int, ...] = ()
) -> Tensor:
    """Draw tau from its prior by inversion: d(tau) = E / lam with E ~ Exp(1)."""
    exponential = -torch.log1p(-torch.rand(size, generator=generator, dtype=torch.float64))
    return inverse_distance(exponential / lam, terms)


def _q(tau: Tensor, terms: DistanceTerms) -> Tensor:
    """Return S(tau) / tau^2."""
    return (terms.products * psi(terms.rates * tau.unsqueeze(-1))).sum(-1)


def _m(tau: Tensor, terms: DistanceTerms) -> Tensor:
    """Return S'(tau) / tau."""
    return (terms.products / (1.0 + terms.rates * tau.unsqueeze(-1))).sum(-1)


@compiled
def density_and_pull(
    state: Floats,
    weights: Floats,
    slopes: Floats,
    lam: float,
    noise_shape: float,
    noise_b: float,
    c0: float,
    pull: Floats,
) -> float:
    """Return the log density of one state of a chain and write its gradient into `pull`.

    The state is (log sigma, a_1 ... a_L). tau = sum exp(a) has the penalized-complexity prior with
    rates slopes c, slopes (J, L), and weights (J,), where c = softmax(a). sigma^2 and c have the
    priors of `pcp_scales`.
    """
    top = state[1:].max()
    grown = np.exp(state[1:] - top)
    log_tau = top + math.log(grown.sum())
    tau = math.exp(log_tau)
    c = grown / grown.sum()
    rates = np.zeros(len(weights))
    q = 0.0
    m = 0.0
    curvature = 0.0
    for j in range(len(weights)):
        for layer in range(len(c)):
            rates[j] += slopes[j, layer] * c[layer]
        x = rates[j] * tau
        product = weights[j] * rates[j] ** 2
        bent = product / (1.0 + x)
        q += product * psi_of(x)
        m += bent
        curvature += bent / (1.0 + x)
    root = math.sqrt(q)
    by_distance = 0.5 * lam * tau / root + 0.5 / q
    by_c = np.zeros(len(c))
    for j in range(len(weights)):
        ratio = 1.0 / (1.0 + rates[j] * tau)
        by_rate = weights[j] * rates[j] * ratio * ((1.0 + ratio) / m - by_distance)
        for layer in range(len(c)):
            by_c[layer] += by_rate * slopes[j, layer]
    by_log_tau = -0.5 * lam * tau * m / root + curvature / m - 0.5 * m / q + 1.0
    common = by_log_tau - c0 * len(c)
    mass = 0.0
    noise = noise_b * math.exp(-2.0 * state[0])
    for layer in range(len(c)):
        common -= c[layer] * by_c[layer]
        mass += c0 * (state[1 + layer] - log_tau)
    pull[0] = 2.0 * noise - 2.0 * noise_shape
    for layer in range(len(c)):
        pull[1 + layer] = c[layer] * (by_c[layer] + common) + c0
    of_scale = math.log(0.5 * lam) - lam * tau * root + math.log(m) - 0.5 * math.log(q) + log_tau
    return float(of_scale - 2.0 * noise_shape * state[0] - noise + mass)


@compiled
def psi_of_each(x: Floats) -> Floats:
    """Return `psi` of all numbers of an array (k,)."""
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = psi_of(x[i])
    return result


@compiled
def psi_of(x: float) -> float:
    """Return `psi` of one number."""
    if x > MEETING:
        return (1.0 - math.log1p(x) / x) / x
    r = x / (2.0 + x)
    series = 0.0
    for factor in SERIES:
        series = series * (r * r) + factor
    return (1.0 - 2.0 * r * series / (2.0 + x)) / (2.0 + x)
