"""The Matern correlation and its derivatives against 40-digit arithmetic, closed forms and
automatic derivatives.
"""

import mpmath
import numpy as np
import pytest
import torch

from bandgap.research.vecchia.correlation import (
    bessel_k,
    correlations,
    half_integer,
    log_bends,
    matern,
    matern_derivatives,
)
from bandgap.research.vecchia.kernels import correlation
from bandgap.research.vecchia.likelihood import matern_constants

DISTANCES = (1e-6, 1e-3, 0.3, 4.0, 20.0)
RHOS = (0.4, 1.7)
NUS = (0.3, 0.5, 1.7, 2.5, 240.3)
double = torch.float64


def exact(d, rho, nu):
    """M and its five derivatives by mpmath's numerical differentiation at 60 digits."""
    with mpmath.workdps(60):

        def m(r, v):
            x = mpmath.mpf(d) / r
            return mpmath.power(2, 1 - v) / mpmath.gamma(v) * x**v * mpmath.besselk(v, x)

        at = (mpmath.mpf(rho), mpmath.mpf(nu))
        orders = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
        return [float(mpmath.diff(m, at, order) if any(order) else m(*at)) for order in orders]


@pytest.mark.slow
@pytest.mark.parametrize("nu", NUS)
def test_value_and_five_derivatives_equal_those_of_60_digits(nu):
    for rho in RHOS:
        for d in DISTANCES:
            values = [float(v) for v in matern_derivatives(torch.tensor(d, dtype=double), rho, nu)]
            expected = exact(d, rho, nu)
            atol = 1e-12 if d < 0.01 or nu > 4 else 1e-30
            np.testing.assert_allclose(values, expected, rtol=1e-10, atol=atol)
            value, by_rho, by_nu = correlation(d, rho, nu, *matern_constants(nu), True)
            np.testing.assert_allclose(
                (value, by_rho / rho, by_nu / nu), expected[:3], rtol=1e-10, atol=atol
            )


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_closed_forms_of_half_integers_equal_the_integral(nu):
    d = torch.logspace(-6, 1.4, 60, dtype=double)
    closed, slope = half_integer(d, 0.9, nu)
    torch.testing.assert_close(closed, matern(d, 0.9, nu), rtol=1e-13, atol=1e-15)
    assert (correlations(d, 0.9, nu) == closed).all()
    loops = np.array([correlation(float(x), 0.9, nu, *matern_constants(nu), False)[:2] for x in d])
    np.testing.assert_allclose(loops[:, 0], closed, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(loops[:, 1], slope, rtol=1e-13, atol=1e-300)
    exact = matern_derivatives(d, 0.9, nu)
    torch.testing.assert_close(slope, 0.9 * exact.rho, rtol=2e-12, atol=0)
    (bend,) = log_bends(d, 0.9, nu, free_nu=False)
    torch.testing.assert_close(bend, 0.81 * exact.rho_rho + 0.9 * exact.rho, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(log_bends(d, 0.9, nu, free_nu=True)[0], bend, rtol=1e-11, atol=1e-12)


def test_slope_of_the_bessel_function_by_order_has_its_closed_forms():
    x = torch.tensor([0.05, 0.6, 3.0, 9.0], dtype=double)
    f = torch.tensor(
        [
            float(mpmath.sqrt(mpmath.pi / (2 * v)) * mpmath.exp(v) * mpmath.e1(2 * v))
            for v in x.tolist()
        ],
        dtype=double,
    )
    torch.testing.assert_close(bessel_k(x, 0.5, order=1), f, rtol=1e-12, atol=0)
    third = (1 / x - 1) * f + 2 / x * bessel_k(x, 0.5)
    torch.testing.assert_close(bessel_k(x, 1.5, order=1), third, rtol=1e-12, atol=0)
    torch.testing.assert_close(bessel_k(x, 1.0, order=1), bessel_k(x, 0.0) / x, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        bessel_k(x, -0.7, order=1), -bessel_k(x, 0.7, order=1), rtol=1e-12, atol=0
    )


def test_automatic_derivatives_equal_the_formulas():
    d = torch.tensor([0.0, 0.1, 0.7, 2.5], dtype=double)
    rho, nu = (torch.tensor(v, dtype=double, requires_grad=True) for v in (0.6, 1.2))
    formulas = matern_derivatives(d, 0.6, 1.2)
    for i in range(len(d)):
        value = matern(d, rho, nu)[i]
        first = torch.autograd.grad(value, (rho, nu), create_graph=True)
        by_rho = torch.autograd.grad(first[0], (rho, nu), retain_graph=True)
        by_nu = torch.autograd.grad(first[1], (rho, nu))
        expected = torch.stack([*first, by_rho[0], by_rho[1], by_nu[1]])
        torch.testing.assert_close(
            expected, torch.stack([part[i] for part in formulas[1:]]), rtol=1e-9, atol=1e-9
        )


def test_correlation_is_one_at_distance_zero_and_zero_far_away():
    d = torch.tensor([0.0, 1e4], dtype=double)
    derivatives = matern_derivatives(d, 1.0, 1.3)
    assert derivatives.value.tolist() == [1.0, 0.0]
    assert all(part.tolist() == [0.0, 0.0] for part in derivatives[1:])
    assert correlation(0.0, 1.0, 1.3, *matern_constants(1.3), True) == (1.0, 0.0, 0.0)
    assert correlation(1e4, 1.0, 1.3, *matern_constants(1.3), True) == (0.0, 0.0, 0.0)
