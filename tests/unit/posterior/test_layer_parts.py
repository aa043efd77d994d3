"""The part of each layer in the correction of the source's network, on cases with known answers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import Params, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import NetworkPosterior, mix
from bandgap.posterior.layer_parts import layer_correction, subset_outputs_eV

P = 6
WIDTHS = (P, 5, 4, 1)
DRAWS = 60
N = 80


@pytest.fixture(scope="module")
def source() -> Params:
    generator = torch.Generator().manual_seed(1)
    params: Params = {}
    for i, (inputs, outputs) in enumerate(pairwise(WIDTHS), start=1):
        params[f"weight.{i}"] = torch.randn(outputs, inputs, generator=generator)
        params[f"bias.{i}"] = torch.randn(outputs, generator=generator)
    return params


def features(seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, P))


def posterior_of(source: Params, *, moved: dict[int, float], spread: float, seed: int):
    """A posterior whose layers (1 to 3) are moved by random weights of this size, with a spread."""
    generator = torch.Generator().manual_seed(seed)
    layers = layers_of(source)
    means = [
        layer + moved.get(i, 0.0) * torch.randn(layer.shape, generator=generator)
        for i, layer in enumerate(layers, start=1)
    ]
    drawn = [m + spread * torch.randn((1, DRAWS, *m.shape), generator=generator) for m in means]
    return NetworkPosterior(
        standardiser=Standardiser(np.zeros(P), np.ones(P), 2.0, 0.5),
        theta_hat_1=layers[0],
        basis=torch.eye(P + 1),
        coordinates=drawn[0] - layers[0],
        scale_1=torch.zeros(1, DRAWS),
        upper=tuple(drawn[1:]),
        sigma=np.ones((1, DRAWS)),
        seed=0,
        layer_weights=np.full((1, DRAWS, 3), 1 / 3),
    )


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_one_moved_layer_makes_the_whole_correction(source: Params, layer: int) -> None:
    posterior = posterior_of(source, moved={layer: 0.5}, spread=0.0, seed=3)
    gaps = posterior.mean_draws_eV(features()).mean(axis=(0, 1))
    correction = layer_correction(posterior, [source], features(), gaps, seed=0)
    assert correction is not None
    mean, low, high = correction.layers_eV[layer - 1]
    assert mean == pytest.approx(correction.needed_eV, rel=1e-5)  # single precision
    assert 0 < low < mean < high
    other_parts = [part for i, part in enumerate(correction.layers_eV, start=1) if i != layer]
    np.testing.assert_allclose(other_parts, 0.0, atol=1e-6)


def test_parts_of_the_layers_add_to_the_correction_that_is_made(source: Params) -> None:
    posterior = posterior_of(source, moved={1: 0.3, 2: 0.3, 3: 0.3}, spread=0.1, seed=4)
    outputs = subset_outputs_eV(posterior, layers_of(source), features())
    np.testing.assert_allclose(outputs[:, -1], posterior.mean_draws_eV(features())[0], atol=1e-5)
    gaps = outputs[:, -1].mean(axis=0)
    correction = layer_correction(posterior, [source], features(), gaps, seed=0)
    assert correction is not None
    total = sum(part[0] for part in correction.layers_eV)
    assert total == pytest.approx(correction.made_eV[0])
    assert correction.made_eV[0] == pytest.approx(correction.needed_eV, rel=0.05)


def test_where_only_noise_was_learned_intervals_contain_zero(source: Params) -> None:
    """Gaps are the source's with noise, and the posterior has moved by other noise.

    In 200 cases at most 24 intervals of 95 % are expected to miss zero (false alarm below 1e-4).
    """
    x = features()
    start = posterior_of(source, moved={}, spread=0.0, seed=0).mean_draws_eV(x)[0, 0]
    missed = np.zeros(3, dtype=int)
    for seed in range(200):
        posterior = posterior_of(source, moved={1: 0.1, 2: 0.1, 3: 0.1}, spread=0.1, seed=seed)
        noise = np.random.default_rng(seed).normal(0.0, 0.3, N)
        correction = layer_correction(posterior, [source], x, start + noise, seed=seed)
        assert correction is not None
        missed += [low > 0 or high < 0 for _, low, high in correction.layers_eV]
    assert missed.max() <= 24


def test_a_mixture_has_the_draws_of_all_members_and_other_posteriors_have_no_layers(
    source: Params,
) -> None:
    members = [posterior_of(source, moved={3: 0.5}, spread=0.0, seed=k) for k in (5, 6)]
    gaps = [m.mean_draws_eV(features()).mean(axis=(0, 1)) for m in members]
    both = layer_correction(mix(members), [source, source], features(), gaps[0], seed=0)
    one = layer_correction(members[0], [source], features(), gaps[0], seed=0)
    assert both is not None and one is not None
    assert both.layers_eV[2][0] < one.layers_eV[2][0]
    plain = replace(members[0], layer_weights=None)
    assert layer_correction(plain, [source], features(), gaps[0], seed=0) is None
