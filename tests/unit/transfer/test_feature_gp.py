"""The Gaussian process around a source: far from data, its intervals, its warnings."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.gaussian_process.importance import ImportanceInfo
from bandgap.networks.perceptron import forward
from bandgap.sources.recalibration import source_gaps_eV
from bandgap.transfer.feature_gp import FeatureGPConfig, fit
from bandgap.transfer.shared.integrated_scales import diagnose
from bandgap.transfer.shared.method import Fitting
from tests.storing import read_again

QUICK = FeatureGPConfig(draws=32, proposals=60, rounds=2)


@pytest.fixture
def posterior(source_of, target):
    return fit(source_of(), target, QUICK, Fitting(0, device="cpu"))


def test_gaps_that_are_the_sources_own_are_met_almost_exactly(source_of, target):
    source = source_of()
    source_target = dataclasses.replace(
        target, gaps_eV=source_gaps_eV(source, source.standardiser, target.features)
    )
    posterior = fit(source, source_target, QUICK, Fitting(0, device="cpu"))
    new = np.random.default_rng(9).normal(size=(50, 5)).astype(np.float32)
    expected = source_gaps_eV(source, source.standardiser, new)
    error = posterior.mean_draws_eV(new).mean((0, 1)) - expected
    assert np.sqrt(np.mean(error**2)) < 0.1 * source_target.gaps_eV.std()


def test_draws_of_the_mean_have_the_quantiles_of_the_mixture(posterior):
    x = np.random.default_rng(6).normal(size=(4, 5)).astype(np.float32)
    # Then it is a normal.
    one = dataclasses.replace(posterior, theta=np.repeat(posterior.theta[:1], 64, axis=0))
    draws = one.predictive_draws(x)
    noise = np.exp(one.theta[0, -1]) * one.y_sd_eV
    latent = np.sqrt(draws.sds_eV[0] ** 2 - noise**2)
    for level in (0.025, 0.5, 0.975):
        expected = draws.centres_eV[0] + latent * stats.norm.ppf(level)
        np.testing.assert_allclose(
            np.quantile(draws.means_eV[0], level, axis=0), expected, atol=0.03 * latent.max()
        )


def test_feature_that_never_varied_makes_a_structure_far(source_of, target):
    x = target.features.copy()
    x[:, 4] = 1.0
    posterior = fit(
        source_of(), dataclasses.replace(target, features=x), QUICK, Fitting(0, device="cpu")
    )
    same = x[:3]
    other = x[:3].copy()
    other[:, 4] = 2.0
    assert (
        posterior.predictive_draws(other).sds_eV > posterior.predictive_draws(same).sds_eV
    ).all()


def test_many_rows_are_predicted_as_few_are(posterior, target):
    many = np.tile(target.features, (30, 1))  # more than one block
    np.testing.assert_allclose(
        posterior.predictive_draws(many).sds_eV[:, :40],
        posterior.predictive_draws(target.features).sds_eV,
        rtol=1e-9,
    )


def test_diagnose_scales_that_are_not_covered_warns():
    poor = diagnose(ImportanceInfo(np.zeros(4), 100.0, 0.9, 400))
    assert (
        "Pareto k 0.90, want below 0.7" in poor.warnings[0] and "Raise rounds" in poor.warnings[0]
    )
    few_draws = diagnose(ImportanceInfo(np.zeros(4), 8.0, 0.3, 400))
    assert "8 effective draws, want 20" in few_draws.warnings[0]
    assert diagnose(ImportanceInfo(np.zeros(4), 100.0, 0.3, 400)).warnings == ()


def test_tangent_kernel_is_that_of_the_first_layers_gradients(source_of, target):
    """k(x, x') = grad f(x) . grad f(x') over the first layer, by automatic differentiation."""
    posterior = fit(source_of(), target, QUICK, Fitting(0, device="cpu"))
    network = posterior.networks[0]
    x = torch.from_numpy(network.view(target.features).z).float()
    params = {
        name: torch.tensor(value, requires_grad=name.endswith(".1"))
        for name, value in network.params.items()
    }
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
        fit(s, target, QUICK, Fitting(0, device="cpu"))
        for s in (source, dataclasses.replace(source, descriptor=descriptor))
    )
    assert apart.theta.shape[1] == plain.theta.shape[1] + 1 == 7
    (both,), (other_distances, size) = (
        plain.problem.kernels.distances,
        apart.problem.kernels.distances,
    )
    assert (
        np.corrcoef(
            size.ravel(), np.abs(target.features[:, None, -1] - target.features[:, -1]).ravel()
        )[0, 1]
        > 0.999
    )
    assert not np.allclose(both, other_distances)


def two_heads(source_of, *, seed):
    """A source of two outputs: other output weights, the same hidden layers."""
    first = source_of(seed=seed)
    other = source_of(seed=seed + 50)
    last = {name: other.params[name] for name in ("weight.3", "bias.3")}
    return {"a": first, "b": dataclasses.replace(first, params={**first.params, **last})}


def test_networks_and_outputs_are_parts_of_one_model(source_of, target):
    """Every kernel is the mean over networks; that of the predictions is linear in all outputs."""
    members = [two_heads(source_of, seed=0), two_heads(source_of, seed=1)]
    together, *apart = (
        fit(networks[0]["a"], target, QUICK, Fitting(0, networks=networks, head="a"))
        for networks in (members, *([member] for member in members))
    )
    for k, gram in enumerate(together.problem.kernels.grams):
        mean = np.mean([p.problem.kernels.grams[k] for p in apart], axis=0)
        np.testing.assert_allclose(gram, mean, atol=1e-6)
        assert np.mean(np.diag(gram)) == pytest.approx(1.0, abs=1e-6)
    predictions = apart[0].problem.kernels.grams[0]
    assert np.linalg.matrix_rank(predictions, tol=1e-4) == 2
    assert together.n_members == 1 and len(together.networks) == 2


def test_prior_variance_of_a_training_row_is_the_kernels_diagonal(source_of, target):
    """Without noise and with kernels that hardly decay, a training row is known.

    Its latent variance is about zero.
    """
    networks = [two_heads(source_of, seed=0)]
    posterior = fit(networks[0]["b"], target, QUICK, Fitting(0, networks=networks, head="b"))
    quiet = posterior.theta.copy()
    quiet[:, -1] = -6.0
    draws = dataclasses.replace(posterior, theta=quiet).predictive_draws(target.features)
    assert draws.sds_eV.max() < 0.05 * target.gaps_eV.std()


def test_network_sees_the_power_that_it_was_trained_with(source_of, target):
    source = source_of()
    squares = dataclasses.replace(
        source, standardiser=dataclasses.replace(source.standardiser, power=2.0)
    )
    config = dataclasses.replace(QUICK, standardise="source")
    posterior = fit(squares, target, config, Fitting(0))
    x = target.features.astype(np.float64)
    wide = {name: value.double() for name, value in source.params.items()}
    expected = forward(wide, torch.from_numpy(np.sign(x) * x**2)).numpy()
    np.testing.assert_allclose(
        posterior.networks[0].view(target.features).f[:, 0], expected, atol=1e-4
    )
    again = read_again(posterior)
    assert again.networks[0].scales.power == 2.0


def with_levels(target, seed=4):
    """The same rows with three more features, on which the gaps depend much."""
    levels = np.random.default_rng(seed).normal(size=(len(target.gaps_eV), 3)).astype(np.float32)
    gaps = target.gaps_eV + 2.0 * levels[:, 0] + np.sin(2 * levels[:, 1])
    return dataclasses.replace(target, features=np.hstack([target.features, levels]), gaps_eV=gaps)


def test_levels_behind_the_features_are_learned_from(source_of, target):
    data = with_levels(target)
    posterior = fit(source_of(), data, QUICK, Fitting(0, device="cpu"))
    blind = fit(
        source_of(),
        dataclasses.replace(data, features=target.features),
        QUICK,
        Fitting(0, device="cpu"),
    )
    assert posterior.theta.shape[1] == blind.theta.shape[1] + 2
    new = np.random.default_rng(8).normal(size=(200, 8)).astype(np.float32)
    y = np.tanh(new[:, 0]) + 0.5 * new[:, 1] + 2.0 * new[:, 5] + np.sin(2 * new[:, 6])
    draws = posterior.predictive_draws(new)
    without = blind.predictive_draws(new[:, :5])
    error, worse = (np.sqrt(np.mean((d.centres_eV.mean(0) - y) ** 2)) for d in (draws, without))
    assert error < 0.5 * worse
    u = stats.norm.cdf((y - draws.centres_eV) / draws.sds_eV).mean(0)
    assert 0.85 < np.mean((u > 0.025) & (u < 0.975)) <= 1.0


def test_two_ways_to_compute_levels_have_kernels_of_their_own(source_of, target):
    data = with_levels(target)
    second = np.random.default_rng(9).normal(size=(len(data.gaps_eV), 3)).astype(np.float32)
    both = dataclasses.replace(data, features=np.hstack([data.features, second]))
    one_way, two_ways = (
        fit(source_of(), rows, QUICK, Fitting(0, device="cpu")) for rows in (data, both)
    )
    # A linear and a smooth kernel for each way.
    assert two_ways.theta.shape[1] == one_way.theta.shape[1] + 2
    first = one_way.problem.kernels.grams[-2:]
    np.testing.assert_allclose(two_ways.problem.kernels.grams[-4:-2], first)
    centres, variances = two_ways.conditional(both.features)
    assert np.isfinite(centres).all() and (variances >= 0).all()
