"""Extras of a source of several sets: computed per output, added later, refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bandgap.descriptors import featurize
from bandgap.foundation.errors import InputError
from bandgap.networks.joint_training import JointTrainingConfig, train_jointly
from bandgap.networks.perceptron import NetworkConfig, fisher_diagonal, forward, init_params
from bandgap.sources.added_extras import add_extras_run
from bandgap.sources.extras import used_features, used_rows
from bandgap.sources.joint import (
    Head,
    SourceSet,
    joint_statistics,
    member_splits,
    train_joint_sources,
)
from bandgap.sources.model import SourceConfig
from bandgap.sources.sets import open_sources
from bandgap.sources.stored import load_source, source_predictions_eV
from bandgap.sources.training import train_sources_run
from tests.transfers import transfer_labelled


@pytest.fixture(scope="module")
def settings(joint_folder):
    """Return the settings of the extras of the trained source."""
    return open_sources(joint_folder).load("plain", extras=False)[0]["plain"].config


@pytest.fixture(scope="module")
def bare_folder(joint_folder, tmp_path_factory):
    """Return a copy of the source without extras, also in its settings."""
    folder = Path(shutil.copytree(joint_folder, tmp_path_factory.mktemp("bare") / "source"))
    for path in folder.glob("member-*/*/manifest.json"):
        manifest = json.loads(path.read_text())
        del manifest["extras"], manifest["config"]["variational"], manifest["config"]["snapshots"]
        path.write_text(json.dumps(manifest))
        (path.parent / "extras.safetensors").unlink()
    return folder


@pytest.fixture
def bare_copy(bare_folder, tmp_path):
    return Path(shutil.copytree(bare_folder, tmp_path / "source"))


def rows_of(name, sets, world):
    return featurize(sets[name].records, world.descriptor).features, sets[name].gaps_eV


def assert_close(params, expected, *, tolerance):
    """Fail if parameters differ by more than half precision, relative to each tensor's size."""
    for name, value in expected.items():
        size = float(value.square().mean().sqrt())
        torch.testing.assert_close(params[name], value, rtol=2**-7, atol=tolerance * size)


def test_every_output_of_every_network_has_all_extras(joint_folder):
    for member in open_sources(joint_folder).load():
        assert list(member) == ["plain", "other"]
        for model in member.values():
            assert model.extras == ("features", "fisher", "variational", "snapshots")
            assert model.variational.kl_weight in (0.7, 0.1) and model.snapshots.rank == 3


def test_fisher_information_is_always_computed_and_other_extras_on_request(
    joint_sets, world, tmp_path
):
    out = train_sources_run(
        joint_sets,
        descriptor=world.descriptor,
        config=SourceConfig(hidden=(4,)),
        training=JointTrainingConfig(steps=5, batch_size=16),
        out=tmp_path,
        seed=0,
        device="cpu",
    )
    for model in open_sources(out).load()[0].values():
        assert model.extras == ("features", "fisher")


@pytest.mark.parametrize("name", ["plain", "other"])
def test_fisher_information_is_that_of_the_output_at_the_rows_of_its_set(
    joint_folder, joint_sets, world, name
):
    """It is computed here on all features, with those that never vary in any set at zero."""
    all_features = np.vstack([rows_of(n, joint_sets, world)[0] for n in joint_sets])
    for member in open_sources(joint_folder).load(name):
        source = member[name]
        features, _ = rows_of(name, joint_sets, world)
        x = torch.from_numpy(source.standardiser.features(features)).float()
        x[:, torch.from_numpy(all_features.std(0) == 0)] = 0.0
        noise = (source.card.validation_rmse_eV / source.standardiser.y_sd_eV) ** 2
        expected = fisher_diagonal(source.params, x, noise_variance=noise)
        assert_close(source.fisher, {n: v.float() for n, v in expected.items()}, tolerance=1e-2)


def test_split_is_that_of_the_training(joint_sets, world):
    """It is found from what is stored: the outputs, the sizes and the seed."""
    training = JointTrainingConfig(steps=5, batch_size=16, validation_share=0.2)
    source_sets = [SourceSet(name, *rows_of(name, joint_sets, world)) for name in joint_sets]
    models = train_joint_sources(
        source_sets,
        descriptor=world.descriptor,
        config=SourceConfig(hidden=(8, 4)),
        training=training,
        members=2,
        seed=3,
        device="cpu",
    )
    _, _, varying = joint_statistics([s.features for s in source_sets])
    for number, member in enumerate(models):
        generator = torch.Generator().manual_seed(
            int(np.random.SeedSequence([3, number]).generate_state(1)[0])
        )
        start = init_params(NetworkConfig(int(varying.sum()), (8, 4), 2), generator=generator)
        rows = []
        for s, model in zip(source_sets, member.values(), strict=True):
            x = model.standardiser.features(s.features)[:, varying]
            rows.append(
                (
                    torch.from_numpy(x).float(),
                    torch.from_numpy(model.standardiser.gaps(s.gaps_eV)).float(),
                )
            )
        expected = train_jointly(start, rows, config=training, generator=generator).splits
        splits = member_splits(member["other"], Head("other", 1, (14, 22), 0.2), member=number)
        for a, b in zip(splits, expected, strict=True):
            assert torch.equal(a.training, b.training) and torch.equal(a.held_out, b.held_out)
        assert (used_features(member["plain"].params) == varying).all()


def test_variational_means_are_measured_on_the_held_out_rows(joint_folder, joint_sets, world):
    stored = open_sources(joint_folder)
    for number, member in enumerate(stored.load("other")):
        source = member["other"]
        features, gaps = rows_of("other", joint_sets, world)
        split = member_splits(source, stored.head("other"), member=number)[1]
        x, y = used_rows(
            source.standardiser, features, gaps, used=np.ones(features.shape[1], dtype=bool)
        )
        x[:, torch.from_numpy(~used_features(source.params))] = 0.0
        error = (
            (forward(source.variational.mean, x[split.held_out]) - y[split.held_out])
            .square()
            .mean()
        )
        assert float(error) == pytest.approx(source.variational.validation_mse, rel=0.02)


def stored_config(folder):
    return open_sources(folder).load("plain")[0]["plain"].config


def test_held_out_gaps_do_not_change_the_variational_posterior_and_the_snapshots(
    joint_sets, world, joint_folder, tmp_path
):
    """The gaps are reflected about the predictions, which leaves their error unchanged."""
    folder = Path(shutil.copytree(joint_folder, tmp_path / "source"))
    # Of several settings, the one with the smallest held-out error is kept.
    one = stored_config(folder).variational[:1]
    add_extras_run(
        folder, {"plain": joint_sets["plain"]}, extras=SourceConfig(variational=one), device="cpu"
    )
    stored = open_sources(folder)
    before = stored.load("plain")[0]["plain"]
    split = member_splits(before, stored.head("plain"), member=0)[0]
    gaps = joint_sets["plain"].gaps_eV.copy()
    held_out = split.held_out.numpy()
    predicted = source_predictions_eV(before, rows_of("plain", joint_sets, world)[0])
    gaps[held_out] = 2 * predicted[held_out] - gaps[held_out]
    add_extras_run(
        folder, {"plain": dataclasses.replace(joint_sets["plain"], gaps_eV=gaps)}, device="cpu"
    )
    after = open_sources(folder).load("plain")[0]["plain"]
    assert all(
        torch.equal(after.variational.mean[n], v) for n, v in before.variational.mean.items()
    )
    assert all(torch.equal(after.snapshots.mean[n], v) for n, v in before.snapshots.mean.items())


def test_extras_added_later_are_those_of_the_training(
    bare_copy, joint_folder, joint_sets, settings
):
    before = open_sources(bare_copy).load()
    assert all(model.extras == ("features",) for member in before for model in member.values())
    add_extras_run(
        bare_copy,
        joint_sets,
        extras=settings,
        device="cpu",
    )
    pairs = zip(
        open_sources(bare_copy).load(), open_sources(joint_folder).load(), before, strict=True
    )
    for later, complete, bare in pairs:
        for name, model in later.items():
            assert all(torch.equal(model.params[n], v) for n, v in bare[name].params.items())
            assert all(torch.equal(model.fisher[n], v) for n, v in complete[name].fisher.items())
            assert all(
                torch.equal(model.variational.sd[n], v)
                for n, v in complete[name].variational.sd.items()
            )
            assert all(
                torch.equal(model.snapshots.mean[n], v)
                for n, v in complete[name].snapshots.mean.items()
            )


def test_extras_can_be_added_to_one_output(bare_copy, joint_sets, settings):
    add_extras_run(
        bare_copy,
        {"other": joint_sets["other"]},
        extras=SourceConfig(snapshots=settings.snapshots),
        device="cpu",
    )
    for member in open_sources(bare_copy).load():
        assert member["other"].extras == ("features", "fisher", "snapshots")
        assert member["plain"].extras == ("features",)


def test_structures_of_another_set_are_refused(bare_copy, joint_sets):
    with pytest.raises(
        InputError,
        match=r"the set 'plain' of network 1 was trained on 14 .*these are 22 structures",
    ):
        add_extras_run(bare_copy, {"plain": joint_sets["other"]}, device="cpu")
    moved = dataclasses.replace(
        joint_sets["plain"], gaps_eV=joint_sets["plain"].gaps_eV[::-1].copy()
    )
    with pytest.raises(
        InputError, match="Give the structures and gaps that it was trained on, in the same order"
    ):
        add_extras_run(bare_copy, {"plain": moved}, device="cpu")


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            "btl_pcp_vi",
            r"no variational posterior.*`bandgap train-sources --variational`.*"
            r"source-extras --variational`",
        ),
        ("btl_vi", r"no Fisher information.*`bandgap train-sources`.*`bandgap source-extras`"),
        (
            "ptyl",
            r"no snapshots.*`bandgap train-sources --snapshots 20`.*"
            r"`bandgap source-extras --snapshots 20`",
        ),
    ],
)
def test_source_without_what_a_method_needs_is_refused_with_the_command(
    bare_folder, world, tmp_path, method, text
):
    with pytest.raises(InputError, match=text):
        transfer_labelled(
            bare_folder,
            world.records,
            world.gaps_eV,
            method=method,
            head="plain",
            out=tmp_path,
            device="cpu",
        )


def test_source_can_be_loaded_without_extras(joint_folder):
    folder = open_sources(joint_folder).members[0]["plain"]
    assert load_source(folder, extras=False).extras == ("features",)
