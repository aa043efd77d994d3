"""Damped L-BFGS products and factors against dense recursions, which exist here alone."""

import numpy as np
import pytest
import torch

from bandgap.research.stochastic_gradient.gradients import Slopes
from bandgap.research.stochastic_gradient.hamcmc_sa import (
    HamcmcSaConfig,
    average_metric,
    init,
    snapshot_factors,
    step,
    with_matrix,
)
from bandgap.research.stochastic_gradient.lbfgs import (
    Pairs,
    factor,
    inverse_times,
    no_pairs,
    root_times,
)
from bandgap.research.stochastic_gradient.outcomes import RunConfig
from bandgap.research.stochastic_gradient.run import sample
from tests.research.stochastic_gradient.linear_laws import WholeTarget

D = 7
M = 3
DELTA = 1.5
R = 0.25


def curvature(dim=D, seed=0):
    """A Hessian of the negative log posterior with eigenvalues from 0.5 to 20."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    return q @ np.diag(np.geomspace(0.5, 20, dim)) @ q.T


def pairs_of(kind, *, chains=4, dtype=torch.float64):
    """Pairs of a quadratic, of noisy gradients, and of noise alone (of any curvature)."""
    rng = np.random.default_rng(1)
    s = rng.normal(size=(chains, M, D))
    exact = s @ curvature()
    y = {
        "exact": exact,
        "noisy": exact + 3 * rng.normal(size=s.shape),
        "noise": rng.normal(size=s.shape),
    }[kind]
    return Pairs(torch.from_numpy(s).to(dtype), torch.from_numpy(y).to(dtype))


def dense(s, y, *, delta=DELTA, r=R):
    """G = B^-1 of pairs (M, D), oldest first, by the BFGS recursion, and which are damped."""
    sy = float(s[-1] @ y[-1])
    gamma = max(float(y[-1] @ y[-1]) / sy, delta) if sy > 0 else delta
    g = np.eye(len(s[0])) / gamma
    b0 = gamma * np.eye(len(s[0]))
    damped = []
    for step_, change in zip(s, y, strict=True):
        sbs = step_ @ b0 @ step_
        sy = step_ @ change
        theta = (1 - r) * sbs / (sbs - sy) if sy < r * sbs else 1.0
        bar = theta * change + (1 - theta) * b0 @ step_
        damped.append(theta != 1.0)
        assert step_ @ bar == pytest.approx(max(sy, r * gamma * step_ @ step_), rel=1e-12)
        projection = np.eye(len(step_)) - np.outer(step_, bar) / (step_ @ bar)
        g = projection @ g @ projection.T + np.outer(step_, step_) / (step_ @ bar)
    return g, damped


KINDS = ("exact", "noisy", "noise")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_products_and_factors_are_those_of_the_dense_matrix(kind, dtype, tolerance):
    f = factor(pairs_of(kind, dtype=dtype), delta=DELTA, r=R)
    eye = torch.eye(D, dtype=dtype)
    g = torch.stack([inverse_times(f, e.expand(4, D)) for e in eye], -1).double().numpy()
    root = torch.stack([root_times(f, e.expand(4, D)) for e in eye], -1).double().numpy()
    wide = pairs_of(kind)
    for chain in range(4):
        expected = dense(wide.s[chain].numpy(), wide.y[chain].numpy())[0]
        scale = 1.0 if dtype == torch.float64 else np.abs(expected).max()
        assert np.abs(g[chain] - expected).max() <= tolerance * scale
        assert np.abs(root[chain] @ root[chain].T - expected).max() <= tolerance * scale


def test_share_of_damped_pairs_is_that_of_the_reference():
    pairs = pairs_of("noise")
    expected = [
        np.mean(dense(s, y)[1]) for s, y in zip(pairs.s.numpy(), pairs.y.numpy(), strict=True)
    ]
    damped = factor(pairs, delta=DELTA, r=R).damped
    np.testing.assert_allclose(damped.numpy(), expected)
    assert 0 < np.mean(expected) < 1


def test_factor_is_unchanged_by_a_pair_without_new_curvature():
    """With ybar = B s, S+ = S: one pair whose y is gamma s leaves the root of the identity."""
    s = torch.from_numpy(np.random.default_rng(2).normal(size=(1, 1, D)))
    z = torch.from_numpy(np.random.default_rng(3).normal(size=(1, D)))
    f = factor(Pairs(s, 4.0 * s), delta=DELTA)
    np.testing.assert_allclose(root_times(f, z), z / 2.0, atol=1e-14)


def test_memory_that_is_not_full_gives_the_matrix_of_its_pairs():
    full = pairs_of("noisy")
    pairs = no_pairs(torch.zeros(4, D, dtype=torch.float64), M)
    for i in range(2):
        pairs = pairs.pushed(full.s[:, i], full.y[:, i])
    f = factor(pairs, delta=DELTA, r=R)
    v = torch.ones(4, D, dtype=torch.float64)
    for chain in range(4):
        g = dense(full.s[chain, :2].numpy(), full.y[chain, :2].numpy())[0]
        np.testing.assert_allclose(inverse_times(f, v)[chain], g @ np.ones(D), atol=1e-12)


def test_step_that_is_too_short_makes_no_pair():
    full = pairs_of("exact")
    same = full.pushed(
        torch.full((4, D), 1e-14, dtype=torch.float64), torch.ones(4, D, dtype=torch.float64)
    )
    assert (same.s == full.s).all() and (same.y == full.y).all()


def average_of(config, count):
    """An average with `count` matrices of 4 chains, and the dense G_k by its recursion."""
    state = init(config, torch.zeros(4, D, dtype=torch.float64))
    average = state.average
    g = np.eye(D) / config.least_curvature
    for k in range(1, count + 1):
        rng = np.random.default_rng(100 + k)
        s = rng.normal(size=(4, config.memory, D))
        y = s @ curvature(seed=k) + 2 * rng.normal(size=s.shape)
        average = with_matrix(config, average, Pairs(torch.from_numpy(s), torch.from_numpy(y)))
        new = np.mean([dense(s[c], y[c], delta=config.least_curvature)[0] for c in range(4)], 0)
        g = (1 - config.omega_at(k)) * g + config.omega_at(k) * new
    return average, g


@pytest.mark.parametrize("count", [0, 1, 5])
def test_average_metric_is_the_mean_over_chains_by_stochastic_approximation(count):
    config = HamcmcSaConfig(0.1, memory=2, least_curvature=DELTA)
    average, expected = average_of(config, count)
    metric = average_metric(config, average, snapshot_factors(config, average))
    eye = torch.eye(D, dtype=torch.float64)
    np.testing.assert_allclose(metric.times(eye), expected, atol=1e-10)
    root = metric.root_times(eye).numpy().T
    np.testing.assert_allclose(root @ root.T, expected, atol=1e-10)
    assert float(average.weights.sum() + average.first) == pytest.approx(1.0)


def test_oldest_matrix_passes_its_weight_to_the_next():
    config = HamcmcSaConfig(0.1, memory=2, snapshots=3)
    average, _ = average_of(config, 7)
    omegas = [config.omega_at(k) for k in range(1, 8)]
    exact = [w * np.prod([1 - later for later in omegas[i + 1 :]]) for i, w in enumerate(omegas)]
    np.testing.assert_allclose(average.weights, [sum(exact[:5]), exact[5], exact[6]])
    assert float(average.first) == pytest.approx(np.prod([1 - w for w in omegas]))


def test_average_in_more_dimensions_than_its_pairs_span():
    """G = c I + low rank, in float32, against the sum of two-loop products."""
    config = HamcmcSaConfig(0.1, memory=2, snapshots=2)
    dim = 60
    rng = np.random.default_rng(0)
    average = init(config, torch.zeros(3, dim)).average
    for _ in range(3):
        s = torch.from_numpy(rng.normal(size=(3, 2, dim))).float()
        average = with_matrix(config, average, Pairs(s, s * torch.linspace(0.5, 9.0, dim)))
    f = snapshot_factors(config, average)
    v = torch.from_numpy(rng.normal(size=dim)).float()
    metric = average_metric(config, average, f)
    assert metric.basis.shape[1] <= 2 * 2 * 2 * 3 < dim
    products = inverse_times(f, v)  # (J, chain, dim)
    expected = (average.weights[:, None, None] * products).mean(1).sum(
        0
    ) + average.first / config.least_curvature * v
    np.testing.assert_allclose(metric.times(v), expected, rtol=2e-4, atol=2e-5)
    root = metric.root_times(torch.eye(dim)).T
    np.testing.assert_allclose(root @ (root.T @ v), metric.times(v), rtol=2e-4, atol=2e-5)


def test_gradient_of_the_wrong_sign_gives_a_warning():
    """A target whose gradient points away from its mode for small moves: every pair is damped."""
    config = HamcmcSaConfig(1e-3, regularise=0.0, every=5)
    start = torch.randn(4, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hill = WholeTarget(lambda x: x)
    _, info = sample(hill, config, start, config=RunConfig(60, 20, 20), seed=0)
    assert info.damped_share > 0.9
    assert [w.kind for w in info.warnings] == ["damped pairs"]
    _, right = sample(
        WholeTarget(lambda x: -3 * x), config, start, config=RunConfig(60, 20, 20), seed=0
    )
    assert right.damped_share == 0 and right.warnings == ()


def slopes_of_a_normal(x):
    return Slopes(-x, -x)


def normals_of(generator):
    return lambda: torch.randn(4, D, generator=generator, dtype=torch.float64)


def test_average_gets_one_matrix_at_every_third_step():
    config = HamcmcSaConfig(0.05, every=3)
    state = init(config, torch.ones(4, D, dtype=torch.float64))
    normals = normals_of(torch.Generator().manual_seed(0))
    counts = []
    for _ in range(7):
        state, _ = step(config, state, slopes_of_a_normal, normals, h=0.05, adapt=True)
        counts.append(int(state.average.count))
    assert counts == [0, 0, 1, 1, 1, 2, 2]


def test_frozen_metric_never_changes_again():
    config = HamcmcSaConfig(0.05, every=2)
    state = init(config, torch.ones(4, D, dtype=torch.float64))
    normals = normals_of(torch.Generator().manual_seed(0))
    for _ in range(6):
        state, _ = step(config, state, slopes_of_a_normal, normals, h=0.05, adapt=True)
    frozen, _ = step(config, state, slopes_of_a_normal, normals, h=0.05, adapt=False)
    assert frozen.metric is state.metric and int(state.average.count) == 3
