"""Compiled evaluation of draws beside the plain network in float64, and its independence of the other rows."""

import os
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import NetworkPosterior, held_layers
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


def plainly_eV(posterior, features):
    """The same in float64 by the definition, layer by layer."""
    x = torch.from_numpy(
        np.hstack([posterior.standardiser.features(features), np.ones((len(features), 1))])
    )
    basis = posterior.basis.double()
    found = np.empty((posterior.n_chains, posterior.n_draws, len(features)))
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
            found[chain, draw] = pre[:, 0].numpy()
    return posterior.standardiser.gaps_eV(found)


@pytest.mark.parametrize(
    "widths", ((13, 6, 1), (8, 4, 1), (5, 1), (1,), (7, 9, 3, 1), (48, 33, 1)), ids=str
)
@pytest.mark.parametrize("p", (3, 36, 37))
def test_draws_are_those_of_the_network_in_float64(widths, p):
    posterior, features = posterior_of(p, widths, rank=min(p, 4)), features_of(11, p)
    expected = plainly_eV(posterior, features)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(posterior.mean_draws_eV(features), expected, atol=2e-5, rtol=2e-6)


OTHER_TILES = """
from bandgap.posterior import draw_tiles
draw_tiles.WIDE = 3 * draw_tiles.UNITS - draw_tiles.WIDE
import sys
import numpy as np
from tests.unit.posterior.test_draw_kernels import features_of, posterior_of
np.save(sys.argv[1], posterior_of(61, (100, 40, 1)).mean_draws_eV(features_of(150, 61)))
"""


@pytest.mark.slow  # it compiles anew
def test_tiles_for_other_registers_give_the_same_bits(tmp_path):
    here = posterior_of(61, (100, 40, 1)).mean_draws_eV(features_of(150, 61))
    np.testing.assert_allclose(
        here, plainly_eV(posterior_of(61, (100, 40, 1)), features_of(150, 61)), atol=2e-5
    )
    command = [sys.executable, "-c", OTHER_TILES, str(tmp_path / "other.npy")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, check=True, cwd=Path(__file__).resolve().parents[3], env=environment)
    np.testing.assert_array_equal(np.load(tmp_path / "other.npy"), here)


@pytest.mark.parametrize("draws_with_room", [0, 1, 4])
def test_draws_without_room_give_the_same_and_are_not_kept(draws_with_room, monkeypatch):
    features = features_of(9, 37)
    rich = posterior_of()
    whole = rich.mean_draws_eV(features)
    one = held_layers._KEPT[rich].n_bytes // (rich.n_chains * rich.n_draws)
    monkeypatch.setattr(held_layers, "_KEPT", weakref.WeakKeyDictionary())
    monkeypatch.setattr(held_layers.ROOM, "n_bytes", draws_with_room * one)
    poor = posterior_of()
    for rows in (range(9), [4], range(3, 9), range(9)):
        assert (
            poor.mean_draws_eV(features[rows]).tobytes()
            == np.ascontiguousarray(whole[..., rows]).tobytes()
        )
        assert held_layers._KEPT[poor].n_bytes <= held_layers.ROOM.n_bytes
    assert len(held_layers._KEPT[poor].layers) == draws_with_room


def test_all_features_are_kept_ahead_only_where_they_find_room(monkeypatch):
    few, many = features_of(6, 90), features_of(6, 90, seed=1)
    few[:, 36:] = 0.0
    for n_bytes, blocks in ((10**6, 23), (4_000, 12)):
        monkeypatch.setattr(held_layers, "_KEPT", weakref.WeakKeyDictionary())
        monkeypatch.setattr(held_layers, "ROOM", held_layers.Room())
        expected = posterior_of(90).mean_draws_eV(many).tobytes()
        held_layers._KEPT.clear()
        held_layers.make_room(n_bytes)
        posterior = posterior_of(90)
        posterior.mean_draws_eV(few)
        assert held_layers._KEPT[posterior].blocks.sum() == blocks
        assert posterior.mean_draws_eV(many).tobytes() == expected


@pytest.mark.parametrize(
    ("room", "blocks"), [(1.0, 9), (0.3, 12)], ids=["the grid of a pair", "half of it"]
)
def test_fours_beside_those_that_are_there_are_made_too(monkeypatch, room, blocks):
    posterior, features = posterior_of(90), features_of(6, 90)
    features[:, 36:] = 0.0  # nine fours of 23
    monkeypatch.setattr(held_layers, "_KEPT", weakref.WeakKeyDictionary())
    monkeypatch.setattr(held_layers, "ROOM", held_layers.Room(int(room * posterior._n_bytes)))
    for first in (4, 28):  # with others of these nine nothing is made anew
        some = np.zeros_like(features)
        some[:, first : first + 8] = features[:, first : first + 8]
        posterior.mean_draws_eV(some)
    assert held_layers._KEPT[posterior].blocks.nonzero()[0].tolist() == list(range(blocks))


def test_a_look_in_passing_keeps_no_layers_and_agrees_to_rounding():
    posterior, features = posterior_of(), features_of(9, 37)
    with held_layers.in_passing():
        looked = posterior.mean_draws_eV(features)
    assert posterior not in held_layers._KEPT
    np.testing.assert_allclose(looked, posterior.mean_draws_eV(features), atol=2e-5)
    assert len(held_layers._KEPT[posterior].layers) == posterior.n_chains * posterior.n_draws


def test_features_whose_zero_is_far_away_keep_their_digits():
    """Means of 20 standard deviations: taken as differences from zero, the sums would lose two digits."""
    posterior, features = posterior_of(spread=0.1), features_of(9, 37) + 1.0
    np.testing.assert_allclose(
        posterior.mean_draws_eV(features), plainly_eV(posterior, features), rtol=3e-6, atol=3e-5
    )


@pytest.mark.parametrize("widths", ((13, 6, 1), (48, 33, 1)), ids=str)
def test_draws_of_a_structure_do_not_depend_on_the_others(widths):
    posterior, features = posterior_of(widths=widths), features_of(50, 37)
    whole = posterior.mean_draws_eV(features)
    for rows in ([7], [7, 8], [49, 7, 3], list(range(1, 50)), list(range(50))[::-1]):
        assert (
            posterior.mean_draws_eV(features[rows]).tobytes()
            == np.ascontiguousarray(whole[:, :, rows]).tobytes()
        )


def test_row_that_is_not_finite_gives_nan_and_leaves_the_others():
    posterior, features = posterior_of(), features_of(6, 37)
    whole = posterior.mean_draws_eV(features)
    features[2, 5] = np.nan
    found = posterior.mean_draws_eV(features)
    assert np.isnan(found[..., 2]).all()
    np.testing.assert_array_equal(np.delete(found, 2, axis=2), np.delete(whole, 2, axis=2))


def test_layers_are_made_once_where_there_is_room_and_given_back_with_their_owner(monkeypatch):
    made = []

    class Owner:
        pass

    class Layers(NamedTuple):
        chain: int
        draw: int
        blocks: list[bool]
        n_bytes: int = 60

    def make(chain, draw, blocks):
        made.append((chain, draw))
        return Layers(chain, draw, blocks.tolist())

    def layer(owner, draw, blocks=(True, False)):
        layers, there = held_layers.held(
            owner, make, present=lambda together: np.array(blocks), n_bytes=60
        )
        return tuple(layers(0, draw))[:3], there.tolist()

    used = sum(kept.n_bytes for kept in held_layers._KEPT.values())
    monkeypatch.setattr(held_layers.ROOM, "n_bytes", used + 100)
    first, second = Owner(), Owner()
    for _ in range(2):
        assert layer(first, 1) == ((0, 1, [True, False]), [True, False])
    assert made == [(0, 1)]
    for _ in range(2):
        assert layer(first, 1, (False, True)) == ((0, 1, [True, True]), [True, True])
    assert layer(first, 1)[1] == [True, True]
    assert made == [(0, 1)] * 2
    for _ in range(2):
        layer(second, 2)
    assert made[2:] == [(0, 2), (0, 2)]
    del first
    for _ in range(2):
        layer(second, 3)
    assert made[4:] == [(0, 3)]


def test_features_that_come_later_change_nothing_of_the_others():
    few, many = features_of(6, 90), features_of(20, 90, seed=1)
    few[:, 36:] = 0.0
    whole = posterior_of(90).mean_draws_eV(np.concatenate([few, many]))
    posterior = posterior_of(90)
    for _ in range(2):
        assert (
            posterior.mean_draws_eV(few).tobytes() == np.ascontiguousarray(whole[..., :6]).tobytes()
        )
        assert (
            posterior.mean_draws_eV(many).tobytes()
            == np.ascontiguousarray(whole[..., 6:]).tobytes()
        )


def test_layers_that_are_held_are_not_those_of_a_changed_posterior():
    posterior, features = posterior_of(), features_of(4, 37)
    one = posterior.mean_draws_eV(features)
    other = replace(posterior, theta_hat_1=posterior.theta_hat_1 * 2.0).mean_draws_eV(features)
    assert np.abs(one - other).max() > 0.01
