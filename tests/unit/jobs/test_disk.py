"""Disk space of a workspace: its uploads and runs, without those of other workspaces."""

import subprocess
import sys

import pytest

from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.runs.requests import TransferRequest

MINE = "00000000-0000-4000-8000-00000000000a"
OTHERS = "00000000-0000-4000-8000-00000000000b"


def add_run(library, workspace, run_id, n_bytes):
    facts = {
        "dataset": "d",
        "source": "demo",
        "title": "t",
        "request": TransferRequest(method="nptl"),
    }
    library.add_run(workspace, job="j", run_id=run_id, **facts)
    folder = library.home.run_folder(run_id) / "deep"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(n_bytes))


def test_workspace_usage_counts_uploads_and_runs_of_one_workspace(tmp_path):
    library = Library(Home(tmp_path))
    library.add_dataset(MINE, "mine", files=[("a.xyz", bytes(100)), ("b.xyz", bytes(50))])
    library.add_dataset(MINE, "to predict", purpose="prediction", files=[("c.xyz", bytes(7))])
    library.add_dataset(OTHERS, "not mine", files=[("a.xyz", bytes(1000))])
    add_run(library, MINE, "11111111-0000-4000-8000-000000000000", 30)
    add_run(library, OTHERS, "22222222-0000-4000-8000-000000000000", 500)
    usage = workspace_usage(library, MINE)
    assert (usage.uploads, usage.runs) == (157, 30)


def test_full_disk_is_called_so(tmp_path):
    """SQLite calls it an I/O error where the file of its shared memory cannot grow."""
    script = """if True:
        import sys
        from pathlib import Path
        from bandgap.jobs.database import Database
        path = Path(sys.argv[1], "bandgap.sqlite3")
        Database(path)
        try:
            path.with_name("rest").write_bytes(bytes(2_000_000))
        except OSError:
            Database(path)
    """
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    in_mount = ["unshare", "-rm", "sh", "-c"]
    if subprocess.run([*in_mount, mount], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    command = f'{mount} && {sys.executable} -c "$0" {tmp_path}'
    done = subprocess.run([*in_mount, command, script], check=False, capture_output=True, text=True)
    assert "StoreError" in done.stderr and "the disk is full. Free some space" in done.stderr
