"""Runs go to the Hugging Face Hub and come back, checked as any stranger's run."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bandgap
from bandgap.cli import app
from bandgap.evaluation.calibrators import FILE as CALIBRATOR
from bandgap.foundation.errors import ArtifactError, ConfigError, InputError
from bandgap.runs.stored import DRAWS
from bandgap.storage.arrays import load_arrays, save_arrays
from tests.transfers import transfer_labelled
from tests.unit.runs.hub_server import HubServer, served_hub

RUN = "hf://owner/run"


@pytest.fixture(scope="module")
def stored(source_folder, world, tmp_path_factory):
    """A run; tests must not change it."""
    return transfer_labelled(
        source_folder,
        world.records,
        world.gaps_eV,
        out=tmp_path_factory.mktemp("stored") / "run",
        method="last_layer_ridge",
        level_of_theory="made up",
        n=14,
        n_test=6,
    )


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty hub, which huggingface_hub takes for its own, and an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with served_hub() as server, monkeypatch.context() as patch:
        for name, value in {
            "HF_ENDPOINT": server.address,
            "HF_HOME": str(tmp_path / "hub"),
            "HF_TOKEN": "made-up",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }.items():
            patch.setenv(name, value)
        importlib.reload(constants)  # it reads them when it is imported
        yield server
    importlib.reload(constants)


def test_run_is_uploaded_with_its_card_and_predicts_from_there_also_offline(
    hub: HubServer, stored: Path, world, tmp_path: Path, monkeypatch
) -> None:
    hub.files = {CALIBRATOR: b"of an earlier run", "notes.txt": b"of the owner"}
    address = bandgap.load_run(stored).push_to_hub("owner/run", private=True)
    assert (address, hub.visibility) == (f"{hub.address}/owner/run", "private")
    assert hub.files["manifest.json"] == (stored / "manifest.json").read_bytes()
    assert CALIBRATOR not in hub.files and hub.files.pop("notes.txt")
    card = hub.files["README.md"].decode()
    for fact in ("made up", "6 structures were held out", "RMSE", "C, H, O", "No licence", RUN):
        assert fact in card

    expected = bandgap.predict_run(stored, world.records).mean_eV
    assert np.array_equal(bandgap.load_model(RUN).predict(world.records).mean_eV, expected)
    hub.shutdown()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert np.array_equal(bandgap.predict_run(RUN, world.records).mean_eV, expected)
    assert not (bandgap.load_run(RUN).folder / "README.md").exists()
    described = CliRunner().invoke(app, ["describe", RUN])
    assert described.exit_code == 0 and "## Not for" in described.output


def test_run_whose_draws_were_changed_is_refused(
    hub: HubServer, stored: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(stored, tmp_path / "run")
    run = bandgap.load_run(folder)
    arrays = load_arrays(folder / DRAWS)
    save_arrays({name: value + 1 for name, value in arrays.items()}, folder / DRAWS)
    run.push_to_hub("owner/run")
    with pytest.raises(ArtifactError, match="fails its self-check"):
        bandgap.load_run(RUN)


def test_run_larger_than_a_zip_may_be_is_refused_before_it_is_downloaded(
    hub: HubServer, stored: Path, tmp_path: Path
) -> None:
    bandgap.load_run(stored).push_to_hub("owner/run")
    hub.reported[DRAWS] = 5_000_000_000
    with pytest.raises(InputError, match="larger than those of any run"):
        bandgap.load_model(RUN)
    assert not [*tmp_path.rglob(DRAWS)]


@pytest.mark.parametrize("name", ["owner/none", "run/of/nobody"])
def test_run_that_the_hub_does_not_have_is_refused(hub: HubServer, name: str) -> None:
    with pytest.raises(InputError, match=f"hf://{name}: .* Accepted: hf://OWNER/NAME"):
        bandgap.load_run(f"hf://{name}")


def test_hub_without_its_package_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"'\.\[hub\]'"):
        bandgap.load_run(RUN)
