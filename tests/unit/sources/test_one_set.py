"""Training a source model: weights of constant features, the card, and the seed."""

import dataclasses

import numpy as np
import pytest

from bandgap.descriptors import DescriptorConfig, Term, n_features
from bandgap.networks.training import TrainingConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import train_source

DESCRIPTOR = DescriptorConfig(
    species=("H", "C"),
    k1=Term("atomic_number", 0.0, 10.0, 2, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 2, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)
P = n_features(DESCRIPTOR)
CONFIG = SourceConfig(
    hidden=(6, 4), training=TrainingConfig(max_epochs=25, batch_size=16, learning_rate=1e-2)
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, P)).astype(np.float32)
# An element that the source set does not contain.
X[:, 2] = 0.0
# Equal in every structure up to rounding.
X[:, 5] = 0.1 + 2e-7 * RNG.normal(size=80)
Y = 4.0 + X[:, 0] - 0.5 * X[:, 1] + 0.1 * RNG.normal(size=80)


def fit(**changed):
    settings = {
        "descriptor": DESCRIPTOR,
        "config": CONFIG,
        "data": ("molecules.xyz",),
        "elements": ("H", "C"),
        "level_of_theory": "PBE0",
        "licence": "CC0-1.0",
        "seed": 3,
        "device": "cpu",
    }
    return train_source(X, Y, **(settings | changed))


@pytest.fixture(scope="module")
def source():
    return fit()


def test_weights_of_constant_features_are_zero(source):
    zero = (source.params["weight.1"] == 0).all(dim=0)
    assert zero.nonzero().flatten().tolist() == [2, 5]


def test_source_learns(source):
    assert source.card.validation_rmse_eV < 0.7 * Y.std()
    assert source.history[-1].train < source.history[0].train


def test_card_says_what_the_source_was_trained_on(source):
    card = dataclasses.asdict(source.card)
    assert card.pop("held_out_rmse_eV") > card.pop("validation_rmse_eV") > 0
    assert card.pop("n_held_out") == 16
    assert card == {
        "data": ("molecules.xyz",),
        "n_structures": 80,
        "elements": ("C", "H"),
        "level_of_theory": "PBE0",
        "licence": "CC0-1.0",
        "seed": 3,
        "displacement_angstrom": 0.0,
        "potential": "",
        "graph": "",
        "n_test": 0,
        "test_rmse_eV": None,
    }
