"""Sources of several sets and networks: what outputs learn, how they are stored and chosen."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from ase import Atoms

from bandgap.descriptors import DescriptorConfig, Term, n_features
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.sources.head_choice import choose_head, cross_validated_rmse_eV, ridge_by_gcv
from bandgap.sources.joint import SourceSet, joint_statistics, train_joint_sources
from bandgap.sources.model import SourceConfig
from bandgap.sources.sets import open_sources, save_sources
from bandgap.sources.stored import source_predictions_eV
from bandgap.structures import as_records

DESCRIPTOR = DescriptorConfig(
    species=("H", "C"),
    k1=Term("atomic_number", 0.0, 10.0, 3, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 3, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)
P = n_features(DESCRIPTOR)
TRAINING = JointTrainingConfig(
    steps=500, batch_size=64, warmup_steps=20, learning_rate=1e-2, dropout=0.0
)
SETTINGS = {
    "descriptor": DESCRIPTOR,
    "config": SourceConfig((16, 8)),
    "training": TRAINING,
    "device": "cpu",
}


def truth(x, which):
    """Return the gaps of two sets: equal in x0, of opposite sign in x1, on different scales."""
    return (
        (6.0 + np.tanh(x[:, 0]) + x[:, 1])
        if which == "a"
        else (20.0 + 4.0 * (np.tanh(x[:, 0]) - x[:, 1]))
    )


def rows_of_set(n, which, *, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, P)).astype(np.float32)
    x[:, 3] = 0.0
    return x, truth(x, which) + 0.1 * rng.normal(size=n)


def sets():
    x, y = rows_of_set(400, "a", seed=0)
    x_of_b, gaps = rows_of_set(150, "b", seed=1)
    return [
        SourceSet(
            "a", x, y, data=("a.xyz",), elements=("H",), level_of_theory="PBE", licence="CC0-1.0"
        ),
        SourceSet("b", x_of_b, gaps, data=("b.xyz",), elements=("C", "H"), level_of_theory="GW"),
    ]


@pytest.fixture(scope="module")
def members():
    return train_joint_sources(sets(), members=2, seed=0, **SETTINGS)


def test_every_output_is_a_source_model_on_the_scale_of_its_set(members):
    for models in members:
        for name, model in models.items():
            x, y = rows_of_set(200, name, seed=5)
            assert np.sqrt(np.mean((source_predictions_eV(model, x) - y) ** 2)) < 0.4 * y.std()
            assert model.network.n_outputs == 1
            assert model.card.level_of_theory == {"a": "PBE", "b": "GW"}[name]
            assert model.card.n_structures == {"a": 400, "b": 150}[name]
            assert model.features.n == model.card.n_structures


def test_outputs_share_the_hidden_layers_and_members_do_not(members):
    first, second = members
    assert (first["a"].params["weight.1"] == first["b"].params["weight.1"]).all()
    assert not torch.allclose(first["a"].params["weight.1"], second["a"].params["weight.1"])


def test_displaced_copies_change_the_weights_but_not_scales_and_statistics(members):
    rng = np.random.default_rng(3)
    displaced_sets = [
        dataclasses.replace(
            s,
            displaced=(s.features + rng.normal(0, 0.3, s.features.shape),),
            displacement_angstrom=0.04,
        )
        for s in sets()
    ]
    displaced = train_joint_sources(displaced_sets, members=2, seed=0, **SETTINGS)
    for models, plain in zip(displaced, members, strict=True):
        for name, model in models.items():
            assert (model.standardiser.x_mean == plain[name].standardiser.x_mean).all()
            assert (model.standardiser.x_scale == plain[name].standardiser.x_scale).all()
            assert not torch.allclose(model.params["weight.1"], plain[name].params["weight.1"])
            # No undisplaced set varies this feature, so that its variation in copies is ignored.
            assert (model.params["weight.1"][:, 3] == 0).all()
            assert model.card.displacement_angstrom == 0.04
            assert plain[name].card.displacement_angstrom == 0.0
            x, y = rows_of_set(200, name, seed=5)
            assert np.sqrt(np.mean((source_predictions_eV(model, x) - y) ** 2)) < 0.4 * y.std()


def test_network_sees_the_displaced_copy_of_its_number_modulo_the_copies():
    rng = np.random.default_rng(3)
    noise = [[rng.normal(0, 0.3, s.features.shape) for s in sets()] for _ in range(2)]

    def first_weights(members, *copies):
        displaced_sets = [
            dataclasses.replace(s, displaced=tuple(s.features + noise[c][k] for c in copies))
            for k, s in enumerate(sets())
        ]
        networks = train_joint_sources(displaced_sets, members=members, seed=0, **SETTINGS)
        return [models["a"].params["weight.1"] for models in networks]

    both = first_weights(2, 0, 1)
    one = first_weights(2, 0)
    assert torch.equal(both[0], one[0])
    assert not torch.allclose(both[1], one[1])
    assert torch.equal(both[1], first_weights(2, 1)[1])


def test_feature_that_no_set_varies_has_weight_zero(members):
    assert (members[0]["a"].params["weight.1"][:, 3] == 0).all()


def test_statistics_weight_all_sets_equally():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 4))
    y = rng.normal(3.0, 2.0, size=(50, 4))
    # Never varies.
    x[:, 2] = 1.0
    y[:, 2] = 1.0
    # Constant in each set, with different values.
    x[:, 3] = 0.0
    y[:, 3] = 5.0
    mean, scale, moving = joint_statistics([x, y])
    np.testing.assert_allclose(mean, 0.5 * (x.mean(0) + y.mean(0)))
    assert moving.tolist() == [True, True, False, True]
    assert scale[2] == 1.0 and scale[3] == pytest.approx(
        np.hypot(2.5, 0.3 * np.sqrt(np.mean(scale_of(x, y) ** 2)))
    )


def scale_of(x, y):
    """Return the standard deviations of the varying columns, with equal weight of both sets."""
    second = 0.5 * ((x**2).mean(0) + (y**2).mean(0))
    return np.sqrt(second - (0.5 * (x.mean(0) + y.mean(0))) ** 2)[[0, 1, 3]]


def test_floor_of_a_scale_is_that_of_the_term_of_the_feature():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4)) * [1.0, 1e-4, 1e-3, 1e-3]
    _, scale, _ = joint_statistics([x], (slice(0, 2), slice(2, 4)))
    sd = x.std(0)
    np.testing.assert_allclose(scale[:2], np.hypot(sd[:2], 0.3 * np.sqrt(np.mean(sd[:2] ** 2))))
    np.testing.assert_allclose(scale[2:], np.hypot(sd[2:], 0.3 * np.sqrt(np.mean(sd[2:] ** 2))))


def test_networks_use_the_powers_in_turn():
    models = train_joint_sources(sets(), members=3, powers=(1.0, 3.0), seed=0, **SETTINGS)
    assert [m["a"].standardiser.power for m in models] == [1.0, 3.0, 1.0]
    for member in models[:2]:
        x, y = rows_of_set(200, "a", seed=5)
        assert np.sqrt(np.mean((source_predictions_eV(member["a"], x) - y) ** 2)) < 0.5 * y.std()
    rooted = train_joint_sources(
        sets(),
        members=2,
        seed=0,
        **SETTINGS | {"descriptor": dataclasses.replace(DESCRIPTOR, roots=True)},
    )
    assert [m["b"].standardiser.power for m in rooted] == [1.0, 2.0]


def test_chosen_head_predicts_the_target_best(members):
    x, y = rows_of_set(60, "b", seed=7)
    name, errors = choose_head(members, x, 0.5 * y - 3.0, seed=0)
    assert name == "b" and errors["b"] < errors["a"]
    assert choose_head(members, x, y, seed=0, head="a") == ("a", {})


def test_error_of_a_head_is_that_of_held_out_rows(members):
    """Random gaps cannot be predicted; an error on training rows would be below their spread."""
    x, _ = rows_of_set(60, "a", seed=8)
    y = np.random.default_rng(1).normal(3.0, 1.0, size=60)
    assert cross_validated_rmse_eV([members[0]["a"]], x, y, seed=0) > 0.9 * y.std()


def test_ridge_has_the_penalty_of_smallest_generalised_cross_validation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6))
    x -= x.mean(0)
    y = 2.0 + x @ rng.normal(size=6) + rng.normal(size=40)
    intercept, weights = ridge_by_gcv(x, y)
    scores = {}
    for penalty in np.logspace(-3, 5, 33):
        hat = x @ np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T) + 1 / 40
        scores[penalty] = ((y - hat @ y) ** 2).sum() / (40 - np.trace(hat)) ** 2
    best = min(scores, key=scores.get)
    np.testing.assert_allclose(
        weights, np.linalg.solve(x.T @ x + best * np.eye(6), x.T @ (y - y.mean())), rtol=1e-8
    )
    assert intercept == pytest.approx(y.mean())


def test_stored_sources_are_loaded_as_they_were(members, tmp_path):
    hydrogen = as_records([Atoms("H2", [(0.0, 0.0, 0.0), (0.0, 0.0, 0.74)])])
    references = {"a": hydrogen, "b": hydrogen}
    save_sources(tmp_path / "source", members, references=references, training=TRAINING)
    stored = open_sources(tmp_path / "source")
    assert stored.heads == ("a", "b") and len(stored.members) == 2
    x, _ = rows_of_set(5, "a", seed=9)
    for again, models in zip(stored.load(), members, strict=True):
        for name, model in models.items():
            assert (source_predictions_eV(again[name], x) == source_predictions_eV(model, x)).all()
    assert [list(m) for m in stored.load("b")] == [["b"], ["b"]]
    cards = json.loads((tmp_path / "source" / "manifest.json").read_text())["cards"]
    assert cards["a"]["licence"] == "CC0-1.0" and cards["b"]["level_of_theory"] == "GW"


@pytest.mark.parametrize("damage", ["none", "other outputs", "no list"])
def test_damaged_list_of_members_is_refused(members, tmp_path, damage):
    save_sources(tmp_path, members, references={"a": [], "b": []}, training=TRAINING)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["members"] = {"none": [], "other outputs": [{"a": "x"}, {"b": "y"}], "no list": [3]}[
        damage
    ]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"manifest.json: .*[Mm]ake the folder again"):
        open_sources(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([], "There is no source set. Give at least one"),
        (
            [dataclasses.replace(sets()[0], gaps_eV=np.ones(400)), sets()[1]],
            "source set 'a' has 400 gaps. At least 3 that differ are needed",
        ),
    ],
    ids=["none", "constant"],
)
def test_sets_that_cannot_be_trained_on_are_refused(wrong, text):
    with pytest.raises(InputError, match=text):
        train_joint_sources(wrong, seed=0, **SETTINGS)
