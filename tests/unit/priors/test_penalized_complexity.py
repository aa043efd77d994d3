"""The penalized-complexity prior: known values, limits at both ends, and properties of its law."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from bandgap.priors.penalized_complexity import (
    DistanceTerms,
    distance,
    inverse_distance,
    log_density,
    log_density_and_gradient,
    point_estimate_terms,
    prior_draws,
    psi,
    variational_terms,
)

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
THIRDS = torch.full((3,), 1.0 / 3.0, dtype=torch.float64)
FIGURE = variational_terms((16, 16, 1), THIRDS)  # the setting of Abba (2023), Figure 2.1


def alphas(spread: float, *, n: int = 40, seed: int = 0) -> torch.Tensor:
    """Squared gradient norms (n, 3); sizes vary by exp(spread), the last layer's are at least 1."""
    draws = np.random.default_rng(seed).normal(size=(n, 3)) * spread
    return torch.from_numpy(np.exp(draws + np.array([3.0, 1.0, 0.0])) + np.array([0.0, 0.0, 1.0]))


ALPHAS = {"equal": torch.ones(10, 3, dtype=torch.float64), "mild": alphas(0.5), "wild": alphas(3.0)}
WEIGHTS = {
    "thirds": THIRDS,
    "last": torch.tensor([1e-4, 1e-3, 1 - 1.1e-3], dtype=torch.float64),
    "corner": torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64),
}
TERMS = {
    f"{a}-{c}": point_estimate_terms(ALPHAS[a], WEIGHTS[c]) for a in ALPHAS for c in WEIGHTS
} | {
    "VI": FIGURE,
    "VI, band gaps": variational_terms((161_408, 8_256, 65), WEIGHTS["thirds"]),
    "VI, last layer": variational_terms((161_408, 8_256, 65), WEIGHTS["last"]),
}
every_case = pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def exact_psi(x: float) -> float:
    """(x - log(1 + x)) / x^2 in 60 digits: the power series below 1e-3, the logarithm above."""
    with localcontext() as context:
        context.prec = 60
        wide = Decimal(x)
        if x < 1e-3:
            return float(sum((-wide) ** k / (k + 2) for k in range(25)) if x else Decimal("0.5"))
        return float((wide - (1 + wide).ln()) / wide**2)


@pytest.mark.parametrize("exponent", [*range(-300, -20, 40), *range(-20, 9)])
@pytest.mark.parametrize("factor", [1.0, 1.7, 6.3])
def test_psi_agrees_with_sixty_digits(exponent, factor):
    x = factor * 10.0**exponent
    assert float(psi(scalar(x))) == pytest.approx(exact_psi(x), rel=4e-15)


@pytest.mark.parametrize("x", [0.0, 0.499999999, 0.5, 0.500000001, 1.0])
def test_psi_at_zero_and_where_its_branches_meet(x):
    assert float(psi(scalar(x))) == pytest.approx(exact_psi(x), rel=4e-15)


def test_psi_gradient_agrees_with_its_closed_form():
    x = torch.logspace(-1, 6, 60, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(psi(x).sum(), x)
    expected = (1 / (1 + x) - 2 * psi(x)) / x
    torch.testing.assert_close(slope, expected.detach(), rtol=1e-11, atol=0)


@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-12, 1e8, 1e200])
def test_psi_gradient_is_finite_where_the_unused_branch_would_not_be(x):
    at = scalar(x).requires_grad_(True)
    (slope,) = torch.autograd.grad(psi(at), at)
    expected = -1 / 3 if x < 1 else -1.0 / x**2 if x < 1e100 else 0.0
    assert float(slope) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def test_variational_distance_is_that_of_gaussian_kl_divergences():
    """sqrt(2 KL) of N(m, (1 + tau c_l) S) from N(m, S), summed over 33 independent parameters."""
    tau = 2.3
    c = np.array([0.2, 0.5, 0.3])
    sizes = np.array([16, 16, 1])
    ratio = 1 + tau * c
    kl = (sizes * 0.5 * (ratio - 1 - np.log(ratio))).sum()
    terms = variational_terms((16, 16, 1), torch.from_numpy(c))
    assert float(distance(scalar(tau), terms)) == pytest.approx(math.sqrt(2 * kl), rel=1e-13)


def test_point_estimate_distance_is_the_mean_kl_divergence_over_inputs():
    """Of y | x ~ N(f, sigma^2 + tau c'alpha(x)) from N(f, sigma^2), t = tau / sigma^2."""
    alpha = ALPHAS["mild"].numpy()
    c = np.array([0.2, 0.5, 0.3])
    t = 0.07
    sigma2 = 3.1
    ratio = (sigma2 + t * sigma2 * alpha @ c) / sigma2
    kl = np.mean(0.5 * (ratio - 1 - np.log(ratio)))
    terms = point_estimate_terms(ALPHAS["mild"], torch.from_numpy(c))
    assert float(distance(scalar(t), terms)) == pytest.approx(math.sqrt(2 * kl), rel=1e-13)


@every_case
@pytest.mark.parametrize("lam", [0.3, 1.0, 5.0])
def test_density_integrates_to_one(terms, lam):
    def integrand(u: float) -> float:
        return math.exp(float(log_density(scalar(math.exp(u)), terms, lam=lam)) + u)

    middle = math.log(float(inverse_distance(scalar(1.0 / lam), terms)))
    parts = [(-45.0, -8.0), (-8.0, -2.0), (-2.0, 1.0), (1.0, 4.0), (4.0, 15.0)]
    total = sum(
        quad(integrand, middle + a, middle + b, epsabs=1e-12, limit=200)[0] for a, b in parts
    )
    assert total == pytest.approx(1.0, abs=1e-9)


@every_case
@pytest.mark.parametrize("p", [1e-6, 0.01, 0.5, 0.99, 1 - 1e-6])
def test_quantile_by_inversion_is_that_by_quadrature_of_the_density(terms, p):
    """The integral of the density from 0 to the tau at which d(tau) = -log(1 - p) / lam is p."""
    lam = 0.7
    quantile = float(inverse_distance(scalar(-math.log1p(-p) / lam), terms))

    def integrand(u: float) -> float:
        return math.exp(float(log_density(scalar(math.exp(u)), terms, lam=lam)) + u)

    top = math.log(quantile)
    parts = [(-40.0, -15.0), (-15.0, -8.0), (-8.0, -4.0), (-4.0, -2.0), (-2.0, 0.0)]
    below = sum(
        quad(integrand, top + a, top + b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in parts
    )
    assert below == pytest.approx(p, rel=1e-9)


@every_case
def test_density_is_the_derivative_of_the_exponential_tail(terms):
    tau = torch.logspace(-6, 6, 80, dtype=torch.float64, requires_grad=True)
    tail = torch.exp(-0.7 * distance(tau, terms))
    (slope,) = torch.autograd.grad(tail.sum(), tau)
    density = log_density(tau, terms, lam=0.7).exp()
    torch.testing.assert_close(density.detach(), -slope, rtol=1e-10, atol=1e-300)


@every_case
def test_distance_and_density_are_stable_from_1e_minus_12_to_1e8(terms):
    tau = torch.logspace(-12, 8, 200, dtype=torch.float64)
    d = distance(tau, terms)
    p = log_density(tau, terms, lam=1.0)
    assert bool(torch.isfinite(p).all())
    assert bool((d.diff() > 0).all())
    small = float(tau[0]) * math.sqrt(float(terms.products.sum()) / 2)  # d is linear near zero
    assert float(d[0]) == pytest.approx(small, rel=1e-6)


@every_case
@pytest.mark.parametrize("tau", [0.0, 1e-300, 1e-12, 1.0, 1e8])
def test_gradients_are_finite(terms, tau):
    at = scalar(tau).requires_grad_(True)
    rates = terms.rates.clone().requires_grad_(True)
    value = log_density(at, DistanceTerms(terms.weights, rates), lam=1.0)
    for gradient in torch.autograd.grad(value, (at, rates)):
        assert bool(torch.isfinite(gradient).all())


@every_case
@pytest.mark.parametrize("lam", [0.3, 4.0])
def test_closed_form_gradient_agrees_with_autograd(terms, lam):
    log_tau = torch.linspace(-20.0, 15.0, 71, dtype=torch.float64, requires_grad=True)
    rates = terms.rates.expand(71, -1).clone().requires_grad_(True)
    at = DistanceTerms(terms.weights, rates)
    expected = log_density(log_tau.exp(), at, lam=lam)
    by_log_tau, by_rates = torch.autograd.grad(expected.sum(), (log_tau, rates))
    with torch.no_grad():
        by_formula = log_density_and_gradient(log_tau.exp(), at, lam=lam)
    torch.testing.assert_close(by_formula[0], expected.detach(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(by_formula[1], by_log_tau, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(by_formula[2], by_rates, rtol=1e-8, atol=1e-10)


@every_case
def test_inverse_distance_returns_the_tau_of_a_distance(terms):
    delta = torch.logspace(-12, 7, 120, dtype=torch.float64)
    tau = inverse_distance(delta, terms)
    assert bool((tau.diff() > 0).all())
    torch.testing.assert_close(distance(tau, terms), delta, rtol=1e-12, atol=0)


@pytest.mark.parametrize("lam", [0.4, 3.0])
@pytest.mark.parametrize("case", ["mild", "wild"])
def test_prior_draws_have_an_exponential_distance(case, lam):
    c = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(3), size=3000))
    terms = point_estimate_terms(ALPHAS[case], c)
    draws = prior_draws(terms, lam=lam, generator=torch.Generator().manual_seed(5), size=(3000,))
    d = distance(draws, terms).numpy()
    assert stats.kstest(d, stats.expon(scale=1 / lam).cdf).pvalue > FALSE_ALARM


def test_prior_draws_follow_the_density():
    """The distribution function is by quadrature of the density, not by the distance."""
    terms = TERMS["mild-thirds"]
    draws = prior_draws(
        terms, lam=1.0, generator=torch.Generator().manual_seed(6), size=(3000,)
    ).numpy()
    grid = np.linspace(-25, 6, 4001)
    density = log_density(torch.from_numpy(np.exp(grid)), terms, lam=1.0).exp().numpy() * np.exp(
        grid
    )
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert stats.kstest(np.log(draws), lambda u: np.interp(u, grid, below)).pvalue > FALSE_ALARM


def test_scale_law_of_the_point_estimate_case():
    """tau = t sigma^2, so d log p(tau | sigma^2) / d log sigma^2 = -(1 + d log p / d log tau)."""
    alpha_c = ALPHAS["mild"] @ THIRDS
    log_tau = scalar(-2.0).requires_grad_(True)
    log_sigma2 = scalar(0.6).requires_grad_(True)
    weights = torch.full((alpha_c.shape[0],), 1.0 / alpha_c.shape[0], dtype=torch.float64)
    terms = DistanceTerms(weights, alpha_c / log_sigma2.exp())
    by_tau, by_sigma2 = torch.autograd.grad(
        log_density(log_tau.exp(), terms, lam=1.0), (log_tau, log_sigma2)
    )
    assert float(by_sigma2) == pytest.approx(-(1 + float(by_tau)), rel=1e-12)


def test_terms_broadcast_over_batches_of_layer_weights():
    c = torch.stack([WEIGHTS["thirds"], WEIGHTS["last"]])
    tau = torch.tensor([0.3, 2.0], dtype=torch.float64)
    together = log_density(tau, point_estimate_terms(ALPHAS["wild"], c), lam=1.0)
    alone = [
        log_density(tau[i], point_estimate_terms(ALPHAS["wild"], c[i]), lam=1.0) for i in range(2)
    ]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-13, atol=0)
