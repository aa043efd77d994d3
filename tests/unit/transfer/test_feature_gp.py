"""The Gaussian process around a source: what it is with no data near, what its intervals are, and its warnings."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.errors import ConfigError
from bandgap.inference.importance import ImportanceInfo
from bandgap.networks import forward
from bandgap.recalibration import source_gaps_eV
from bandgap.transfer.feature_gp import FeatureGPConfig, diagnose, fit

QUICK = FeatureGPConfig(draws=32, proposals=60)


@pytest.fixture
def posterior(source_of, target):
    return fit(source_of(), target, QUICK, seed=0, device="cpu")


def test_gaps_that_are_the_sources_own_are_met_almost_exactly(source_of, target):
    source = source_of()
    own = dataclasses.replace(target, gaps_eV=source_gaps_eV(source, source.standardiser, target.features))
    posterior = fit(source, own, QUICK, seed=0, device="cpu")
    new = np.random.default_rng(9).normal(size=(50, 5)).astype(np.float32)
    expected = source_gaps_eV(source, source.standardiser, new)
    error = posterior.mean_draws_eV(new).mean((0, 1)) - expected
    assert np.sqrt(np.mean(error**2)) < 0.1 * own.gaps_eV.std()


def test_interval_covers_new_observations(posterior):
    """80 % intervals of 2,000 new rows; the tolerance is what 40 training rows leave open, not Monte-Carlo error."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 5)).astype(np.float32)
    y = np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=2000)
    draws = posterior.predictive_draws(x)
    u = stats.norm.cdf((y - draws.centres_eV) / draws.sds_eV).mean(0)
    assert 0.7 < np.mean((u > 0.1) & (u < 0.9)) < 0.95


def test_draws_of_the_mean_have_the_quantiles_of_the_mixture(posterior):
    x = np.random.default_rng(6).normal(size=(4, 5)).astype(np.float32)
    one = dataclasses.replace(posterior, theta=np.repeat(posterior.theta[:1], 64, axis=0))  # then it is a normal
    draws = one.predictive_draws(x)
    noise = np.exp(one.theta[0, -1]) * one.y_scale * one.standardiser.y_sd_eV
    latent = np.sqrt(draws.sds_eV[0] ** 2 - noise**2)
    for level in (0.025, 0.5, 0.975):
        expected = draws.centres_eV[0] + latent * stats.norm.ppf(level)
        np.testing.assert_allclose(np.quantile(draws.means_eV[0], level, axis=0), expected, atol=0.03 * latent.max())


def test_far_from_the_training_rows_it_is_less_sure(posterior, target):
    near, far = target.features[:5], 30.0 + target.features[:5]
    assert (posterior.predictive_draws(far).sds_eV.min() > 2 * posterior.predictive_draws(near).sds_eV).all()


def test_feature_that_never_varied_makes_a_structure_far(source_of, target):
    x = target.features.copy()
    x[:, 4] = 1.0
    posterior = fit(source_of(), dataclasses.replace(target, features=x), QUICK, seed=0, device="cpu")
    same, other = x[:3], x[:3].copy()
    other[:, 4] = 2.0
    assert (posterior.predictive_draws(other).sds_eV > posterior.predictive_draws(same).sds_eV).all()


def test_many_rows_are_predicted_as_few_are(posterior, target):
    many = np.tile(target.features, (30, 1))  # more than one block
    np.testing.assert_allclose(
        posterior.predictive_draws(many).sds_eV[:, :40], posterior.predictive_draws(target.features).sds_eV, rtol=1e-9
    )


def test_scales_that_are_not_covered_are_told():
    poor = diagnose(ImportanceInfo(np.zeros(4), 10.0, 0.9, 400))
    assert "Pareto k 0.90, want below 0.7" in poor.warnings[0] and "Raise proposals" in poor.warnings[0]
    assert diagnose(ImportanceInfo(np.zeros(4), 100.0, 0.3, 400)).warnings == ()


def test_too_few_draws_are_refused():
    with pytest.raises(ConfigError, match="feature_gp: 4 draws, 200 proposals. Accepted: at least 8 draws"):
        FeatureGPConfig(draws=4)


def test_tangent_kernel_is_that_of_the_first_layers_gradients(source_of, target):
    """k(x, x') = grad f(x) . grad f(x') over the first layer's weights and biases, by automatic differentiation."""
    posterior = fit(source_of(), target, QUICK, seed=0, device="cpu")
    x = torch.from_numpy(posterior.standardiser.features(target.features)).float()
    params = {name: value.clone().requires_grad_(name.endswith(".1")) for name, value in posterior.params.items()}
    gradients = []
    for row in forward(params, x):
        parts = torch.autograd.grad(row, [params["weight.1"], params["bias.1"]], retain_graph=True)
        gradients.append(torch.cat([part.flatten() for part in parts]))
    expected = (torch.stack(gradients) @ torch.stack(gradients).T).double().numpy()
    expected /= np.mean(np.diag(expected))
    np.testing.assert_allclose(posterior.problem.kernels.grams[2], expected, rtol=1e-3, atol=1e-4)


def test_size_has_a_length_of_its_own(source_of, target):
    source = source_of()
    descriptor = dataclasses.replace(source.descriptor, size=True)
    plain, apart = (
        fit(s, target, QUICK, seed=0, device="cpu")
        for s in (source, dataclasses.replace(source, descriptor=descriptor))
    )
    assert apart.theta.shape[1] == plain.theta.shape[1] + 1 == 7
    (both,), (rest, size) = plain.problem.kernels.distances, apart.problem.kernels.distances
    assert (
        np.corrcoef(size.ravel(), np.abs(target.features[:, None, -1] - target.features[:, -1]).ravel())[0, 1] > 0.999
    )
    assert not np.allclose(both, rest)
