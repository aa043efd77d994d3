"""R-hat and effective sample sizes of chains with a known law."""

import numpy as np

from bandgap.inference.diagnostics import ebfmi, ess_bulk, rhat

RNG = np.random.default_rng(0)
INDEPENDENT = RNG.normal(size=(4, 1000, 2, 3))


def autoregressive(rho, *, chains=4, n=2000):
    noise = RNG.normal(size=(chains, n)) * np.sqrt(1 - rho**2)
    values = np.empty((chains, n))
    values[:, 0] = RNG.normal(size=chains)
    for i in range(1, n):
        values[:, i] = rho * values[:, i - 1] + noise[:, i]
    return values


def test_rhat_of_independent_draws_is_one_for_every_quantity():
    values = rhat(INDEPENDENT)
    assert values.shape == (2, 3)
    assert values.max() < 1.01


def test_rhat_of_chains_in_different_places_is_large_only_there():
    draws = INDEPENDENT.copy()
    draws[0, :, 1, 2] += 3.0
    values = rhat(draws)
    assert values[1, 2] > 1.3
    assert np.delete(values.ravel(), 5).max() < 1.01


def test_rhat_is_large_for_a_drift_of_all_chains():
    drift = INDEPENDENT[..., 0, 0] + np.linspace(-2, 2, 1000)
    assert float(rhat(drift)) > 1.3


def test_ess_of_independent_draws_is_about_their_number():
    assert ess_bulk(INDEPENDENT).shape == (2, 3)
    np.testing.assert_allclose(ess_bulk(INDEPENDENT), 4000, rtol=0.15)


def test_ess_of_an_autoregressive_chain_is_n_times_its_known_share():
    """(1 - rho) / (1 + rho) of 8,000 draws; the estimate's standard error is about 5 %."""
    np.testing.assert_allclose(float(ess_bulk(autoregressive(0.8))), 8000 * 0.2 / 1.8, rtol=0.25)


def test_ebfmi_is_two_for_independent_energies_and_small_for_a_slow_walk():
    """The mean squared difference of draws with correlation rho is 2 (1 - rho) variances."""
    np.testing.assert_allclose(ebfmi(INDEPENDENT[..., 0, 0]), 2.0, rtol=0.15)
    np.testing.assert_allclose(ebfmi(autoregressive(0.95)), 0.1, rtol=0.5)
