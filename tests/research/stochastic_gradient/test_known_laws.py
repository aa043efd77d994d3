"""Samplers on N(0, 1) against the exact laws of their recursions, and their known biases."""

import math

import numpy as np
import pytest
import torch

from bandgap.research.stochastic_gradient.asgld import AsgldConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.msgld import MsgldConfig
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.psgld import PsgldConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from tests.research.stochastic_gradient.linear_laws import (
    WholeTarget,
    first_variance,
    measured_variance,
)

TWO_PERCENT = 0.02


def sghmc_variance(eta, alpha):
    """theta' = theta + v, v' = (1 - alpha) v - eta (theta + v) + N(0, 2 alpha eta)."""
    return first_variance([[1, 1], [-eta, 1 - alpha - eta]], [[0, 0], [0, 2 * alpha * eta]])


def msgld_variance(h, *, a=1.0, b=0.9, corrected):
    """g = -theta; m' = b m - (1 - b) theta; theta' = theta + h (g + a m') + noise."""
    matrix = [[1 - h - h * a * (1 - b), h * a * b], [-(1 - b), b]]
    return first_variance(matrix, [[2 * h * (1 + a if corrected else 1), 0], [0, 0]])


@pytest.mark.parametrize("h, tau", [(0.5, 1.0), (0.1, 1.0), (0.5, 2.0)])
def test_sgld_has_its_exact_variance(h, tau):
    exact = 1 / (tau * (1 - h / 2))
    assert measured_variance(SgldConfig(h, tau)) == pytest.approx(exact, rel=TWO_PERCENT)


@pytest.mark.parametrize("eta, alpha", [(0.04, 0.2), (0.5, 0.5)])
def test_sghmc_has_the_variance_of_its_lyapunov_equation(eta, alpha):
    measured = measured_variance(SghmcConfig(eta, friction=alpha))
    assert measured == pytest.approx(sghmc_variance(eta, alpha), rel=TWO_PERCENT)


def test_sghmc_subtracts_known_batch_noise_from_its_own_noise():
    """Gradients with noise of variance 4 inflate the variance; b makes up for it."""
    eta = 0.02
    alpha = 0.2
    generator = torch.Generator().manual_seed(3)
    noisy = WholeTarget(lambda x: -x + 2 * torch.randn(x.shape, generator=generator, dtype=x.dtype))
    plain = measured_variance(SghmcConfig(eta, friction=alpha), target=noisy)
    config = SghmcConfig(eta, friction=alpha, gradient_variance=4.0)
    compensated = measured_variance(config, target=noisy)
    inflated = first_variance(
        [[1, 1], [-eta, 1 - alpha - eta]], [[0, 0], [0, 2 * alpha * eta + 4 * eta**2]]
    )
    assert plain == pytest.approx(inflated, rel=TWO_PERCENT)
    assert compensated == pytest.approx(sghmc_variance(eta, alpha), rel=TWO_PERCENT)


@pytest.mark.statistical
@pytest.mark.parametrize("h", [0.01, 0.1])
@pytest.mark.parametrize("corrected", [True, False])
def test_msgld_has_the_variance_of_its_lyapunov_equation(h, corrected):
    measured = measured_variance(
        MsgldConfig(h, corrected=corrected), draws=1500 if h > 0.05 else 3000
    )
    assert measured == pytest.approx(msgld_variance(h, corrected=corrected), rel=TWO_PERCENT)
    if h == 0.01:
        assert abs(measured - (1.09 if corrected else 0.546)) < (0.03 if corrected else 0.02)


def test_msgld_as_published_warns_of_its_bias_and_corrected_does_not():
    assert MsgldConfig(0.01, corrected=False).warnings()[0].kind == "biased"
    assert MsgldConfig(0.01).warnings() == ()


@pytest.mark.statistical
@pytest.mark.parametrize("a, variance", [(1.0, 0.46), (10.0, 0.12)])
def test_asgld_has_the_bias_that_its_help_states(a, variance):
    config = AsgldConfig(0.01, weight=a, square_memory=0.99)
    measured = measured_variance(config, warmup=1500, draws=1500, chains=1000)
    assert measured == pytest.approx(variance, rel=0.1)
    assert config.warnings()[0].kind == "biased" and "0.46" in config.warnings()[0].text


@pytest.mark.statistical
def test_psgld_that_never_freezes_samples_another_density():
    """The limit in one dimension is p(x) |x|, of variance 2."""
    config = PsgldConfig(0.002, alpha=0.9, freeze_after_warmup=False)
    measured = measured_variance(config, warmup=2000, draws=2000, chains=1000, sd=1.4)
    assert 1.75 < measured < 2.0
    assert config.warnings()[0].kind == "biased"


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [0.9, 0.99])
def test_psgld_frozen_after_warmup_samples_the_density(alpha):
    measured = measured_variance(
        PsgldConfig(0.002, alpha=alpha), warmup=1000, draws=6000, chains=1000, forget=0.6
    )
    assert measured == pytest.approx(1.0, abs=0.05)
    assert PsgldConfig(0.002).warnings() == ()


@pytest.mark.statistical
@pytest.mark.parametrize("scale, dim, tau", [(1.0, 5, 1.0), (3.0, 5, 1.0), (1.0, 5, 2.0)])
def test_normalised_steps_give_a_radius_that_does_not_depend_on_the_posterior(scale, dim, tau):
    """G = I (no metric is ever taken in).

    The radius is Gamma(dim, tau dim), of mean 1 / tau, at every scale.
    """
    config = HamcmcSaConfig(0.01, tau, normalise="normalised steps, not the posterior", every=10**9)
    start = torch.randn(400, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    start = start / start.norm(dim=1, keepdim=True) / tau
    target = WholeTarget(lambda x: -x / scale**2)
    run = RunConfig(500, 3000, 3000)
    draws, info = sample(
        target, config, start, config=run, seed=0, extras=Extras(lambda x: x.norm(dim=1)[:, None])
    )
    assert float(draws.recorded.mean()) == pytest.approx(1 / tau, rel=0.05)
    posterior = scale * math.sqrt(2 / tau) * math.gamma((dim + 1) / 2) / math.gamma(dim / 2)
    assert not np.isclose(posterior, 1 / tau, rtol=0.2)
    assert [w.kind for w in info.warnings] == ["not a posterior"]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "config",
    [
        SgldConfig(0.05),
        PsgldConfig(0.02),
        MsgldConfig(0.01),
        SghmcConfig(0.01, friction=0.3),
        HamcmcSaConfig(0.05),
    ],
    ids=lambda c: type(c).__name__,
)
def test_twice_the_inverse_temperature_gives_half_the_variance(config):
    cold = type(config)(**(vars(config) | {"inverse_temperature": 2.0}))
    pair = [measured_variance(c, warmup=600, draws=1000, chains=500, dim=2) for c in (config, cold)]
    assert pair[1] / pair[0] == pytest.approx(0.5, rel=0.04)
