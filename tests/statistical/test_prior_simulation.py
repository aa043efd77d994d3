"""Posteriors of BTL-BNN and BTL-PCP-VI equal simulations of the prior, weighted by likelihood.

Parameters are drawn from the prior as defined (Abba 2023, sections 2.3.2 and 2.5), with all inputs
of the first layer and the output layer, without a change of variables and therefore without a
Jacobian. sigma^2 ~ InvGamma(2, b) does not depend on them and is integrated out: a draw whose
squared residuals sum to R gets the weight (1 + R / 2b)^-(2 + n / 2), and sigma^2 given it is
InvGamma(2 + n / 2, b + R / 2). Draws are independent and weights at most 1, so that no chain has to
converge. Means, squares and tails of predictions and scales are compared with the chains of the
methods; those of the simulations are recorded.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bandgap.inference.diagnostics import rhat
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.research.methods import btl_bnn, btl_pcp_vi
from tests.recorded import SEED, record, recorded
from tests.statistical.by_library import (
    CHAINS,
    assert_same_means,
    mean_and_error,
    predicted,
    source_of,
    transferred,
)
from tests.unit.inference.network.problems import plain, raw, sds_of

pytestmark = pytest.mark.statistical

N = 6
P = 3
HIDDEN = (3, 2)
LAYERS = len(HIDDEN) + 1
SHARE = 0.2  # b is this share of the variance of the labels
SAMPLER = SamplerConfig(CHAINS, warmup=100, draws=150, keep=75 * CHAINS, angle=1.0)
BATCH = 500_000
DRAWS = {"btl_bnn": 16_000_000, "btl_pcp_vi": 6_000_000}  # of the simulations
LEAST_DRAWS = 4000  # effective, of each


@pytest.fixture(scope="module")
def problem():
    """theta_hat, sds (float32 values), x, y unlike the source's, and new inputs.

    These are a training row, a point between two rows, and two others.
    """
    theta_hat, x, y = raw(N, P, hidden=HIDDEN, seed=4)
    theta_hat = [layer.float().double() for layer in theta_hat]
    sds = [layer.float().double() for layer in sds_of(theta_hat)]
    new = torch.from_numpy(np.random.default_rng(12).normal(size=(2, P)))
    new[1] *= 2.0
    return theta_hat, sds, x, y + x[:, 0], torch.cat([x[:1], 0.5 * (x[1:2] + x[2:3]), new])


@dataclass(frozen=True)
class Simulated:
    """Quantities (draw, quantity) and weights (draw,) of a simulation."""

    values: np.ndarray
    weights: np.ndarray

    @property
    def effective(self):
        return self.weights.sum() ** 2 / (self.weights**2).sum()

    def mean_and_error(self):
        """Means under the weights, and their standard errors, both (quantity,)."""
        share = self.weights / self.weights.sum()
        mean = share @ self.values
        return mean, np.sqrt(share**2 @ (self.values - mean) ** 2)


def simulate(prior, problem, quantities, *, draws):
    """Draw weights and scales (draw, k) from a prior in batches.

    The weights of draws are the likelihood of the labels.
    """
    _, _, x, y, new = problem
    b = SHARE * float(y.var())
    shape = 2.0 + N / 2
    rng = np.random.default_rng(SEED)
    values = []
    weights = []
    for _ in range(draws // BATCH):
        theta, scales = prior(rng)
        misfit = ((y - plain(theta, x)) ** 2).sum(-1).numpy()
        weight = (1.0 + misfit / (2.0 * b)) ** -shape
        # The others together have less weight than a twentieth of the largest.
        relevant = weight > 1e-7 * weight.max()
        sigma = np.sqrt((b + 0.5 * misfit[relevant]) / rng.gamma(shape, size=relevant.sum()))
        f = plain([layer[relevant] for layer in theta], new).numpy()
        values.append(quantities(f, scales[relevant], sigma))
        weights.append(weight[relevant])
    return Simulated(np.concatenate(values), np.concatenate(weights))


def around(centre, spread, rng):
    """Normal weights theta_l = centre_l + spread_l z_l, one tensor (draw, out, in + 1) a layer."""
    return [
        t + s * torch.from_numpy(rng.normal(size=(BATCH, *t.shape)))
        for t, s in zip(centre, spread, strict=True)
    ]


def free_scales(problem):
    """theta_l ~ N(theta_hat_l, tau_l I), tau_l ~ InvGamma(2, 1) independently.

    Scales are log tau_l.
    """

    def prior(rng):
        tau = 1.0 / rng.gamma(2.0, size=(BATCH, LAYERS))
        spread = [torch.from_numpy(np.sqrt(tau[:, i]))[:, None, None] for i in range(LAYERS)]
        return around(problem[0], spread, rng), np.log(tau)

    return prior


def scales_around_the_posterior(problem, *, lam):
    """theta_l ~ N(theta_hat_l, (1 + tau c_l) S_l^2), c uniform on the simplex, d(tau) ~ Exp(lam).

    Scales are log tau and c.
    """
    theta_hat, sds = problem[:2]
    sizes = np.array([layer.numel() for layer in theta_hat])

    def prior(rng):
        c = rng.dirichlet(np.ones(LAYERS), size=BATCH)
        tau = tau_at(rng.exponential(1.0 / lam, size=BATCH), c, sizes)
        factor = torch.from_numpy(np.sqrt(1.0 + tau[:, None] * c))
        spread = [factor[:, i, None, None] * s for i, s in enumerate(sds)]
        return around(theta_hat, spread, rng), np.concatenate([np.log(tau)[:, None], c], 1)

    return prior


def tau_at(distance, c, sizes):
    """Solve distance^2 = sum_l v_l (x_l - log(1 + x_l)), x_l = tau c_l, for tau (draw,).

    The method is bisection.
    """
    low, high = np.full(distance.shape, -25.0), np.full(distance.shape, 25.0)  # of log tau
    for _ in range(45):
        middle = 0.5 * (low + high)
        x = np.exp(middle)[:, None] * c
        below = (x - np.log1p(x)) @ sizes < distance**2
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp(0.5 * (low + high))


def quantities_of(centre):
    """Return the function of f (..., m), scales (..., k) and sigma (...) whose means are compared.

    It uses f itself at the first two inputs, where the labels determine it, and its inverse
    hyperbolic sine elsewhere, so that tails have finite means.
    """

    def quantities(f, scales, sigma):
        off = np.arcsinh(f - centre)
        values = np.concatenate([f[..., :2], off, scales, np.log(sigma)[..., None]], -1)
        return np.concatenate(
            [values, values**2, (off > 0.0).astype(float), off[..., 2:] * scales[..., -1:]], -1
        )

    return quantities


@pytest.mark.slow
def test_btl_bnn_is_its_prior_weighted_by_the_likelihood(problem, monkeypatch):
    theta_hat, _, x, y, new = problem
    centre = plain(theta_hat, new).numpy()
    config = btl_bnn.BtlBnnConfig(noise_share=SHARE, sampler=SAMPLER)
    posterior = transferred(btl_bnn, config, source_of(theta_hat), x, y, monkeypatch=monkeypatch)
    scales = np.log(posterior.tau[..., None] * posterior.layer_weights)
    chains = quantities_of(centre)(predicted(posterior, new), scales, posterior.sigma)
    assert rhat(chains).max() < 1.05  # chains long enough to be compared
    assert_same_means(*mean_and_error(chains), recorded("btl_bnn", centre))


@pytest.mark.slow
def test_btl_pcp_vi_is_its_prior_weighted_by_the_likelihood(problem, monkeypatch):
    theta_hat, sds, x, y, new = problem
    centre = plain(theta_hat, new).numpy()
    config = btl_pcp_vi.BtlPcpViConfig(lam=1.0, noise_share=SHARE, sampler=SAMPLER)
    posterior = transferred(
        btl_pcp_vi, config, source_of(theta_hat, sds=sds), x, y, monkeypatch=monkeypatch
    )
    scales = np.concatenate([np.log(posterior.tau)[..., None], posterior.layer_weights], -1)
    chains = quantities_of(centre)(predicted(posterior, new), scales, posterior.sigma)
    assert rhat(chains).max() < 1.05  # chains long enough to be compared
    assert_same_means(*mean_and_error(chains), recorded("btl_pcp_vi", centre))


@pytest.mark.soak  # a minute of one core each
@pytest.mark.parametrize("name", ["btl_bnn", "btl_pcp_vi"])
def test_recorded_means_are_those_of_the_simulation(problem, name):
    centre = plain(problem[0], problem[-1]).numpy()
    prior = {
        "btl_bnn": free_scales(problem),
        "btl_pcp_vi": scales_around_the_posterior(problem, lam=1.0),
    }[name]
    simulated = simulate(prior, problem, quantities_of(centre), draws=DRAWS[name])
    assert simulated.effective > LEAST_DRAWS
    mean, error = simulated.mean_and_error()
    record(name, centre, mean=mean, error=error)
    assert_same_means(mean, error, recorded(name, centre))
