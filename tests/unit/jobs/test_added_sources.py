"""Source models from elsewhere: added as a folder or its zip, checked, listed, refused."""

import io
import json
import shutil
import uuid
import zipfile
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.added_sources import SOURCES, add_folder
from bandgap.jobs.additions import ARCHIVE
from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.housekeeping import drop_unfinished_results
from bandgap.jobs.library import Library
from bandgap.jobs.sources import delete_source, source_path, sources_of
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import work_all
from bandgap.sources.training import train_source_folder

WS = str(uuid.uuid4())
STRANGER = str(uuid.uuid4())


@pytest.fixture
def home(tmp_path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory) -> Path:
    """A source model that was trained elsewhere, with an additional file in its folder."""
    folder = train_source_folder(
        world.source_records,
        world.source_gaps_eV,
        descriptor=world.descriptor,
        config=world.source_config,
        out=tmp_path_factory.mktemp("trained") / "mine",
        seed=0,
        level_of_theory="PBE",
        device="cpu",
    )
    (folder / "notes.txt").write_text("mine alone")
    return folder


def zipped(folder: Path, *, below: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, below + str(path.relative_to(folder)))
    return packed.getvalue()


def changed(folder: Path, out: Path, **values) -> Path:
    """Return a copy of a source with a changed manifest."""
    shutil.copytree(folder, out)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | values))
    return out


def by_folder(home: Home, folder: Path, *, workspace: str = WS) -> Job:
    return add_folder(JobStore(home), Library(home), workspace, folder)


def by_archive(home: Home, data: bytes) -> Job:
    return SOURCES.add_archive(JobStore(home), Library(home), WS, data, name="uploaded")


def ended(home: Home, job: Job) -> Job:
    work_all(home)
    stored_job = JobStore(home).job(job.workspace, job.id)
    assert stored_job is not None
    return stored_job


def sources_by_id(home: Home, workspace: str = WS) -> dict:
    return sources_of(JobStore(home), Library(home), workspace)


def test_added_folder_is_the_workspace_s_own_with_its_card(home, trained):
    job = ended(home, by_folder(home, trained))
    assert (job.state, job.error) == ("finished", "")
    (added,) = sources_by_id(home).values()
    assert (added.title, added.trained, added.problem) == ("mine", "elsewhere", "")
    assert (added.card["level_of_theory"], added.card["n_structures"]) == ("PBE", 36)
    assert Path(source_path(Library(home), WS, job.subject)) == home.source_folder(job.subject)
    assert (
        not (added.folder / "notes.txt").exists()
        and (added.folder / "weights.safetensors").exists()
    )
    assert workspace_usage(Library(home), WS).runs == sum(
        path.stat().st_size for path in added.folder.iterdir()
    )
    assert sources_by_id(home, STRANGER) == {}


def test_same_source_is_added_once_to_each_workspace(home, trained):
    first = ended(home, by_folder(home, trained))
    assert by_folder(home, trained).id == first.id
    other = by_folder(home, trained, workspace=STRANGER)
    assert other.subject != first.subject and len(sources_by_id(home)) == 1


@pytest.mark.parametrize("below", ["", "runs/mine/"])
def test_archive_may_contain_the_source_in_a_folder(home, trained, below):
    job = ended(home, by_archive(home, zipped(trained, below=below)))
    assert (job.state, job.error) == ("finished", "")
    folder = sources_by_id(home)[job.subject].folder
    assert {path.name for path in folder.iterdir()} == {
        p.name for p in trained.iterdir() if p.suffix != ".txt"
    }
    assert not (folder / ARCHIVE).exists()


def test_source_of_several_sets_has_one_card(home, joint_folder):
    job = ended(home, by_archive(home, zipped(joint_folder)))
    assert (job.state, job.error) == ("finished", "")
    source = sources_by_id(home)[job.subject]
    assert (source.card["level_of_theory"], source.card["n_structures"]) == ("PBE, GW", 36)
    assert source.parts >= {"fisher", "variational", "snapshots"}
    assert {text.partition(":")[0] for text in source.manifest["warnings"]} == {"plain", "other"}


def test_what_is_no_source_is_refused_before_anything_is_stored(home, tmp_path, trained):
    with pytest.raises(
        InputError,
        match="has no readable manifest.json, not of a source model. Give the folder that",
    ):
        by_folder(home, tmp_path)
    run = changed(trained, tmp_path / "run", kind="run")
    with pytest.raises(InputError, match="is the folder of a run, not of a source model"):
        by_folder(home, run)
    assert not (home.folder / "sources").exists()


def failure(home: Home, job: Job) -> str:
    """Return why a check failed, and assert that the folder of the source is removed."""
    job = ended(home, job)
    assert (
        job.state == "failed"
        and sources_by_id(home) == {}
        and not home.source_folder(job.subject).exists()
    )
    return job.error


def test_weights_that_are_not_those_of_the_manifest_are_refused(home, tmp_path, trained):
    manifest = json.loads((trained / "manifest.json").read_text())
    gaps = {"mean_eV": manifest["gaps"]["mean_eV"] + 1.0, "sd_eV": manifest["gaps"]["sd_eV"]}
    folder = changed(trained, tmp_path / "other", gaps=gaps)
    error = failure(home, by_folder(home, folder))
    assert f"eV, {manifest['references'][0]['mean_eV']:.3f} eV when it was stored" in error
    assert failure(home, by_folder(home, folder)) == error  # it may be tried again


def test_archives_without_a_source_say_what_is_expected(home, tmp_path, trained):
    with pytest.raises(InputError, match="uploaded: not a zip archive that can be unpacked"):
        by_archive(home, b"no zip")
    (tmp_path / "a.cif").write_text("data_a")
    with pytest.raises(InputError, match="contains no readable manifest.json, not a source model"):
        by_archive(home, zipped(tmp_path))
    run = changed(trained, tmp_path / "run", kind="run")
    assert "contains a run, not a source model. Give the folder that" in failure(
        home, by_archive(home, zipped(run))
    )
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(trained / "manifest.json", bare)
    assert "weights.safetensors" in failure(home, by_archive(home, zipped(bare)))


def test_archive_that_leads_out_of_its_folder_is_refused(home, trained):
    assert "leads out of the archive" in failure(
        home, by_archive(home, _with(trained, "../../x.json"))
    )
    assert not list(home.folder.glob("**/x.json"))


def test_manifest_that_names_another_folder_is_refused(home, tmp_path, trained, joint_folder):
    """A member's path must not open what belongs to another workspace."""
    theirs = ended(home, by_folder(home, trained, workspace=STRANGER)).subject
    for path in (f"../{theirs}", str(home.source_folder(theirs))):
        folder = changed(
            joint_folder, tmp_path / uuid.uuid4().hex, members=[{"plain": path, "other": path}]
        )
        assert "names a folder outside of its own" in failure(
            home, by_archive(home, zipped(folder))
        )


def test_learning_curve_of_words_is_refused(home, tmp_path, trained):
    folder = changed(trained, tmp_path / "curve", history=[["a", "b"]])
    assert "The errors by epoch in the source model's manifest.json are no numbers." in failure(
        home, by_folder(home, folder)
    )


def test_source_whose_queued_check_was_cancelled_is_removed_and_may_be_added_again(home, trained):
    finished = ended(home, by_folder(home, trained))
    waiting = by_archive(home, zipped(trained))
    unchecked_folder = home.source_folder(waiting.subject)
    drop_unfinished_results(Library(home))
    assert unchecked_folder.exists()  # as the check is still to come
    JobStore(home).request_cancel(WS, waiting.id)
    drop_unfinished_results(Library(home))
    assert not unchecked_folder.exists() and home.source_folder(finished.subject).exists()
    assert ended(home, by_archive(home, zipped(trained))).state == "finished"
    drop_unfinished_results(Library(home))
    assert unchecked_folder.exists()


def test_added_source_is_deleted_with_its_folder(home, trained):
    job = ended(home, by_folder(home, trained))
    delete_source(JobStore(home), Library(home), WS, job.subject)
    assert sources_by_id(home) == {} and not home.source_folder(job.subject).exists()


def test_full_workspace_takes_no_source(home, trained, monkeypatch):
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.000001")
    with pytest.raises(InputError, match="What is yours takes 0.00 GB of at most"):
        by_folder(home, trained)
    assert not (home.folder / "sources").exists()


def _with(folder: Path, name: str) -> bytes:
    packed = io.BytesIO(zipped(folder))
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, "{}")
    return packed.getvalue()
