"""A run that was made elsewhere: upload of its zip, list, result and predictions; refusals."""

import io
import json
import zipfile
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.worker import work_all
from bandgap.storage.run_archives import run_archive
from tests.app.conftest import Workspace, labelled, texts
from tests.app.test_actions import click, upload

Visit = Callable[..., AppTest]
Contents = dict[str, bytes]


@pytest.fixture(scope="module")
def archive(tested_waters: tuple[Workspace, str]) -> bytes:
    """The zip of a run on 36 waters, 24 held out, from another data directory."""
    example, run = tested_waters
    return run_archive(example.home.run_folder(run), name="waters-run")


def submit(at: AppTest, data: bytes, name: str = "waters-run.zip") -> AppTest:
    upload(at, "Zip of a run", [(name, data, "")])
    return click(at, "Add the run")


def changed(archive: bytes, change: Callable[[Contents], object]) -> bytes:
    """Return the archive with changed files."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    change(contents)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for name, data in contents.items():
            written.writestr(name, data)
    return buffer.getvalue()


def test_added_run_is_listed_shown_and_predicts(
    visit: Visit, workspace: Workspace, archive: bytes
) -> None:
    at = submit(visit("sources"), archive)
    (job,) = workspace.jobs.jobs(workspace.id)
    assert (job.kind, job.title) == ("add_run", "Checking the run waters-run")
    assert workspace.library.runs(workspace.id) == []  # not before it is checked
    work_all(workspace.home)
    at.run()
    assert "is in the list of runs. Its data set is not in this workspace" in texts(at)
    (run,) = workspace.library.runs(workspace.id)
    assert any(str(button.key).startswith("next-") for button in at.button)
    at = visit("result", run=run.id)
    assert "held-out structures;" in texts(at) and not at.error
    assert not [button for button in at.button if button.label.startswith("Refit")]
    for page in ("compare", "train"):
        assert not visit(page, run=run.id).error, page
    at = visit("compare")
    assert "Runs on waters (elsewhere)." in texts(at).replace("\\", "")
    assert at.data_editor[0].value["n"].tolist() == [36]
    dataset = workspace.add_checked([("new.xyz", NEW)], name="new")
    at = visit("predict", run=run.id)
    labelled(at.selectbox, "Structures").set_value(dataset).run()
    click(at, "Predict")
    work_all(workspace.home)
    (prediction,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert (prediction.state, prediction.payload["dataset"]) == ("finished", dataset)
    table = visit("predict", run=run.id).dataframe[0].value
    assert 3 < float(table["mean_eV"].iloc[0]) < 10


def test_same_zip_twice_is_one_run_also_after_its_deletion(
    visit: Visit, workspace: Workspace, archive: bytes
) -> None:
    submit(visit("sources"), archive)
    submit(visit("sources"), archive)
    work_all(workspace.home)
    (run,) = workspace.library.runs(workspace.id)
    assert "was added before" in texts(submit(visit("sources"), archive))
    delete_run(workspace.jobs, workspace.library, run)
    assert not workspace.home.run_folder(run.id).exists()
    submit(visit("sources"), archive)
    work_all(workspace.home)
    assert [row.id for row in workspace.library.runs(workspace.id)] == [run.id]


def test_same_zip_again_keeps_the_run_after_a_cancelled_proposal(
    visit: Visit, workspace: Workspace, archive: bytes
) -> None:
    submit(visit("sources"), archive)
    work_all(workspace.home)
    (run,) = workspace.library.runs(workspace.id)
    job = workspace.jobs.submit(
        workspace.id, "propose", title="Proposing", payload={"run": run.id}, subject=run.id
    )
    workspace.jobs.request_cancel(workspace.id, job.id)
    assert "was added before" in texts(submit(visit("sources"), archive))
    assert (workspace.home.run_folder(run.id) / "manifest.json").exists()


def other_number(contents: Contents) -> None:
    """Let a reference structure have had another prediction."""
    manifest = json.loads(contents["waters-run/manifest.json"])
    manifest["references"][0]["mean_eV"] += 1.0
    contents["waters-run/manifest.json"] = json.dumps(manifest).encode()


def without_metrics(contents: Contents) -> None:
    manifest = json.loads(contents["waters-run/manifest.json"])
    manifest["metrics"] = "none"
    contents["waters-run/manifest.json"] = json.dumps(manifest).encode()


def pickled_draws(contents: Contents) -> None:
    contents["waters-run/draws.safetensors"] = b"\x80\x04cposix\nsystem\n(S'touch evil'\ntR."


def without_draws(contents: Contents) -> None:
    del contents["waters-run/draws.safetensors"]


def source_instead(contents: Contents) -> None:
    contents["waters-run/manifest.json"] = b'{"kind": "source", "schema": 1}'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_number, "waters-run: the stored model fails its self-check"),
        (without_metrics, "manifest.json of the run lacks what the pages show"),
        (pickled_draws, "draws.safetensors cannot be read"),
        (without_draws, "draws.safetensors cannot be read"),
        (source_instead, "contains a source, not a run. Accepted: the zip of a run"),
    ],
    ids=["other prediction", "manifest", "pickle", "no draws", "source model"],
)
def test_wrong_run_is_refused_with_the_reason_and_leaves_nothing(
    visit: Visit,
    workspace: Workspace,
    archive: bytes,
    change: Callable[[Contents], None],
    message: str,
) -> None:
    at = submit(visit("sources"), changed(archive, change))
    work_all(workspace.home)
    at.run()
    text = at.error[0].value.replace("\\", "")
    assert message in text and str(workspace.home.folder) not in text
    assert workspace.library.runs(workspace.id) == []
    assert not list((workspace.home.folder / "runs").iterdir())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"text", "not a zip archive that can be unpacked"),
        (None, "contains no readable manifest.json"),
    ],
    ids=["no zip", "empty zip"],
)
def test_upload_without_a_run_is_refused_before_it_is_stored(
    visit: Visit, workspace: Workspace, data: bytes | None, message: str
) -> None:
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    at = submit(visit("sources"), data or buffer.getvalue(), "a.zip")
    assert message in at.error[0].value and not workspace.jobs.jobs(workspace.id)
    assert "No file was chosen. Choose the zip of a run." in texts(
        click(visit("sources"), "Add the run")
    )


def test_archive_that_unpacks_to_more_than_the_quota_is_refused(
    visit: Visit, workspace: Workspace, archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.00001")
    at = submit(visit("sources"), archive)
    assert "GB of at most" in at.error[0].value and not workspace.jobs.jobs(workspace.id)


NEW = b"3\nProperties=species:S:1:pos:R:3\nO 0 0 0.119\nH 0 0.76 -0.477\nH 0 -0.76 -0.477\n"
