"""`bandgap admin`: what it lists, a cancelled job, a raised quota, and a backup."""

import uuid
from pathlib import Path

import pytest

from bandgap.jobs.disk import person_usage
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.people import claim
from bandgap.jobs.store import Job, JobStore
from tests.commands import Run

WS = str(uuid.uuid4())


@pytest.fixture
def job(home: Path) -> Job:
    """A waiting job of a person with an upload."""
    home.mkdir()
    library = Library(Home(home))
    claim(library.database, WS, "ada@x.org")
    dataset = library.add_dataset(WS, "set", files=[("a.cif", bytes(2_000_000))])
    return JobStore(library.home).submit(
        WS, "check", title="Checking", payload={"dataset": dataset.id}, subject=dataset.id
    )


def test_people_jobs_and_disk_are_listed(run: Run, job: Job) -> None:
    assert run("admin", "people").stdout.splitlines()[-1].split() == [
        *("ada@x.org", "0.00", "GB", "10.00", "GB", "0", "1")
    ]
    assert f"{job.id[:8]}  ada@x.org  check  queued" in run("admin", "jobs").stdout
    disk = run("admin", "disk").stdout
    assert "uploads" in disk and "free" in disk


def test_job_of_anyone_is_cancelled_by_the_beginning_of_its_id(
    run: Run, job: Job, home: Path
) -> None:
    assert "Checking, of ada@x.org" in run("admin", "cancel", job.id[:8]).stdout
    cancelled = JobStore(Home(home)).job(WS, job.id)
    assert cancelled is not None and cancelled.state == "cancelled"
    refused = run("admin", "cancel", job.id[:8])
    assert refused.exit_code == 1 and "0 jobs that run or wait" in refused.stderr


def test_quota_of_one_person_is_raised(run: Run, job: Job, home: Path) -> None:
    assert "ada@x.org: 50 GB\n" in run("admin", "quota", "Ada@x.org", "50").stdout
    assert "yet" in run("admin", "quota", "adda@x.org", "50").stdout
    assert person_usage(Library(Home(home)), "ada@x.org").quota == 50_000_000_000


def test_backup_is_a_data_directory(run: Run, job: Job, home: Path, tmp_path: Path) -> None:
    run("admin", "backup", tmp_path / "copy")
    assert JobStore(Home(tmp_path / "copy")).job(WS, job.id) == job


def test_another_folder_is_refused(run: Run, home: Path) -> None:
    refused = run("admin", "people")
    assert refused.exit_code == 1 and str(home) in refused.stderr
