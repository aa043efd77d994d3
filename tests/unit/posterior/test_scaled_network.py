"""Draws of a first layer with its own standard deviations: exact at the training rows, the prior's
law elsewhere.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import ScaledNetworkPosterior
from bandgap.posterior.network import first_layer_coordinates

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
WIDTH = 3
P = 6
N = 4
DRAWS = 4000
SEED = 7
RNG = np.random.default_rng(0)
THETA = torch.from_numpy(RNG.normal(size=(WIDTH, P + 1))).float()
SD = torch.from_numpy(np.exp(0.7 * RNG.normal(size=(WIDTH, P + 1)))).float()
X = torch.from_numpy(np.hstack([RNG.normal(size=(N, P)), np.ones((N, 1))])).float()
NEW = torch.from_numpy(np.hstack([RNG.normal(size=(2, P)), np.ones((2, 1))])).float()
BASIS = torch.linalg.svd(X.double(), full_matrices=False)[2].T.float()


def first_layers(coordinates, *, scale=1.0, basis=BASIS):
    """S z of every draw, (draw, width, p + 1), read off a posterior at inputs that are unit
    vectors.
    """
    posterior = posterior_of(coordinates, scale=scale, basis=basis)
    first = posterior.first_layer(torch.eye(P + 1))
    draws = torch.stack([first(0, i).T for i in range(coordinates.shape[1])])
    return (draws - THETA) / scale


def posterior_of(coordinates, *, scale=1.0, basis=BASIS):
    chains, draws = coordinates.shape[:2]
    upper = torch.ones(chains, draws, 1, WIDTH + 1)
    return ScaledNetworkPosterior(
        standardiser=Standardiser(np.zeros(P), np.ones(P), 3.0, 0.5),
        theta_hat_1=THETA,
        sd_1=SD,
        basis=basis,
        coordinates=coordinates,
        scale_1=torch.full((chains, draws), scale),
        upper=(upper,),
        sigma=np.full((chains, draws), 0.2),
        seed=SEED,
        layer_weights=np.full((chains, draws, 2), 0.5),
        tau=np.full((chains, draws), 0.1),
    )


def coordinates_of(displacement):
    return first_layer_coordinates(displacement, sd_1=SD, basis=BASIS, seed=SEED)


def test_draws_have_the_sampled_values_at_the_training_rows():
    displacement = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 20, WIDTH, N))).float()
    weights = first_layers(coordinates_of(displacement), scale=1.3)
    torch.testing.assert_close(weights @ BASIS, displacement[0], rtol=0, atol=2e-5)


def test_new_inputs_have_the_conditional_normal_given_the_training_rows():
    """One displacement for all draws: mean and variance at new inputs are those of conditioning
    N(0, X S^2 X').
    """
    displacement = torch.from_numpy(np.random.default_rng(3).normal(size=(WIDTH, N))).float()
    outputs = (
        first_layers(coordinates_of(displacement.expand(1, DRAWS, WIDTH, N))) @ NEW.T
    ).double()
    for unit in range(WIDTH):
        s2 = torch.diag(SD[unit].double() ** 2)
        rows = BASIS.double().T
        new = NEW.double()
        gain = new @ s2 @ rows.T @ torch.linalg.inv(rows @ s2 @ rows.T)
        mean = gain @ displacement[unit].double()
        covariance = new @ s2 @ new.T - gain @ rows @ s2 @ new.T
        whitened = torch.linalg.solve_triangular(
            torch.linalg.cholesky(covariance), (outputs[:, unit] - mean).T, upper=False
        )
        assert stats.kstest(whitened.flatten().numpy(), "norm").pvalue > FALSE_ALARM / WIDTH


def test_without_a_basis_draws_are_those_of_independent_normals():
    empty = torch.zeros(P + 1, 0)
    weights = first_layers(torch.zeros(1, 500, WIDTH, 0), scale=0.8, basis=empty) / SD
    assert stats.kstest(weights.flatten().numpy(), "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "r", [N, P + 1], ids=["fewer rows than inputs", "as many directions as inputs"]
)
def test_full_row_space_determines_the_draws(r):
    basis = torch.linalg.qr(torch.from_numpy(np.random.default_rng(4).normal(size=(P + 1, r))))[
        0
    ].float()
    z = torch.from_numpy(np.random.default_rng(5).normal(size=(1, 5, WIDTH, P + 1))).float()
    coordinates = first_layer_coordinates((SD * z) @ basis, sd_1=SD, basis=basis, seed=SEED)
    same = torch.isclose(first_layers(coordinates, basis=basis), SD * z[0], rtol=0, atol=2e-5)
    assert bool(same.all()) is (r == P + 1)
