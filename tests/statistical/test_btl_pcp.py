"""The posterior of BTL-PCP-PE is that of its joint density, and is calibrated.

First check: the joint density of all weights, tau, sigma and c (Abba 2023, section 2.3.3) in its
plain form, with all inputs of the first layer and the output layer as parameters, is sampled by an
independent implementation of Hamiltonian Monte Carlo; its means are recorded.

Second check: parameters and data are drawn from the model; the ranks of the parameters among
posterior draws are uniform (Talts et al., 2018, arXiv:1804.06788; the likelihood as a ranked
quantity: Modrak et al., 2023).
"""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.foundation.progress import no_progress
from bandgap.inference.diagnostics import rhat
from bandgap.inference.network import sampler as network_sampler
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import whiten
from bandgap.transfer import btl_pcp_pe
from tests.recorded import SEED, record, recorded
from tests.statistical.by_library import (
    CHAINS,
    assert_same_means,
    mean_and_error,
    predicted,
    source_of,
    transferred,
)
from tests.statistical.plain_hmc import sample
from tests.unit.inference.network.problems import CPU, plain, prior_of, raw

pytestmark = pytest.mark.statistical

N = 10
P = 12
HIDDEN = (5, 4)
PLAIN_CHAINS = 100
ANGLE = 2.5  # paths of two or three radians: on small problems fewer iterations do


@pytest.fixture(scope="module")
def problem():
    """theta_hat (float32 values), x, y and five new inputs.

    These are a training row, a point between two rows, and three points outside.
    """
    theta_hat, x, y = raw(N, P, hidden=HIDDEN, seed=11)
    theta_hat = [layer.float().double() for layer in theta_hat]
    new = torch.from_numpy(np.random.default_rng(12).normal(size=(3, P)))
    new[2] *= 2.0
    return theta_hat, x, y, torch.cat([x[:1], 0.5 * (x[1:2] + x[2:3]), new])


def summaries(f, log_tau, log_sigma, c, centre):
    """Quantities (chain, draw, 26) whose means are compared.

    These are moments, and shares of draws above the source.
    """
    scales = np.concatenate([log_tau[..., None] + 3.0, log_sigma[..., None] + 1.0, c], -1)
    values = np.concatenate([f - centre, scales], -1)
    between = (f[..., 2:4] - centre[2:4]) * (f[..., :1] - centre[:1])
    above = (f[..., 1:] > centre[1:]).astype(float)
    return np.concatenate([values, values**2, between, above], -1)


def by_library(problem, centre, monkeypatch):
    theta_hat, x, y, new = problem
    sampler = SamplerConfig(chains=CHAINS, warmup=200, draws=300, keep=100 * CHAINS, angle=ANGLE)
    posterior = transferred(
        btl_pcp_pe,
        btl_pcp_pe.BtlPcpPeConfig(sampler=sampler),
        source_of(theta_hat),
        x,
        y,
        monkeypatch=monkeypatch,
    )
    f = predicted(posterior, new)
    return summaries(
        f, np.log(posterior.tau), np.log(posterior.sigma), posterior.layer_weights, centre
    )


def by_definition(problem, centre):
    theta_hat, x, y, new = problem
    leaves = [layer.clone().requires_grad_(True) for layer in theta_hat]
    rows = [torch.autograd.grad(value, leaves, retain_graph=True) for value in plain(leaves, x)]
    alpha = torch.stack([torch.stack([(g**2).sum() for g in row]) for row in rows])  # (N, L)
    b = 0.2 * float(y.var())
    lam = 1.0
    n_layers = len(theta_hat)
    sizes = [layer.numel() for layer in theta_hat]

    def unpack(q):
        *z, u, s, logits = q.split([*sizes, 1, 1, n_layers - 1], -1)
        c = torch.softmax(torch.nn.functional.pad(logits, (0, 1)), -1)
        theta = [
            t + torch.sqrt(torch.exp(u[:, 0]) * c[:, i])[:, None, None] * z[i].reshape(-1, *t.shape)
            for i, t in enumerate(theta_hat)
        ]
        return torch.cat(z, -1), u[:, 0], s[:, 0], c, theta

    def log_density(q):
        z, u, s, c, theta = unpack(q)
        tau = torch.exp(u)
        variance = torch.exp(2 * s)
        at = tau[:, None] * (c @ alpha.T) / variance[:, None]
        d = torch.sqrt((at - torch.log1p(at)).mean(-1))
        slope = (at**2 / (1 + at)).mean(-1) / tau / (2 * d)  # d'(tau)
        log_prior = -lam * d + torch.log(slope) + u  # of u = log tau
        # InvGamma(2, b) of sigma^2, as a density of s = log sigma
        log_prior = log_prior - 3.0 * torch.log(variance) - b / variance + 2 * s
        # Dirichlet(1, 1, 1) and the Jacobian of its logits
        log_prior = log_prior + torch.log(c).sum(-1)
        misfit = ((y - plain(theta, x)) ** 2).sum(-1)
        return log_prior - 0.5 * (z**2).sum(-1) - N * s - 0.5 * misfit / variance

    start = (
        0.3
        * torch.randn(
            PLAIN_CHAINS, sum(sizes) + 4, generator=torch.Generator().manual_seed(1)
        ).double()
    )
    start[:, sum(sizes)] -= 3.0
    draws = sample(log_density, start, length=16, warmup=500, draws=800, seed=SEED)
    thinned = draws[:, ::4]
    _, u, s, c, theta = unpack(thinned.reshape(-1, thinned.shape[-1]))
    shape = (PLAIN_CHAINS, thinned.shape[1])
    f, u, s, c = (v.reshape(*shape, *v.shape[1:]).numpy() for v in (plain(theta, new), u, s, c))
    return summaries(f, u, s, c, centre)


@pytest.mark.slow
def test_posterior_is_that_of_the_joint_density_written_down_plainly(problem, monkeypatch):
    theta_hat, x, _, new = problem
    wide = torch.cat([x, torch.ones(N, 1)], 1)
    outside = torch.cat([new, torch.ones(5, 1)], 1) @ (
        torch.eye(P + 1) - torch.linalg.pinv(wide) @ wide
    )
    assert (torch.linalg.norm(outside, dim=1) > 0.5).tolist() == [False, False, True, True, True]
    centre = plain(theta_hat, new).numpy()
    ours = by_library(problem, centre, monkeypatch)
    assert ours.shape == (CHAINS, 100, 26)
    assert rhat(ours[..., :10]).max() < 1.05  # chains long enough to be compared
    assert_same_means(*mean_and_error(ours), recorded("btl_pcp", centre))


@pytest.mark.soak  # ten minutes of one core
def test_recorded_means_are_those_of_plain_hamiltonian_monte_carlo(problem):
    theta_hat, *_, new = problem
    centre = plain(theta_hat, new).numpy()
    draws = by_definition(problem, centre)
    assert rhat(draws[..., :10]).max() < 1.03
    mean, error = mean_and_error(draws)
    record("btl_pcp", centre, mean=mean, error=error)
    assert_same_means(mean, error, recorded("btl_pcp", centre))


RANKS = 20
BINS = 10
FALSE_ALARM = 1e-3  # of the check as a whole


def model_draws(theta_hat, x, prior, *, replications):
    """Parameters from the prior, labels from the likelihood.

    Returns weights, the state of the scales and y of every replication.
    """
    generator = torch.Generator().manual_seed(3)
    state = prior.draw(replications, generator=generator)
    scales = prior.scales(state)
    theta = [
        layer
        + scales.s[:, i, None, None]
        * torch.randn(replications, *layer.shape, generator=generator).double()
        for i, layer in enumerate(theta_hat)
    ]
    f = plain(theta, x)
    y = f + scales.sigma[:, None] * torch.randn(f.shape, generator=generator).double()
    return theta, state, y


def ranked(theta, state, y, x, new):
    """Quantities (..., 8) that are ranked.

    These are scales, f at two new inputs, and the log likelihood of the data.
    """
    log_sigma = state[..., 0]
    parts = state[..., 1:]
    log_t = torch.logsumexp(parts, -1)
    misfit = ((y - plain(theta, x)) ** 2).sum(-1)
    likelihood = -x.shape[0] * log_sigma - 0.5 * misfit * torch.exp(-2 * log_sigma)
    values = [
        log_t,
        log_sigma,
        log_t + 2 * log_sigma,
        *torch.softmax(parts, -1).unbind(-1)[::2],
    ]
    return torch.stack([*values, *plain(theta, new).unbind(-1), likelihood], -1)


@pytest.mark.slow
@pytest.mark.parametrize("replications", [300, pytest.param(1_200, marks=pytest.mark.soak)])
def test_ranks_of_the_truth_among_posterior_draws_are_uniform(monkeypatch, replications):
    """Hundreds of data sets, one chain each, are run as one batch.

    At lam = 2 one step size suits all of their scales.
    """
    theta_hat, x, _ = raw(6, 3, hidden=(3, 3), seed=13)
    new = torch.from_numpy(np.random.default_rng(14).normal(size=(2, 3)))
    prior = prior_of(theta_hat, x, lam=2.0, noise_b=0.1)
    theta, state, y = model_draws(theta_hat, x, prior, replications=replications)
    net = dataclasses.replace(whiten(theta_hat, x, y[0], device=CPU, dtype=torch.float64), y=y)
    assert net.inputs.shape == (6, 4)  # as many rows as inputs: nothing is left to the prior
    monkeypatch.setattr(network_sampler, "CHAINS_PER_GROUP", replications)
    n_draws = RANKS - 1
    config = SamplerConfig(
        replications, warmup=150, draws=15 * n_draws, keep=replications * n_draws, angle=ANGLE
    )
    draws, info = network_sampler.sample_network(
        net, prior, config=config, seed=0, progress=no_progress
    )
    assert float(info.accept.mean()) > 0.7
    scales = prior.scales(draws.state.flatten(0, 1)).s
    scales = scales.unflatten(0, draws.state.shape[:2])[..., None, None]
    posterior = [
        theta_hat[0] + scales[:, :, 0] * draws.z[0] @ net.basis.T,
        theta_hat[1] + scales[:, :, 1] * draws.z[1],
        draws.output.unsqueeze(-2),
    ]
    sampled = ranked(posterior, draws.state, y[:, None], x, new)
    truth = ranked(theta, state, y, x, new)
    ranks = (sampled < truth[:, None]).sum(1)  # (replication, quantity), 0 .. RANKS - 1
    counts = torch.stack([torch.bincount(r * BINS // RANKS, minlength=BINS) for r in ranks.T])
    p_values = stats.chisquare(counts.numpy(), axis=1).pvalue
    assert p_values.min() > FALSE_ALARM / len(p_values), counts
