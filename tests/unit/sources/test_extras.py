"""Extras of a source: computed from its training rows, stored with small rounding, refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import featurize
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.networks.perceptron import fisher_diagonal
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources import extras
from bandgap.sources.added_extras import add_extras_run
from bandgap.sources.cards import extras_sentence
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import with_extras
from bandgap.sources.overlap import KEYS
from bandgap.sources.stored import load_source, source_predictions_eV
from bandgap.sources.stored_extras import packed, unpacked
from tests.storing import edit_manifest

VARIATIONAL = tuple(
    VariationalConfig(epochs=8, batch_size=8, kl_weight=weight) for weight in (0.7, 0.1)
)
SNAPSHOTS = SnapshotConfig(count=5, rank=3, burn_in=1, batch_size=8)
EXTRAS = "extras.safetensors"


@pytest.fixture(scope="module")
def rows(world):
    return featurize(world.source_records, world.descriptor).features, world.source_gaps_eV


def test_used_rows_of_several_blocks_are_all_standardised(source_folder, rows, monkeypatch):
    monkeypatch.setattr(extras, "ROWS_PER_CHUNK", 7)
    scale = load_source(source_folder).standardiser
    features, gaps_eV = rows
    used = np.arange(features.shape[1]) % 3 > 0
    x, y = extras.used_rows(scale, features, gaps_eV, used=used)
    expected = scale.features(features)[:, used].astype(np.float32)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(y.numpy(), scale.gaps(gaps_eV).astype(np.float32))


@pytest.fixture(scope="module")
def full_source(source_folder, rows):
    """The source with all extras, in memory."""
    source = load_source(source_folder)
    config = dataclasses.replace(source.config, variational=VARIATIONAL, snapshots=SNAPSHOTS)
    return with_extras(dataclasses.replace(source, config=config), *rows, device="cpu")


@pytest.fixture(scope="module")
def full_folder(source_folder, world, tmp_path_factory):
    """A copy of the source's folder with all extras."""
    folder = Path(shutil.copytree(source_folder, tmp_path_factory.mktemp("full") / "source"))
    (folder / KEYS).unlink()
    return add_extras_run(
        folder,
        {"": LabelledSet(world.source_records, world.source_gaps_eV)},
        extras=SourceConfig(variational=VARIATIONAL, snapshots=SNAPSHOTS),
        device="cpu",
    )


@pytest.fixture
def full_copy(full_folder, tmp_path):
    return Path(shutil.copytree(full_folder, tmp_path / "source"))


def relative_error(params, expected):
    """Return the largest error of a parameter, relative to the root mean square of its tensor."""
    return max(
        float((params[n] - v).abs().max() / v.square().mean().sqrt().clamp(min=1e-30))
        for n, v in expected.items()
    )


def test_trained_source_has_feature_statistics_and_fisher_information(source_folder):
    source = load_source(source_folder)
    assert source.extras == ("features", "fisher")
    assert source.variational is None and source.snapshots is None


def test_fisher_information_is_that_of_all_rows_at_the_validation_error(full_source, rows):
    scale = full_source.standardiser
    x = torch.from_numpy(scale.features(rows[0]))
    variance = (full_source.card.validation_rmse_eV / scale.y_sd_eV) ** 2
    expected = fisher_diagonal(full_source.params, x, noise_variance=variance)
    assert float(full_source.fisher["bias.3"]) == pytest.approx(36 / variance, rel=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(
            full_source.fisher[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-3
        )


def test_point_estimate_and_predictions_are_bitwise_unchanged(source_folder, full_folder, rows):
    before = load_source(source_folder)
    after = load_source(full_folder)
    assert all(torch.equal(before.params[name], after.params[name]) for name in before.params)
    assert (source_predictions_eV(before, rows[0]) == source_predictions_eV(after, rows[0])).all()
    references = [
        json.loads((f / "manifest.json").read_text())["references"]
        for f in (source_folder, full_folder)
    ]
    assert references[0] == references[1]
    assert before.history == after.history and before.card == after.card


def test_extras_are_added_to_a_source_that_was_stored_without(source_folder, world, tmp_path):
    """The file of the weights grows while the loaded source still maps the old file."""
    folder = Path(shutil.copytree(source_folder, tmp_path / "copy"))
    edit_manifest(folder, lambda manifest: [manifest.pop(key) for key in ("extras", "features")])
    arrays = load_file(folder / "weights.safetensors")
    weights = {
        name: value.clone() for name, value in arrays.items() if not name.startswith("features.")
    }
    (folder / "weights.safetensors").unlink()
    save_file(weights, folder / "weights.safetensors")
    (folder / EXTRAS).unlink()
    add_extras_run(
        folder, {"": LabelledSet(world.source_records, world.source_gaps_eV)}, device="cpu"
    )
    assert load_source(folder).extras == ("features", "fisher")
    references = [
        json.loads((f / "manifest.json").read_text())["references"] for f in (source_folder, folder)
    ]
    assert references[0] == references[1]


def test_extras_are_loaded_as_they_were_computed(full_source, full_folder):
    loaded = load_source(full_folder)
    assert loaded.extras == full_source.extras == ("features", "fisher", "variational", "snapshots")
    assert loaded.config.variational == VARIATIONAL and loaded.config.snapshots == SNAPSHOTS
    # bfloat16 rounds by 2^-9 of a value, float16 by 2^-12. The largest values are about ten times
    # the root mean square.
    assert relative_error(loaded.fisher, full_source.fisher) < 0.05
    assert relative_error(loaded.variational.mean, full_source.variational.mean) < 0.005
    assert relative_error(loaded.snapshots.mean, full_source.snapshots.mean) < 0.005
    for name, sd in full_source.variational.sd.items():
        np.testing.assert_allclose(loaded.variational.sd[name].numpy(), sd.numpy(), rtol=2**-8)
        shift = (loaded.variational.mean[name] - full_source.variational.mean[name]).abs() / sd
        # The rounding of a mean is far below its standard deviation.
        assert float(shift.max()) < 0.1
        deviations = full_source.snapshots.deviations[name].numpy()
        np.testing.assert_allclose(
            loaded.snapshots.deviations[name].numpy(), deviations, rtol=2**-8
        )
        np.testing.assert_allclose(
            loaded.snapshots.diagonal[name].numpy(),
            full_source.snapshots.diagonal[name].numpy(),
            rtol=2**-8,
        )
    assert loaded.variational.noise_variance == pytest.approx(
        full_source.variational.noise_variance
    )
    assert loaded.variational.elbo == pytest.approx(full_source.variational.elbo)
    assert loaded.variational.kl_weight == full_source.variational.kl_weight
    assert loaded.variational.validation_mse == pytest.approx(
        full_source.variational.validation_mse
    )
    assert {v.dtype for v in loaded.snapshots.deviations.values()} == {torch.float32}


def test_extras_use_the_rows_that_were_not_held_out(full_source, source_folder, rows):
    """Labels of held-out rows change neither the variational fit nor the snapshots."""
    source = load_source(source_folder)
    generator = torch.Generator().manual_seed(source.card.seed)
    start = {n: torch.empty(s) for n, s in source.network.shapes.items() if n.startswith("weight")}
    for weight in start.values():
        torch.rand(weight.shape, generator=generator)
    held_out = torch.randperm(36, generator=generator)[:7].numpy()
    moved = rows[1].copy()
    moved[held_out] += np.where(np.arange(7) % 2, 1e-3, -1e-3)
    config = dataclasses.replace(source.config, variational=VARIATIONAL, snapshots=SNAPSHOTS)
    again = with_extras(dataclasses.replace(source, config=config), rows[0], moved, device="cpu")
    assert all(
        torch.equal(again.variational.mean[n], v) for n, v in full_source.variational.mean.items()
    )
    assert all(
        torch.equal(again.snapshots.mean[n], v) for n, v in full_source.snapshots.mean.items()
    )
    assert again.variational.validation_mse != full_source.variational.validation_mse


def test_variational_fit_with_the_smallest_held_out_error_is_kept(full_source, source_folder, rows):
    source = load_source(source_folder)
    errors = {}
    for config in VARIATIONAL:
        only = dataclasses.replace(source.config, variational=(config,))
        fit = with_extras(dataclasses.replace(source, config=only), *rows, device="cpu").variational
        errors[fit.kl_weight] = fit.validation_mse
    assert set(errors) == {0.7, 0.1}
    assert full_source.variational.kl_weight == min(errors, key=errors.get)
    assert full_source.variational.validation_mse == min(errors.values())


def test_manifest_lists_the_extras_and_the_error_of_the_means(full_folder, full_source):
    manifest = json.loads((full_folder / "manifest.json").read_text())
    assert set(manifest["extras"]) == {"fisher", "variational", "snapshots"}
    assert (
        extras_sentence(manifest)
        == "feature statistics, Fisher information, variational posterior, 3 snapshots"
    )
    expected = full_source.standardiser.y_sd_eV * full_source.variational.validation_mse**0.5
    assert manifest["metrics"]["variational_rmse_eV"] == pytest.approx(expected)


def test_source_without_entries_of_extras_loads_without_them(full_copy):
    def remove_entries(manifest):
        for key in ("extras", "features"):
            del manifest[key]
        for key in ("variational", "snapshots"):
            del manifest["config"][key]

    edit_manifest(full_copy, remove_entries)
    (full_copy / EXTRAS).unlink()
    source = load_source(full_copy)
    assert source.extras == ()
    assert extras_sentence(json.loads((full_copy / "manifest.json").read_text())) == "nothing"


def test_extras_in_the_settings_are_recomputed(full_copy, world):
    before = load_source(full_copy)
    add_extras_run(
        full_copy, {"": LabelledSet(world.source_records, world.source_gaps_eV)}, device="cpu"
    )
    after = load_source(full_copy)
    assert after.extras == before.extras
    assert all(torch.equal(after.variational.sd[n], v) for n, v in before.variational.sd.items())


def test_missing_keys_of_the_training_structures_are_written(source_folder, full_folder):
    assert (full_folder / KEYS).read_bytes() == (source_folder / KEYS).read_bytes()


@pytest.mark.parametrize("change", ["other order", "fewer", "other gaps"])
def test_rows_of_another_training_are_refused(source_folder, rows, change):
    source = load_source(source_folder)
    x, y = rows
    wrong = {
        "other order": (x[::-1], y[::-1]),
        "fewer": (x[:-1], y[:-1]),
        "other gaps": (x, y + 1.0),
    }[change]
    with pytest.raises(
        InputError,
        match=(
            r"the source was trained on 36 structures with an error of \d\.\d+ eV on those held "
            r"out; these are 3\d structures with an error of \d\.\d+ eV. Give the structures and "
            r"gaps that it was trained on, in the same"
        ),
    ):
        with_extras(source, *wrong, device="cpu")


@pytest.mark.parametrize("leading", [(), (3,)])
def test_columns_of_one_value_are_packed_and_unpacked_exactly(leading):
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(*leading, 4, 6, generator=generator).to(torch.bfloat16)
    value[..., 1] = 0.25
    value[..., 4] = 0.25
    # Constant too, but of another value, so that it is stored.
    value[..., 5] = 7.0
    arrays = packed("a", value)
    assert arrays["a"].shape == (*leading, 4, 4)
    assert torch.equal(unpacked(arrays, "a"), value.float())


def test_tensor_without_such_columns_is_not_changed():
    value = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).to(torch.float16)
    assert list(packed("a", value)) == ["a"]
    assert torch.equal(unpacked(packed("a", value), "a"), value.float())


@pytest.mark.parametrize(
    ("rank", "message"),
    [(3, r"has shape \(1000000, .*\), \(3, .*\) is expected"), (10**6, "more than 200 times")],
    ids=["more than the manifest states", "as the manifest states"],
)
def test_few_bytes_never_become_large_extras(full_copy, rank, message):
    """Columns without any stored value describe a million snapshots."""
    arrays = load_file(full_copy / EXTRAS)
    for name, shape in load_source(full_copy).network.shapes.items():
        label = f"snapshots.deviations.{name}"
        arrays[label] = torch.zeros(10**6, *shape[:-1], 0)
        arrays[f"{label}@kept"] = torch.zeros(shape[-1], dtype=torch.bool)
        arrays[f"{label}@fill"] = torch.zeros(1)
    save_file(arrays, full_copy / EXTRAS)
    edit_manifest(full_copy, lambda manifest: manifest["extras"]["snapshots"].update(rank=rank))
    with pytest.raises(ArtifactError, match=message):
        load_source(full_copy)
