r"""The Matern correlation of any smoothness and its first and second derivatives.

    M(x) = 2^(1 - nu) / Gamma(nu) x^nu K_nu(x),     x = d / rho

(Stein 1999; without the factor sqrt(2 nu)). K_nu is computed by the trapezoid rule on int_0^inf
exp(-x cosh t) cosh(nu t) dt. Its derivatives by nu are the same integral with t sinh(nu t) and t^2
cosh(nu t). The integrand decays double exponentially, so the rule is exact to rounding for 1e-8 <=
x <= 200 and nu <= 250. The factor of K_nu is added to the exponent, because either overflows alone
if nu is large. d/dx [x^nu K_nu] = -x^nu K_(nu-1).
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

FAR = 650.0  # x beyond which the correlation is 0 in double precision
# The trapezoid rule: step and number of nodes.
STEP = 0.05
NODES = 521
CHUNK = 16_384  # distances whose integrals are evaluated together
HALVES: Final = (0.5, 1.5, 2.5)
# The peak of the integrand has width nu^-1/2 and must contain some nodes.
MOST_NU: Final = 250.0


class Derivatives(NamedTuple):
    """M and its derivatives by rho and nu at distances of any shape.

    Derivatives are 0 at distance 0.
    """

    value: Tensor
    rho: Tensor
    nu: Tensor
    rho_rho: Tensor
    rho_nu: Tensor
    nu_nu: Tensor


def bessel_k(
    x: Tensor, nu: Tensor | float, *, order: int = 0, log_factor: Tensor | float = 0.0
) -> Tensor:
    """Return exp(log_factor) times the derivative of order 0, 1 or 2 of K_nu(x) by nu.

    x is above 0, in double precision. Differentiable by torch in x, nu and the factor.
    """
    return _integrals(x, nu, log_factor, ((0, order),))[..., 0]


def _integrals(
    x: Tensor,
    nu: Tensor | float,
    log_factor: Tensor | float,
    pairs: tuple[tuple[int, int], ...],
) -> Tensor:
    """Return exp(log_factor) times the derivative of each order of K_(nu - i)(x) by nu.

    `pairs` are (i, order), which are the last axis of the result, (..., pair).
    The exponentials at the nodes, which are nearly all of the work, are the same for all of them.
    """
    t = STEP * torch.arange(NODES, dtype=x.dtype, device=x.device)
    weights = torch.full_like(t, STEP / 2)
    weights[0] /= 2
    i, order = torch.tensor(pairs, dtype=x.dtype, device=x.device).T[..., None]
    powers = weights * t**order
    factor = log_factor[..., None] if isinstance(log_factor, Tensor) else log_factor
    decay = factor - x[..., None] * torch.cosh(t)
    falling_powers = (-1.0) ** order * powers * torch.exp(i * t)
    rising = torch.matmul(torch.exp(decay + nu * t), (powers * torch.exp(-i * t)).T)
    return rising + torch.matmul(torch.exp(decay - nu * t), falling_powers.T)


def matern(distances: Tensor, rho: Tensor | float, nu: Tensor | float) -> Tensor:
    """Return the correlation at distances of any shape, differentiable by torch in rho and nu."""
    x, is_apart, nu_ = _arguments(distances, rho, nu)
    value = bessel_k(x, nu_, log_factor=_log_factor(x, nu_))
    return torch.where(is_apart, torch.where(x > FAR, 0.0, value), 1.0)


def matern_derivatives(distances: Tensor, rho: Tensor | float, nu: Tensor | float) -> Derivatives:
    """Return the correlation and its first and second derivatives by rho and nu in closed form."""
    x, is_apart, nu_ = _arguments(distances, rho, nu)
    pairs = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2))
    integrals = _integrals(x, nu_, _log_factor(x, nu_), pairs)
    k0, k1, k2, slope, slope1, bend = integrals.unbind(-1)
    a = torch.log(x / 2) - torch.digamma(nu_)
    values = (
        k0,
        x * k1 / rho,
        a * k0 + slope,
        (x**2 * k2 - 3 * x * k1) / rho**2,
        x * (a * k1 + slope1) / rho,
        (a**2 - _trigamma(nu_)) * k0 + 2 * a * slope + bend,
    )
    inside = [torch.where(x > FAR, 0.0, array) for array in values]
    ends = [1.0, *[0.0] * 5]
    return Derivatives(
        *(torch.where(is_apart, array, end) for array, end in zip(inside, ends, strict=True))
    )


def correlations(distances: Tensor, rho: float, nu: float) -> Tensor:
    """Return the correlation at distances of any shape.

    For nu = 0.5, 1.5 or 2.5 it is the closed form, else the integral.
    """
    if nu in HALVES:
        return half_integer(distances, rho, nu)[0]
    return _on_distinct(lambda d: (matern(d, rho, nu),), distances)[0]


def log_slopes(distances: Tensor, rho: float, nu: float, *, free_nu: bool) -> tuple[Tensor, ...]:
    """Return M, rho dM/drho and, if nu is free, nu dM/dnu at distances of any shape."""
    if nu in HALVES and not free_nu:
        return half_integer(distances, rho, nu)

    def derivatives(d: Tensor) -> tuple[Tensor, ...]:
        parts = matern_derivatives(d, rho, nu)
        return (parts.value, rho * parts.rho, nu * parts.nu)[: 2 + free_nu]

    return _on_distinct(derivatives, distances)


def log_bends(distances: Tensor, rho: float, nu: float, *, free_nu: bool) -> tuple[Tensor, ...]:
    """Return the second derivatives of the correlation on the log scale at distances of any shape.

    These are d2M / dlog rho^2 and, if nu is free, d2M / dlog rho dlog nu and d2M / dlog nu^2.
    """
    if nu in HALVES and not free_nu:
        x = distances / rho
        polynomial = {
            0.5: x * (x - 1.0),
            1.5: x**2 * (x - 2.0),
            2.5: x**2 * (x * (x - 2.0) - 2.0) / 3.0,
        }
        return (polynomial[nu] * torch.exp(-x),)

    def derivatives(d: Tensor) -> tuple[Tensor, ...]:
        parts = matern_derivatives(d, rho, nu)
        by_rho = rho**2 * parts.rho_rho + rho * parts.rho
        return (by_rho, rho * nu * parts.rho_nu, nu**2 * parts.nu_nu + nu * parts.nu)[
            : 3 if free_nu else 1
        ]

    return _on_distinct(derivatives, distances)


def half_integer(distances: Tensor, rho: float, nu: float) -> tuple[Tensor, Tensor]:
    """Return the correlation and rho dM/drho for nu = 0.5, 1.5 or 2.5 in closed form."""
    x = distances / rho
    decay = torch.exp(-x)
    if nu == 0.5:
        return decay, x * decay
    if nu == 1.5:
        return (1.0 + x) * decay, x * x * decay
    return (1.0 + x + x * x / 3.0) * decay, x * x * (1.0 + x) / 3.0 * decay


def _on_distinct(
    function: Callable[[Tensor], tuple[Tensor, ...]], distances: Tensor
) -> tuple[Tensor, ...]:
    """Return the results of `function` for distances, with each distinct distance evaluated once.

    Distances are evaluated in chunks, which bounds the memory.
    """
    distinct, positions = torch.unique(distances, return_inverse=True)
    parts = [function(piece) for piece in distinct.split(CHUNK)]
    return tuple(torch.cat(pieces)[positions] for pieces in zip(*parts, strict=True))


def _arguments(
    distances: Tensor, rho: Tensor | float, nu: Tensor | float
) -> tuple[Tensor, Tensor, Tensor]:
    is_apart = distances > 0
    x = torch.where(is_apart, distances, 1.0) / rho
    return x, is_apart, torch.as_tensor(nu, dtype=x.dtype, device=x.device)


def _log_factor(x: Tensor, nu: Tensor) -> Tensor:
    """Return the log of 2^(1 - nu) / Gamma(nu) x^nu."""
    return (1 - nu) * math.log(2.0) - torch.lgamma(nu) + nu * torch.log(x)


def _trigamma(nu: Tensor) -> Tensor:
    """Return psi'(nu). torch.polygamma(1, nu) has only ten digits (torch 2.13)."""
    z = nu + 20
    series = 1 / z + 1 / (2 * z**2) + 1 / (6 * z**3) - 1 / (30 * z**5) + 1 / (42 * z**7)
    return series + sum(1 / (nu + k) ** 2 for k in range(20))
