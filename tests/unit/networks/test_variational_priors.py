"""The variational fit with priors of a transfer: conjugate answers, and unused weights."""

import functools

import pytest
import torch

from bandgap.networks.variational import (
    MeanField,
    VariationalConfig,
    VariationalFit,
    WeightPrior,
    fit_variational,
    kl_divergence,
    noise_log_prior,
)

LONG = VariationalConfig(
    epochs=600, batch_size=100, learning_rate=2e-2, final_learning_rate=5e-4, ramp_share=0.0
)
N = 40
B = 0.3


def values(*entries, dtype=torch.float32):
    w, b, v, c = (torch.tensor(e, dtype=dtype) for e in entries)
    return {
        "weight.1": w.reshape(1, 1),
        "bias.1": b.reshape(1),
        "weight.2": v.reshape(1, 1),
        "bias.2": c.reshape(1),
    }


@functools.cache
def fit_bias(*, noise_b=None) -> tuple[VariationalFit, torch.Tensor]:
    """Fit a network whose hidden unit is dead: y ~ N(bias, sigma^2), bias ~ N(0.5, 0.2^2)."""
    generator = torch.Generator().manual_seed(0)
    y = 1.0 + 0.6 * torch.randn(N, generator=generator)
    prior = WeightPrior(values(0.0, -50.0, 0.3, 0.5), values(0.1, 0.01, 0.4, 0.2))
    x = torch.randn(N, 1, generator=generator)
    fit = fit_variational(
        prior.mean, x, y, config=LONG, generator=generator, prior=prior, noise_b=noise_b
    )
    return fit, y


@pytest.mark.statistical
@pytest.mark.parametrize("noise_b", [None, B])
def test_bias_with_a_normal_prior_has_the_conjugate_posterior(noise_b):
    fit, y = fit_bias(noise_b=noise_b)
    precision = 1 / 0.2**2 + N / fit.noise_variance
    mean = (0.5 / 0.2**2 + float(y.sum()) / fit.noise_variance) / precision
    # Adam moves around the optimum by its last steps of 5e-4.
    assert float(fit.mean["bias.2"]) == pytest.approx(mean, abs=5e-3)
    assert float(fit.sd["bias.2"]) == pytest.approx(precision**-0.5, rel=0.03)


@pytest.mark.parametrize("noise_b, terms", [(None, (0.0, 0.0)), (B, (2 * B, 4.0))])
def test_noise_is_the_mode_of_its_density(noise_b, terms):
    """sigma^2 is (sum of E_q (y - bias)^2 + 2 b) / (n + 4), or the mean of squares if no prior."""
    fit, y = fit_bias(noise_b=noise_b)
    squares = float(((y - fit.mean["bias.2"]) ** 2).sum() + N * fit.sd["bias.2"] ** 2)
    assert fit.noise_variance == pytest.approx((squares + terms[0]) / (N + terms[1]), rel=0.03)


def test_weights_without_influence_on_the_data_have_the_prior():
    fit, _ = fit_bias()
    assert float(fit.mean["weight.2"]) == pytest.approx(0.3, abs=5e-3)
    assert float(fit.sd["weight.2"]) == pytest.approx(0.4, rel=0.02)


def test_divergence_from_a_prior_with_means_is_that_of_normal_distributions():
    q_mean = values(0.3, -0.2, 1.1, 0.0, dtype=torch.float64)
    q_sd = values(0.2, 0.5, 0.1, 1.3, dtype=torch.float64)
    centre = values(0.1, 0.4, 1.0, -0.6, dtype=torch.float64)
    sd = values(0.3, 0.2, 0.9, 1.0, dtype=torch.float64)
    q = MeanField(
        q_mean, {n: s.log() for n, s in q_sd.items()}, torch.tensor(0.0, dtype=torch.float64)
    )
    normal = torch.distributions.Normal
    expected = sum(
        float(
            torch.distributions.kl_divergence(
                normal(q_mean[n], q_sd[n]), normal(centre[n], sd[n])
            ).sum()
        )
        for n in sd
    )
    assert float(kl_divergence(q, sd, centre=centre)) == pytest.approx(expected, rel=1e-12)


def test_prior_of_the_noise_is_an_inverse_gamma_density_of_its_logarithm():
    log_sigma = torch.tensor(-0.4, dtype=torch.float64)
    gamma = torch.distributions.InverseGamma(*torch.tensor([2.0, B], dtype=torch.float64))

    def exact(s):
        return float(gamma.log_prob(torch.exp(2 * s)) + 2 * s)

    def density(s, b):
        return float(noise_log_prior(MeanField({}, {}, s), b))

    difference = density(log_sigma + 0.7, B) - density(log_sigma, B)
    assert difference == pytest.approx(exact(log_sigma + 0.7) - exact(log_sigma), rel=1e-10)
    assert density(log_sigma, None) == 0.0
