"""The prior of a regression's distance from its source against quadrature; its default rate."""

import numpy as np
import pytest
import torch
from scipy import integrate

from bandgap.priors.penalized_complexity import distance, inverse_distance
from bandgap.priors.source_distance import isotropic_rates, source_distance

RATES = {
    "one": np.ones(3),
    "spread": np.array([2.0, 300.0, 4e4]),
    "steep": np.geomspace(1e2, 1e7, 20),
}
every_case = pytest.mark.parametrize("rates", RATES.values(), ids=RATES)


def phi(x):
    return x - np.log1p(x)


def plain_distance(x, rates):
    return np.sqrt(np.mean(x * rates - np.log1p(x * rates)))


def mass(prior, low, high):
    mass, _ = integrate.quad(
        lambda u: np.exp(prior.log_density(np.array(u))), low, high, limit=500, epsabs=1e-12
    )
    return mass


@every_case
def test_density_integrates_to_one_and_to_the_exponential_law_of_the_distance(rates):
    prior = source_distance(rates, lam=1.3, median_x=1.0)
    centre = prior.typical
    assert mass(prior, centre - 60, centre) + mass(prior, centre, centre + 60) == pytest.approx(
        1.0, abs=1e-8
    )
    for u in (centre - 3.0, centre + 2.0):
        expected = -np.expm1(-1.3 * plain_distance(np.exp(u), rates))
        assert mass(prior, centre - 60, u) == pytest.approx(expected, abs=1e-7)


@every_case
def test_default_rate_puts_the_median_where_it_is_asked(rates):
    prior = source_distance(rates, lam=None, median_x=0.02)
    assert mass(prior, prior.typical - 60, np.log(0.02)) == pytest.approx(0.5, abs=1e-7)
    assert prior.lam == pytest.approx(np.log(2) / plain_distance(0.02, rates), rel=1e-9)


@every_case
def test_distance_is_the_divergence_of_two_normal_laws_and_has_an_inverse(rates):
    """d^2 = 2 / p KL of N(0, S1 + x M) from N(0, S1), M = I, by determinants and traces."""
    prior = source_distance(rates, lam=1.0, median_x=1.0)
    s1 = np.diag(1 / rates)
    for x in (1e-4, 0.3, 50.0):
        wide = s1 + x * np.eye(len(rates))
        kl = 0.5 * (
            np.trace(np.linalg.solve(s1, wide))
            - len(rates)
            - np.linalg.slogdet(wide)[1]
            + np.linalg.slogdet(s1)[1]
        )
        d = distance(torch.tensor(x, dtype=torch.float64), prior.terms)
        assert float(d) == pytest.approx(np.sqrt(2 * kl / len(rates)), rel=1e-6)
        assert float(inverse_distance(d, prior.terms)) == pytest.approx(x, rel=1e-9)


def test_change_shaped_like_the_source_error_is_the_thesis_case():
    """All s_j = 1: g(0) = lam / sqrt 2, its mode, and g(x) = lam exp(-lam d) x / (2 (1 + x) d)."""
    prior = source_distance(np.ones(4), lam=0.8, median_x=1.0)
    x = np.array([1e-12, 1e-3, 0.7, 30.0])
    d = np.sqrt(x - np.log1p(x))
    expected = 0.8 * np.exp(-0.8 * d[2:]) * x[2:] / (2 * (1 + x[2:]) * d[2:])
    density = np.exp(prior.log_density(np.log(x)) - np.log(x))
    np.testing.assert_allclose(density[2:], expected, rtol=1e-10)
    assert density[0] == pytest.approx(0.8 / np.sqrt(2), rel=1e-9) and (np.diff(density) < 0).all()


def test_rates_are_the_precisions_of_the_source_weights_and_bounded():
    s1 = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(
        np.sort(isotropic_rates(s1)), np.sort(np.linalg.eigvalsh(np.linalg.inv(s1)))
    )
    assert np.isfinite(isotropic_rates(np.diag([1.0, 0.0]))).all()


def test_draws_have_exponential_distances_from_the_source():
    """The distances are lam^-1 times the standard exponential numbers of the generator."""
    prior = source_distance(np.array([0.5, 2.0, 40.0]), lam=0.7, median_x=1.0)
    x = prior.draw(200, np.random.default_rng(15))
    exponential = np.random.default_rng(15).standard_exponential(200)
    d = np.sqrt(np.mean(phi(np.outer(x, [0.5, 2.0, 40.0])), axis=1))
    np.testing.assert_allclose(prior.lam * d, exponential, rtol=1e-6)
