"""Source models: the list, training on a data set or a file of the server, and ownership."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.progress import Update
from bandgap.jobs.deletions import bin_source, empty_bin
from bandgap.jobs.entries import SystemEntry
from bandgap.jobs.server_files import VARIABLE
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, labelled, texts
from tests.app.small_runs import figure, workspace_with_source
from tests.app.test_actions import click
from tests.app.test_train import tick
from tests.unit.jobs.payloads import source_payload

Visit = Callable[..., AppTest]
PRESS = "Train the source model"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str]:
    """A workspace with a shipped source and one that its worker trained on 60 waters."""
    example = workspace_with_source(tmp_path_factory)
    source = str(uuid.uuid4())
    numbers = {
        "hidden": [6, 4],
        "max_epochs": 4,
        "seed": 0,
        "device": "cpu",
        "licence": "CC-BY-4.0",
    }
    payload = source_payload(
        source=source, name="my waters", dataset=example.add_labelled(), **numbers
    )
    example.jobs.submit(example.id, "train_source", title="t", payload=payload, subject=source)
    work_all(example.home)
    return example, source


@pytest.fixture
def trained_source(
    trained: tuple[Workspace, str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Workspace, str]:
    monkeypatch.setenv("BANDGAP_HOME", str(trained[0].home.folder))
    return trained


def trainings(workspace: Workspace) -> list[Job]:
    return workspace.jobs.jobs(workspace.id, kinds=["train_source"])


def running(workspace: Workspace) -> Job:
    payload = source_payload(source=str(uuid.uuid4()), name="new")
    job = workspace.jobs.submit(
        workspace.id, "train_source", title="tr", payload=payload, subject=payload["source"]
    )
    assert workspace.jobs.claim("a worker", lanes=["long"]) is not None
    return job


def test_trained_source_shows_card_descriptor_and_learning_curve(
    visit: Visit, trained_source: tuple[Workspace, str]
) -> None:
    at = visit("sources", ws=trained_source[0].id, source=trained_source[1])
    table = at.dataframe[0].value
    assert list(table["source model"]) == ["demo molecules", "my waters"]
    assert list(table["trained"]) == ["with the package", "here"] and table["structures"][1] == 60
    text = texts(at)
    assert "**Licence of the data**: CC\\-BY\\-4.0" in text and "**Level of theory**: PBE" in text
    assert " features, for H O" in text
    assert "feature statistics, Fisher information" in text
    assert at.warning[0].value.startswith("12 of 12 test structures have a near-copy")
    curve = figure(at, 0)
    assert curve["layout"]["xaxis"]["title"]["text"] == "epoch"
    assert "(eV)" in curve["layout"]["yaxis"]["title"]["text"]
    assert [trace["name"] for trace in curve["data"][:2]] == ["learned from", "held out"]


def test_trained_source_can_be_selected_only_in_its_workspace(
    visit: Visit, trained_source: tuple[Workspace, str]
) -> None:
    at = click(
        visit("sources", ws=trained_source[0].id, source=trained_source[1]),
        "Transfer from my waters",
    )
    assert at.title[0].value == "Train"
    assert at.selectbox[1].options == ["demo molecules", "my waters", "No source model"]
    assert at.selectbox[1].value == trained_source[1]
    other = visit("sources", ws=str(uuid.uuid4()), source=trained_source[1])
    assert list(other.dataframe[0].value["source model"]) == [
        "demo molecules"
    ] and "my waters" not in texts(other)


def test_training_from_a_data_set_is_one_job_however_often_pressed(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_labelled()
    at = click(click(visit("sources"), PRESS), PRESS)
    (job,) = trainings(workspace)
    assert (job.payload["dataset"], job.payload["name"]) == (dataset, "trained on waters")
    assert (job.payload["request"]["hidden"], job.payload["request"]["preset"]) == ([128, 64], None)
    assert at.query_params["source"] == job.subject


def test_source_that_is_trained_again_takes_the_place_of_the_deleted_one(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    click(visit("sources"), PRESS)
    (first,) = trainings(workspace)
    workspace.jobs.end(first.id, "finished")
    bin_source(workspace.jobs, workspace.library, workspace.id, first.subject, name="mine")
    click(visit("sources"), PRESS)
    (again,) = trainings(workspace)
    folder = workspace.home.source_folder(again.subject)
    folder.mkdir(parents=True)
    workspace.jobs.end(again.id, "finished")
    empty_bin(workspace.jobs, workspace.library, workspace.id)
    assert again.subject == first.subject and folder.exists()


def test_file_of_the_server_is_offered_and_trained_from(
    visit: Visit, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "offered"
    folder.mkdir()
    (folder / "df_5k.json").write_text(json.dumps({}))
    (folder / "out.json").symlink_to(tmp_path / "bandgap.sqlite3")
    monkeypatch.setenv(VARIABLE, str(folder))
    at = visit("sources")
    files = labelled(at.selectbox, "Labelled structures")
    assert files.options == ["df_5k.json (2 bytes)"] and VARIABLE in files.help
    labelled(at.selectbox, "Gaps at").set_value("gw")
    click(at, PRESS)
    (job,) = trainings(workspace)
    assert (job.payload["file"], job.payload["level"]) == (
        "df_5k.json",
        "gw",
    ) and "dataset" not in job.payload


@pytest.mark.parametrize("installed", [True, False])
def test_graph_network_is_trained_where_its_package_is_installed(
    visit: Visit, workspace: Workspace, installed: bool
) -> None:
    workspace.library.register_system(SystemEntry(graph=installed))
    workspace.add_labelled()
    at = visit("sources")
    at.selectbox(key="source-preset").set_value("megnet").run()
    assert at.selectbox(key="source-hidden-True").value == "1024 and 512"
    button = labelled(at.button, PRESS)
    message = (
        "A graph network needs a package that is not installed on this server: `pip install -c "
        "constraints.txt '.[graph"
    )
    assert (message in texts(at), button.disabled) == (not installed, not installed)
    if installed:
        click(at, PRESS)
        (job,) = trainings(workspace)
        assert [job.payload["request"][key] for key in ("network", "preset", "hidden")] == [
            "megnet",
            None,
            [1024, 512],
        ]


def test_estimate_rests_on_earlier_trainings_of_the_server(
    visit: Visit, trained_source: tuple[Workspace, str]
) -> None:
    text = texts(visit("sources", ws=trained_source[0].id))
    assert "by 1 earlier run of the same kind on this server" in text


def test_running_training_shows_progress_and_can_be_cancelled(
    visit: Visit, workspace: Workspace
) -> None:
    job = running(workspace)
    update = Update("training the source network", 30, 150, values={"validation_mse": 0.21})
    workspace.jobs.add_event(job.id, "progress", update, since=0.0)
    at = visit("sources")
    assert "validation mse 0.21" in texts(at) and at.get("progress")[0].proto.value == 20
    click(at, "Cancel")
    assert workspace.jobs.cancel_requested(job.id)


def test_source_with_a_damaged_folder_shows_what_is_safe_and_can_be_deleted(
    visit: Visit, workspace: Workspace
) -> None:
    job = running(workspace)
    workspace.jobs.end(job.id, "finished")
    at = visit("sources", source=job.subject)
    assert (
        "new: its folder cannot be read" in at.error[0].value
        and "runs made with it are safe" in at.error[0].value
    )
    click(at, "Delete this source model")
    assert trainings(workspace) == [] and "source" not in at.query_params


def test_transfer_from_a_trained_source_finishes_and_names_its_data(
    visit: Visit, trained_source: tuple[Workspace, str]
) -> None:
    example, source = trained_source
    at = visit("train", ws=example.id, source=source)
    assert labelled(at.selectbox, "Source model").value == source
    click(tick(tick(at, "Fine-tuning"), "BTL-PCP", on=False), "Start training")
    work_all(example.home)
    (job,) = example.jobs.jobs(example.id, kinds=["transfer"])
    assert (job.state, job.error, job.payload["source"]) == ("finished", "", source)
    at = visit("result", ws=example.id, run=job.subject, tab="details")
    text = texts(at).replace("\\", "")
    assert (
        "**Data**: waters.extxyz (60 structures; H O)" in text
        and "**Licence of the data**: CC-BY-4.0" in text
    )
    assert "of 60 structures, 60 are in the source data" in text
