"""Compiled evaluation of draws against the network in float64, and the cache of layers."""

import weakref
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import NetworkPosterior, layer_cache
from bandgap.posterior.network import normal_draw


def posterior_of(p=37, widths=(13, 6, 1), *, rank=5, chains=2, draws=3, seed=0, spread=1.0):
    """Draws of a network of odd sizes on features that are mostly zero."""
    g = torch.Generator().manual_seed(seed)
    inputs = (p, *widths[:-1])
    basis = (
        torch.linalg.qr(torch.randn(p + 1, rank, generator=g))[0] if rank else torch.zeros(p + 1, 0)
    )
    upper = tuple(
        torch.randn(chains, draws, width, before + 1, generator=g) / before**0.5
        for width, before in zip(widths[1:], inputs[1:], strict=True)
    )
    return NetworkPosterior(
        standardiser=Standardiser(
            np.linspace(0.0, 3.0, p), np.linspace(0.4, 2.0, p) * spread, 4.0, 1.3
        ),
        theta_hat_1=torch.randn(widths[0], p + 1, generator=g) / p**0.5,
        basis=basis,
        coordinates=torch.randn(chains, draws, widths[0], rank, generator=g) / p**0.5,
        scale_1=torch.tensor([[0.1, 0.0, 0.3]] * chains)[:, :draws],
        upper=upper,
        sigma=np.ones((chains, draws)),
        seed=seed,
    )


def features_of(n, p, *, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 3.0, (n, p)) * (rng.uniform(size=(n, p)) < 0.3)).astype(np.float32)


def float64_draws_eV(posterior, features):
    """Return the draws in float64 by the definition, layer by layer."""
    x = torch.from_numpy(
        np.hstack([posterior.standardiser.features(features), np.ones((len(features), 1))])
    )
    basis = posterior.basis.double()
    outputs = np.empty((posterior.n_chains, posterior.n_draws, len(features)))
    for chain in range(posterior.n_chains):
        for draw in range(posterior.n_draws):
            noise = normal_draw(posterior.seed, chain, draw, posterior.theta_hat_1.shape).double()
            outside = noise - noise @ basis @ basis.T
            moved = (
                posterior.coordinates[chain, draw].double() @ basis.T
                + float(posterior.scale_1[chain, draw]) * outside
            )
            pre = x @ (posterior.theta_hat_1.double() + moved).T
            for layer in posterior.upper:
                h = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=1.0)
                pre = h @ layer[chain, draw].double().T
            outputs[chain, draw] = pre[:, 0].numpy()
    return posterior.standardiser.gaps_eV(outputs)


@pytest.mark.parametrize(
    "widths", ((13, 6, 1), (8, 4, 1), (5, 1), (1,), (7, 9, 3, 1), (48, 33, 1)), ids=str
)
@pytest.mark.parametrize("p", (3, 36, 37))
def test_draws_are_those_of_the_network_in_float64(widths, p):
    posterior = posterior_of(p, widths, rank=min(p, 4))
    features = features_of(11, p)
    expected = float64_draws_eV(posterior, features)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(posterior.mean_draws_eV(features), expected, atol=2e-5, rtol=2e-6)


def assert_equal_eV(draws, expected):
    """Compare draws to 1e-6 eV, the last digit of printed predictions."""
    np.testing.assert_allclose(draws, expected, rtol=0, atol=1e-6)


@pytest.fixture
def empty_cache(monkeypatch):
    """An empty cache of layers with the default limits."""
    monkeypatch.setattr(layer_cache, "_CACHE", weakref.WeakKeyDictionary())
    monkeypatch.setattr(layer_cache, "LIMITS", layer_cache.Limits())
    return layer_cache


@pytest.mark.parametrize("n_cached_draws", [0, 1, 4])
def test_layers_that_exceed_the_memory_are_not_cached_and_give_the_same_draws(
    n_cached_draws, empty_cache
):
    features = features_of(9, 37)
    all_cached = posterior_of()
    expected = all_cached.mean_draws_eV(features)
    n_layers = all_cached.n_chains * all_cached.n_draws
    bytes_of_draw = empty_cache._CACHE.pop(all_cached).n_bytes // n_layers
    empty_cache.LIMITS.n_bytes = n_cached_draws * bytes_of_draw
    posterior = posterior_of()
    for rows in (range(9), [4], range(3, 9), range(9)):
        draws = posterior.mean_draws_eV(features[rows])
        assert_equal_eV(draws, expected[..., rows])
        assert empty_cache._CACHE[posterior].n_bytes <= empty_cache.LIMITS.n_bytes
    assert len(empty_cache._CACHE[posterior].layers) == n_cached_draws


@pytest.mark.parametrize(
    ("share", "n_features"), [(1.0, 36), (0.3, 48)], ids=["wide groups", "narrow groups"]
)
def test_layers_have_the_features_of_whole_groups(share, n_features, empty_cache):
    posterior = posterior_of(90)
    features = features_of(6, 90)
    features[:, 36:] = 0.0
    empty_cache.LIMITS.n_bytes = int(share * posterior._n_bytes)
    for start in (4, 28):
        part = np.zeros_like(features)
        part[:, start : start + 8] = features[:, start : start + 8]
        posterior.mean_draws_eV(part)
    is_stored = empty_cache._CACHE[posterior].is_stored
    assert is_stored.nonzero()[0].tolist() == list(range(n_features))


def test_evaluation_without_the_cache_stores_no_layers_and_agrees_to_rounding(empty_cache):
    posterior = posterior_of()
    features = features_of(9, 37)
    with empty_cache.without_layer_cache():
        uncached = posterior.mean_draws_eV(features)
    assert posterior not in empty_cache._CACHE
    np.testing.assert_allclose(uncached, posterior.mean_draws_eV(features), atol=2e-5)
    n_layers = posterior.n_chains * posterior.n_draws
    assert len(empty_cache._CACHE[posterior].layers) == n_layers


def test_features_whose_zero_is_far_from_their_mean_keep_their_digits():
    """Means of 20 standard deviations: as differences from zero, sums would lose two digits."""
    posterior = posterior_of(spread=0.1)
    features = features_of(9, 37) + 1.0
    np.testing.assert_allclose(
        posterior.mean_draws_eV(features),
        float64_draws_eV(posterior, features),
        rtol=3e-6,
        atol=3e-5,
    )


@pytest.mark.parametrize("widths", ((13, 6, 1), (48, 33, 1)), ids=str)
def test_draws_of_a_structure_do_not_depend_on_the_other_structures(widths):
    posterior = posterior_of(widths=widths)
    features = features_of(50, 37)
    draws = posterior.mean_draws_eV(features)
    for rows in ([7], [7, 8], [49, 7, 3], list(range(1, 50)), list(range(50))[::-1]):
        assert_equal_eV(posterior.mean_draws_eV(features[rows]), draws[..., rows])


def test_row_that_is_not_finite_gives_nan_and_does_not_change_the_others():
    posterior = posterior_of()
    features = features_of(6, 37)
    expected = posterior.mean_draws_eV(features)
    features[2, 5] = np.nan
    draws = posterior.mean_draws_eV(features)
    assert np.isnan(draws[..., 2]).all()
    np.testing.assert_array_equal(np.delete(draws, 2, axis=2), np.delete(expected, 2, axis=2))


class Owner:
    """Something that has layers."""


class Layers(NamedTuple):
    """Layers of 60 bytes that say what they were computed for."""

    chain: int
    draw: int
    is_stored: list[bool]
    n_bytes: int = 60


@pytest.fixture
def layer_of(empty_cache, monkeypatch):
    """Ask the cache, with memory for one draw and groups of one feature, for layers of a draw."""
    monkeypatch.setattr(empty_cache, "WIDE_GROUP", 1)
    monkeypatch.setattr(empty_cache, "NARROW_GROUP", 1)
    empty_cache.LIMITS.n_bytes = 100
    computed = []

    def compute(chain, draw, is_stored):
        computed.append(draw)
        return Layers(chain, draw, is_stored.tolist())

    def ask(owner, draw, is_used=(True, False)):
        layers, _ = empty_cache.cached_layers(owner, compute, is_used=np.array(is_used), n_bytes=60)
        return layers(0, draw)

    return ask, computed


def test_cached_layers_are_computed_once_until_a_structure_has_another_feature(layer_of):
    ask, computed = layer_of
    owner = Owner()
    for _ in range(2):
        assert ask(owner, 1).is_stored == [True, False]
    assert computed == [1]
    for is_used in ((False, True), (True, False)):
        assert ask(owner, 1, is_used).is_stored == [True, True]
    assert computed == [1, 1]


def test_memory_of_cached_layers_is_freed_with_their_owner(layer_of):
    ask, computed = layer_of
    first = Owner()
    second = Owner()
    ask(first, 1)
    for _ in range(2):
        ask(second, 2)
    assert computed == [1, 2, 2]
    del first
    for _ in range(2):
        ask(second, 3)
    assert computed == [1, 2, 2, 3]


def test_changed_posterior_does_not_use_cached_layers_of_the_original():
    posterior = posterior_of()
    features = features_of(4, 37)
    original = posterior.mean_draws_eV(features)
    changed = replace(posterior, theta_hat_1=posterior.theta_hat_1 * 2.0)
    assert np.abs(original - changed.mean_draws_eV(features)).max() > 0.01
