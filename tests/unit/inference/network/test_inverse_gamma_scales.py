"""Independent inverse gamma scales: draws, density on a grid, and starts."""

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
PRIOR = InverseGammaScales(0.3, torch.tensor([0.01, 0.5, 1.0]).double())


def test_draws_are_independent_inverse_gamma_variables_of_shape_2_and_scale_1():
    tau = torch.exp(PRIOR.draw(4000, generator=torch.Generator().manual_seed(0))[:, 1:]).numpy()
    for layer in range(3):
        assert stats.kstest(tau[:, layer], stats.invgamma(2.0).cdf).pvalue > FALSE_ALARM / 3
        assert stats.spearmanr(tau[:, layer], tau[:, layer - 1]).pvalue > FALSE_ALARM / 3


@pytest.mark.parametrize("shape, scale", [(2.0, 1.0), (3.0, 0.2)])
def test_density_over_log_tau_is_that_of_an_inverse_gamma_variable(shape, scale):
    prior = InverseGammaScales(0.3, torch.ones(2).double(), shape=shape, scale=scale)
    u = torch.linspace(-8.0, 14.0, 20_001, dtype=torch.float64)
    state = torch.stack([torch.zeros_like(u), u, torch.zeros_like(u)], 1)
    below = torch.cumulative_trapezoid(prior.log_density(state).exp(), u)
    expected = stats.invgamma(shape, scale=scale).cdf(torch.exp(u[1:]).numpy())
    np.testing.assert_allclose((below / below[-1]).numpy(), expected, atol=1e-5)


def test_chains_start_at_draws_times_the_given_factors():
    start = PRIOR.start(20, log_sd=0.0, generator=torch.Generator().manual_seed(1))
    drawn = PRIOR.draw(20, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        torch.exp(start[:, 1:] - drawn[:, 1:]), PRIOR.start_factor.expand(20, 3)
    )
