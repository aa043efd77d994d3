"""The zip of a run has what repeats it: structures, gaps and a script."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bandgap.jobs.run_inputs import run_inputs
from bandgap.jobs.worker import work_all
from bandgap.storage.run_archives import opened_run, run_archive
from tests.app.conftest import Workspace


def zip_of(workspace: Workspace, run: str, folder: Path) -> Path:
    """Write the zip of a run as the page Result does, and return it."""
    row = workspace.library.run(workspace.id, run)
    assert row is not None
    dataset = workspace.library.dataset(workspace.id, row.dataset)
    path = workspace.home.run_folder(run)
    manifest = json.loads((path / "manifest.json").read_text())
    inputs = run_inputs(workspace.library, row, dataset, manifest)
    file = folder / "mine.zip"
    file.write_bytes(run_archive(path, name="mine", inputs=inputs))
    return file


def test_script_in_the_zip_repeats_the_run(workspace: Workspace, tmp_path: Path) -> None:
    dataset = workspace.add_labelled()
    run, _ = workspace.add_run(dataset, method="kernel_ridge", source="none")
    work_all(workspace.home)
    file = zip_of(workspace, run, tmp_path)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "mine"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(["sh", folder / "repeat.sh"], env={**os.environ, "PATH": path}, check=True)
    first, repeated = (
        json.loads((where / "manifest.json").read_text()) for where in (folder, folder / "RUN")
    )
    assert repeated["split"] == first["split"]
    assert repeated["metrics"] == pytest.approx(first["metrics"], abs=1e-5)
    with opened_run(file) as opened:
        assert not (opened / "structures").exists()


def test_uploads_of_one_name_and_files_without_a_name_of_their_own_keep_their_ids(
    workspace: Workspace,
) -> None:
    poscar = b"x\n1.0\n5.6 0 0\n0 5.6 0\n0 0 5.6\nNa Cl\n1 1\nDirect\n0 0 0\n.5 .5 .5\n"
    dataset = workspace.add_checked([("POSCAR", poscar), ("POSCAR", poscar), ("a.vasp", poscar)])
    run, _ = workspace.add_run(dataset, method="kernel_ridge", source="none")
    row = workspace.library.run(workspace.id, run)
    assert row is not None
    stored = workspace.library.dataset(workspace.id, dataset)
    manifest = {"request": row.request.to_values(), "versions": {"bandgap": "0.1.0"}}
    files = run_inputs(workspace.library, row, stored, manifest)
    places = [place for place in files if place.startswith("structures/")]
    names = ["POSCAR/POSCAR", "2/POSCAR/POSCAR", "a.vasp"]
    assert places == [f"structures/{name}" for name in names]


def test_zip_of_a_demo_has_its_file(workspace: Workspace, tmp_path: Path) -> None:
    dataset = workspace.library.add_dataset(workspace.id, "demo crystals", origin="demo").id
    run, _ = workspace.add_run(dataset, n=200, n_test=320)
    row = workspace.library.run(workspace.id, run)
    assert row is not None
    files = run_inputs(
        workspace.library,
        row,
        workspace.library.dataset(workspace.id, dataset),
        {"request": row.request.to_values(), "versions": {"bandgap": "0.1.0"}},
    )
    assert isinstance(path := files["structures/crystals.extxyz.gz"], Path) and path.is_file()
    script = files["repeat.sh"]
    assert isinstance(script, bytes)
    assert b"--source demo" in script and b"--structures structures/crystals.extxyz.gz" in script
