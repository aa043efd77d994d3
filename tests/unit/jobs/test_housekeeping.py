"""Rename and delete data sets, quotas, and what stays on the disk."""

import os
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.disk import PersonUsage, person_usage, set_quota
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import (
    delete_dataset,
    drop_unused_uploads,
    rename_dataset,
)
from bandgap.jobs.library import Library
from bandgap.jobs.people import claim
from bandgap.jobs.rows import Verdict
from bandgap.jobs.store import JobStore

WS, OTHER = str(uuid.uuid4()), str(uuid.uuid4())


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Home(tmp_path))


def add(library: Library, *files: tuple[str, bytes], name: str = "set", workspace: str = WS) -> str:
    dataset = library.add_dataset(workspace, name, files=files)
    verdicts = [Verdict(text, text, "ready", "", "H2", 2, False, None, {}) for text, _ in files]
    library.save_verdicts(dataset.id, verdicts)
    library.save_gaps(
        dataset.id, np.full(len(files), 2.0), labels={"source": "x"}, level_of_theory="PBE"
    )
    folder = library.home.dataset_folder(dataset.id)
    folder.mkdir(parents=True)
    (folder / "shapes.safetensors").write_bytes(bytes(100))
    return dataset.id


def make_old(library: Library) -> None:
    for path in (library.home.folder / "uploads").iterdir():
        os.utime(path, (time.time() - 3 * 3600, time.time() - 3 * 3600))


def stored(library: Library) -> set[bytes]:
    return {path.read_bytes() for path in (library.home.folder / "uploads").iterdir()}


def test_renamed_data_set_keeps_everything_else(library: Library) -> None:
    dataset = add(library, ("a", b"1"))
    rename_dataset(library, WS, dataset, "  a  better name ")
    assert library.dataset(WS, dataset).name == "a better name"
    assert library.counts(dataset)["labelled"] == 1


@pytest.mark.parametrize("name", ["", "   ", "x" * 121])
def test_name_of_no_length_or_of_too_much_is_refused(library: Library, name: str) -> None:
    with pytest.raises(InputError, match="Accepted: 1 to 120"):
        rename_dataset(library, WS, add(library, ("a", b"1")), name)


def test_deletion_removes_own_files_and_leaves_shared_ones(library: Library) -> None:
    first = add(library, ("a", b"own"), ("b", b"shared"))
    second = add(library, ("c", b"shared"), workspace=OTHER)
    make_old(library)
    delete_dataset(library, WS, first)
    assert stored(library) == {b"shared"}
    assert (
        library.datasets(WS) == []
        and library.files(first) == []
        and library.counts(first)["all"] == 0
    )
    assert not library.home.dataset_folder(first).exists()
    assert library.counts(second)["all"] == 1


def test_file_that_was_uploaded_again_this_minute_stays_until_the_next_sweep(
    library: Library,
) -> None:
    dataset = add(library, ("a", b"own"))
    delete_dataset(library, WS, dataset)
    assert stored(library) == {b"own"}
    make_old(library)
    drop_unused_uploads(library)
    assert stored(library) == set()


def test_sweep_keeps_files_of_data_sets_and_removes_those_of_killed_uploads(
    library: Library,
) -> None:
    add(library, ("a", b"kept"))
    (library.home.folder / "uploads" / f"{'0' * 64}.77.part").write_bytes(b"half a file")
    deleted_folder = library.home.dataset_folder(str(uuid.uuid4()))
    deleted_folder.mkdir()
    make_old(library)
    drop_unused_uploads(library)
    assert stored(library) == {b"kept"}
    assert not deleted_folder.exists() and len(list(deleted_folder.parent.iterdir())) == 1


def test_sweep_with_a_new_store_keeps_all_files(
    library: Library,
) -> None:
    dataset = add(library, ("a", b"kept"))
    make_old(library)
    library.database.path.unlink()
    drop_unused_uploads(Library(library.home))
    assert stored(library) == {b"kept"} and library.home.dataset_folder(dataset).exists()


def test_data_set_that_a_job_works_on_is_not_deleted(library: Library) -> None:
    dataset = add(library, ("a", b"1"))
    jobs = JobStore(library.home)
    job = jobs.submit(
        WS, "transfer", title="BTL-PCP, n = 40", payload={"dataset": dataset}, subject="run"
    )
    with pytest.raises(
        InputError, match=r"in use by a job \(BTL-PCP, n = 40\)\. Cancel it or wait"
    ):
        delete_dataset(library, WS, dataset)
    jobs.request_cancel(WS, job.id)
    delete_dataset(library, WS, dataset)
    assert library.datasets(WS) == []


def test_upload_over_the_quota_names_it_and_stores_nothing(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.00001")
    library.add_dataset(WS, "first", files=[("a", bytes(6_000))])
    with pytest.raises(
        InputError, match=r"takes 0\.00 GB of at most 1e-05 GB, and this adds .*BANDGAP_QUOTA_GB"
    ):
        library.add_dataset(WS, "second", files=[("b", bytes(6_001))])
    assert [d.name for d in library.datasets(WS)] == ["first"]
    library.add_dataset(OTHER, "of another workspace", files=[("b", bytes(6_001))])
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0")
    library.add_dataset(WS, "without a limit", files=[("b", bytes(6_001))])


def test_quota_of_a_person_counts_all_own_workspaces_and_can_be_raised(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.00001")
    for workspace in (WS, OTHER):
        claim(library.database, workspace, "ada@x.org")
    library.add_dataset(WS, "first", files=[("a", bytes(8_000))])
    assert not caplog.messages
    library.add_dataset(OTHER, "near", files=[("b", bytes(1_000))])
    assert "takes 0.00 GB of at most 1e-05 GB" in caplog.text
    with pytest.raises(InputError, match="What is yours takes"):
        library.add_dataset(OTHER, "too much", files=[("c", bytes(2_000))])
    set_quota(library, "ada@x.org", 20_000)
    library.add_dataset(OTHER, "with more", files=[("c", bytes(2_000))])
    assert person_usage(library, "ada@x.org") == PersonUsage(11_000, 20_000)
