"""Predictions from draws: the orthogonal part follows the prior, and nothing depends on what else
is predicted.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.networks.perceptron import forward
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import (
    Diagnostics,
    LastLayerPosterior,
    NetworkPosterior,
    mix,
)
from bandgap.posterior.network import ROWS_PER_BLOCK, normal_draw

FALSE_ALARM = 1e-6  # of every statistical test here; seeds are fixed
P = 6
RANK = 3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def basis():
    """Three orthonormal directions among the seven inputs, the constant one included."""
    wide = torch.randn(P + 1, RANK, generator=generator(1), dtype=torch.float64)
    return torch.linalg.qr(wide).Q.float()


def linear_posterior(basis, *, draws=4000, scale=0.7, seed=3):
    """A network of one linear layer, f(x) = theta'(x, 1), with its row-space coordinates fixed at
    zero.
    """
    return NetworkPosterior(
        standardiser=Standardiser(np.zeros(P), np.ones(P), 0.0, 1.0),
        theta_hat_1=torch.randn(1, P + 1, generator=generator(2)),
        basis=basis,
        coordinates=torch.zeros(1, draws, 1, RANK),
        scale_1=torch.full((1, draws), scale),
        upper=(),
        sigma=np.ones((1, draws)),
        seed=seed,
    )


def network_posterior(basis, *, seed=3):
    """Two chains of five draws of a 6-4-2-1 network with scales of gaps and features."""
    shape = (2, 5)
    return NetworkPosterior(
        standardiser=Standardiser(np.arange(P) / 2.0, np.linspace(0.5, 2.0, P), 4.0, 1.5),
        theta_hat_1=torch.randn(4, P + 1, generator=generator(4)),
        basis=basis,
        coordinates=0.3 * torch.randn(*shape, 4, RANK, generator=generator(5)),
        scale_1=torch.rand(shape, generator=generator(6)),
        upper=(
            torch.randn(*shape, 2, 5, generator=generator(7)),
            torch.randn(*shape, 1, 3, generator=generator(8)),
        ),
        sigma=np.linspace(0.1, 0.4, 10).reshape(shape),
        seed=seed,
        layer_weights=np.full((2, 5, 3), 1 / 3),
        tau=np.full((2, 5), 0.2),
        layer_sensitivity=np.array([5.0, 2.0, 1.0]),
        diagnostics=Diagnostics({"rhat_max": 1.01}, ("a sentence",)),
    )


def rows(n, seed=11):
    return np.random.default_rng(seed).normal(size=(n, P))


def test_variance_outside_the_row_space_is_that_of_the_prior(basis):
    """Var f(x) = scale^2 |x_perp|^2: a chi-squared variable times that, over 4000 draws."""
    posterior = linear_posterior(basis)
    x = rows(4)
    wide = np.hstack([x, np.ones((4, 1))])
    outside = wide - wide @ basis.double().numpy() @ basis.double().numpy().T
    expected = 0.7**2 * (outside**2).sum(axis=1)
    values = posterior.mean_draws_eV(x)[0]
    centre = wide @ posterior.theta_hat_1.double().numpy()[0]
    ratio = ((values - centre) ** 2).sum(axis=0) / expected
    low, high = stats.chi2(4000).ppf([FALSE_ALARM / 8, 1 - FALSE_ALARM / 8])
    assert ((ratio > low) & (ratio < high)).all()
    score = (values[:, 0] - centre[0]) / np.sqrt(expected[0])
    assert stats.kstest(score, "norm").pvalue > FALSE_ALARM


def test_nothing_is_drawn_inside_the_row_space(basis):
    posterior = linear_posterior(basis)
    inside = (torch.randn(3, RANK, generator=generator(9)) @ basis.T).double().numpy()
    x = inside[:, :-1] / inside[:, -1:]  # so that the constant input is 1
    values = posterior.mean_draws_eV(x)[0]
    assert (values.std(axis=0) < 1e-5 * np.linalg.norm(x, axis=1)).all()


def test_draws_of_some_rows_are_those_of_a_request_for_them_alone(basis):
    x = rows(9)
    members = [last_layer_posterior(draws=5), network_posterior(basis)]
    for posterior in (*members, mix(members)):
        together = posterior.predictive_draws(x).of_rows(slice(2, 5))
        alone = posterior.predictive_draws(x[2:5])
        for name in ("means_eV", "centres_eV", "sds_eV"):
            expected = getattr(alone, name)
            np.testing.assert_allclose(getattr(together, name), expected, rtol=0, atol=1e-6)


def test_blocks_of_structures_make_no_difference(basis):
    posterior = network_posterior(basis)
    x = rows(ROWS_PER_BLOCK + 3)
    np.testing.assert_allclose(
        posterior.mean_draws_eV(x)[..., -3:], posterior.mean_draws_eV(x[-3:]), atol=1e-5
    )


def test_predictions_are_those_of_the_network_with_full_weights(basis):
    """Draw 3 of chain 1, its first layer put together, evaluated by hand."""
    posterior = network_posterior(basis)
    x = rows(4)
    noise = normal_draw(posterior.seed, 1, 3, posterior.theta_hat_1.shape)
    first = (
        posterior.theta_hat_1
        + posterior.coordinates[1, 3] @ basis.T
        + posterior.scale_1[1, 3] * (noise - noise @ basis @ basis.T)
    ).double()
    h = torch.from_numpy(
        np.hstack(
            [(x - posterior.standardiser.x_mean) / posterior.standardiser.x_scale, np.ones((4, 1))]
        )
    )
    h = torch.relu(h @ first.T)
    for k, layer in enumerate(posterior.upper):
        weight = layer[1, 3].double()
        h = h @ weight[:, :-1].T + weight[:, -1]
        h = torch.relu(h) if k == 0 else h
    np.testing.assert_allclose(
        posterior.mean_draws_eV(x)[1, 3], 4.0 + 1.5 * h[:, 0].numpy(), rtol=1e-4, atol=1e-4
    )


def last_layer_posterior(*, seed=0, draws=4, warnings=()):
    """A 6-3-2-1 network with draws of its output layer and scales of gaps and features."""
    rng = np.random.default_rng(seed)
    shapes = {"weight.1": (3, P), "bias.1": (3,), "weight.2": (2, 3), "bias.2": (2,)}
    return LastLayerPosterior(
        standardiser=Standardiser(np.arange(P) / 2.0, np.linspace(0.5, 2.0, P), 4.0, 1.5),
        hidden={name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        output=rng.normal(size=(2, draws, 3)),
        sigma=rng.uniform(0.1, 0.4, size=(2, draws)),
        seed=seed,
        diagnostics=Diagnostics(
            {"rhat_max": 1.0 + 0.01 * seed, "ess_min": 10.0 + seed, "divergences": 1.0}, warnings
        ),
    )


def test_last_layer_draws_are_those_of_the_network_with_that_output_layer():
    posterior = last_layer_posterior()
    x = rows(7)
    scaled = torch.from_numpy(posterior.standardiser.features(x)).float()
    for chain, draw in ((0, 0), (1, 3)):
        weights = torch.from_numpy(posterior.output[chain, draw]).float()
        hidden = {name: torch.from_numpy(value) for name, value in posterior.hidden.items()}
        params = {**hidden, "weight.3": weights[None, :-1], "bias.3": weights[-1:]}
        expected = posterior.standardiser.gaps_eV(forward(params, scaled).numpy())
        np.testing.assert_allclose(posterior.mean_draws_eV(x)[chain, draw], expected, atol=1e-5)


def test_mixture_contains_the_draws_of_all_members(basis):
    members = [last_layer_posterior(seed=0, draws=5), network_posterior(basis)]
    both = mix(members)
    x = rows(6)
    draws = both.predictive_draws(x)
    parts = [m.predictive_draws(x) for m in members]
    assert (both.n_chains, both.n_draws, both.n_members) == (4, 5, 2)
    assert (draws.means_eV == np.concatenate([p.means_eV for p in parts])).all()
    assert (draws.means_eV == both.mean_draws_eV(x)).all()
    assert (draws.sds_eV == np.concatenate([p.sds_eV for p in parts])[:, None]).all()
    assert set(both.summaries()) == {"sigma_eV"}  # the only one that both have


def test_mixture_has_the_worst_figures_and_the_warnings_of_its_members():
    both = mix(
        [last_layer_posterior(seed=0), last_layer_posterior(seed=1, warnings=("not there yet.",))]
    )
    assert both.diagnostics.figures == {"rhat_max": 1.01, "ess_min": 10.0, "divergences": 2.0}
    assert both.diagnostics.warnings == ("Source network 2 of 2: not there yet.",)
