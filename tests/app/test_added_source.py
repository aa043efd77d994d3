"""Source models that were trained in a shell: upload, list on the pages, and transfer."""

import functools
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.descriptors import PRESETS, config_for
from bandgap.jobs.added_sources import add_folder
from bandgap.jobs.worker import work_all
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.training import TrainingConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from bandgap.structures import read_structures
from tests.app.conftest import Workspace, labelled, texts
from tests.app.small_runs import train_source
from tests.app.test_actions import click, upload
from tests.app.test_crystal_source import add_perovskites, perovskites
from tests.app.test_train import tick

Visit = Callable[..., AppTest]
SourceTraining = Callable[..., Path]
PRESS = "Add the source model"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_source(tmp_path_factory.mktemp("source") / "waters")


def zip_of_folder(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"waters/{path.name}")
    return buffer.getvalue()


def submit_archive(at: AppTest, name: str, data: bytes) -> AppTest:
    """Choose a file in the form and press its button."""
    upload(
        at,
        "Zip of the folder of a source model that was trained in a shell",
        [(name, data, "")],
    )
    return click(at, PRESS)


def test_uploaded_source_is_checked_listed_and_transferred_from(
    visit: Visit, workspace: Workspace, source: Path
) -> None:
    dataset = workspace.add_labelled()
    at = submit_archive(visit("sources"), "waters.zip", zip_of_folder(source))
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["add_source"])
    assert (
        job.title == "Checking the source model waters" and at.query_params["source"] == job.subject
    )
    work_all(workspace.home)
    at = visit("sources", source=job.subject)
    assert list(at.dataframe[0].value["source model"]) == ["demo molecules", "waters"]
    assert list(at.dataframe[0].value["trained"]) == ["with the package", "elsewhere"]
    assert "molecules.extxyz (80 structures; H O)" in texts(at).replace("\\", "")
    at = visit("train", source=job.subject, data=dataset)
    box = labelled(at.selectbox, "Source model")
    assert (
        box.options == ["demo molecules", "waters", "No source model"] and box.value == job.subject
    )
    click(tick(tick(at, "Fine-tuning"), "BTL-PCP", on=False), "Start training")
    work_all(workspace.home)
    (transfer,) = workspace.jobs.jobs(workspace.id, kinds=["transfer"])
    assert (transfer.state, transfer.error, transfer.payload["source"]) == (
        "finished",
        "",
        job.subject,
    )


def any_crystals() -> SourceTraining:
    return functools.partial(train_source_folder, descriptor=config_for(species=("Cs", "I", "Pb")))


def of_graphs() -> SourceTraining:
    pytest.importorskip("torch_geometric")
    return functools.partial(train_source_folder, descriptor=GraphConfig(("Cs", "I", "Pb")))


def of_a_potential() -> SourceTraining:
    pytest.importorskip("chgnet")
    return functools.partial(train_source_folder, descriptor=PRESETS["chgnet"])


@pytest.mark.parametrize("training", [any_crystals, of_graphs, of_a_potential])
def test_source_of_every_kind_is_listed_and_transferred_from(
    visit: Visit,
    workspace: Workspace,
    tmp_path: Path,
    training: Callable[[], SourceTraining],
) -> None:
    records = read_structures(perovskites(24), "perovskites.extxyz")
    config = SourceConfig(hidden=(8, 4), training=TrainingConfig(max_epochs=3))
    gaps = np.linspace(1.2, 2.4, 24)
    folder = training()(
        records, gaps, config=config, out=tmp_path / "trained", seed=0, device="cpu"
    )
    job = add_folder(workspace.jobs, workspace.library, workspace.id, folder, name="crystals")
    dataset = add_perovskites(workspace)
    work_all(workspace.home)
    at = visit("sources", source=job.subject)
    assert list(at.dataframe[0].value["trained"]) == ["with the package", "elsewhere"]
    (descriptor,) = (str(e.value) for e in at.markdown if str(e.value).startswith("**Descriptor**"))
    manifest = json.loads((folder / "manifest.json").read_text())
    n_features = manifest["network"]["n_features"]
    assert n_features and descriptor.startswith(f"**Descriptor**: {n_features:,} features")
    workspace.add_run(dataset, method="fine_tune", source=job.subject)
    work_all(workspace.home)
    assert [(j.state, j.error) for j in workspace.jobs.jobs(workspace.id, kinds=["transfer"])] == [
        ("finished", "")
    ]


def test_upload_without_a_source_model_shows_what_is_expected(
    visit: Visit, workspace: Workspace
) -> None:
    at = submit_archive(visit("sources"), "a.zip", b"no archive")
    assert workspace.jobs.jobs(workspace.id, kinds=["add_source"]) == []
    assert "not a zip archive that can be unpacked" in at.error[0].value
    assert list(at.dataframe[0].value["source model"]) == ["demo molecules"]


def test_form_without_a_file_shows_an_error(visit: Visit) -> None:
    assert "No file was chosen. Choose the zip of a source model's folder." in texts(
        click(visit("sources"), PRESS)
    )
