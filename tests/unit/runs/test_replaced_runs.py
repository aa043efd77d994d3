"""A run replaces an existing run as a whole, and never another result or its inputs."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.evaluation.calibrators import FILE
from bandgap.foundation.errors import Cancelled, InputError
from bandgap.runs.stored import load_run
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from tests.transfers import transfer_labelled

BRIEF = {"method": "last_layer_ridge", "n": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def transferred(source_folder, world):
    """Transfer to a folder."""

    def transfer(out: Path, **changes) -> Path:
        settings = {**BRIEF, "n_test": 6, **changes}
        return transfer_labelled(source_folder, world.records, world.gaps_eV, out=out, **settings)

    return transfer


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_nothing_of_an_older_run_stays(transferred, tmp_path):
    out = transferred(tmp_path / "run")
    (out / FILE).write_text("{}")
    assert (out / "predictions.csv").is_file()
    transferred(out, n_test=0, seed=1)
    assert not (out / FILE).exists()
    assert not (out / "predictions.csv").exists()
    assert not (out / "quantiles.safetensors").exists()
    assert load_run(out).manifest["request"]["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_run_that_is_cancelled_leaves_the_older_one(transferred, tmp_path):
    out = transferred(tmp_path / "run")
    before = files_of(out)

    def cancel(update):
        if update.phase == "predicting the test set":
            raise Cancelled

    with pytest.raises(Cancelled):
        transferred(out, seed=1, progress=cancel)
    assert files_of(out) == before


def test_file_that_the_user_puts_there_meanwhile_stays(transferred, tmp_path):
    out = transferred(tmp_path / "run")

    def write(update):
        (out / "notes.txt").write_text("mine")

    transferred(out, seed=1, progress=write)
    assert (out / "notes.txt").read_text() == "mine"
    assert load_run(out).manifest["request"]["seed"] == 1


@pytest.mark.parametrize("below", ["", "run"], ids=["itself", "inside"])
def test_source_is_neither_replaced_nor_mixed_with_a_run(below, transferred, source_folder):
    before = files_of(source_folder)
    updates = []
    with pytest.raises(InputError, match=r"which this command reads|the folder of a source model"):
        transferred(source_folder / below, progress=updates.append)
    assert files_of(source_folder) == before
    assert updates == []


def test_run_is_not_replaced_by_a_source(transferred, world, tmp_path):
    out = transferred(tmp_path / "run")
    settings = {
        "descriptor": world.descriptor,
        "config": SourceConfig(hidden=(4,)),
        "seed": 0,
        "device": "cpu",
    }
    with pytest.raises(InputError, match="contains a run, which a source model does not replace"):
        train_source_folder(world.records, world.gaps_eV, out=out, **settings)
    load_run(out)


def test_folder_that_cannot_be_written_is_refused_before_a_descriptor_is_computed(
    transferred, tmp_path
):
    (tmp_path / "file").write_text("text")
    updates = []
    with pytest.raises(InputError, match="cannot be written"):
        transferred(tmp_path / "file" / "run", progress=updates.append)
    assert updates == []
    assert np.all([path.name == "file" for path in tmp_path.iterdir()])
