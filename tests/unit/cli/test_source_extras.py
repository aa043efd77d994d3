"""`bandgap source-extras`, and the extras of sources of several sets."""

import json
from pathlib import Path

from tests.unit.cli.conftest import Run


def facts_of(source: Path) -> tuple[dict[str, float], list[str]]:
    manifest = json.loads((source / "manifest.json").read_text())
    return manifest["tested"], manifest["warnings"]


def test_source_extras_are_added_to_a_trained_source(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    data = ("--structures", folder / "molecules.extxyz", "--label", "gap_eV")
    trained = run(
        "train-source", *data, *f"--species H O --out {source} --snapshots 2 --device cpu".split()
    )
    assert trained.exit_code == 0
    words = "source, beyond its point estimate: feature statistics, Fisher information"
    assert f"{words}, 2 snapshots\n" in trained.stdout
    entries = facts_of(source)
    added = run("source-extras", "--source", source, *data, "--variational", "--device", "cpu")
    assert added.exit_code == 0
    assert "variational RMSE (eV)" in added.stdout
    assert f"{words}, variational posterior, 2 snapshots\n" in added.stdout
    assert facts_of(source) == entries and entries[0]["n"] and entries[1]


def test_extras_are_trained_with_several_sets_and_added_to_one_of_them(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    near = f"near={folder / 'molecules.extxyz'}"
    far = f"far={folder / 'targets.extxyz'}"
    trained = run(
        *(
            f"train-sources {near} {far} --label gap_eV --species H O --hidden 8,4 "
            f"--steps 20 --snapshots 2 --members 2 --out {source} --device cpu"
        ).split()
    )
    assert trained.exit_code == 0
    words = "beyond its point estimate: feature statistics, Fisher information"
    assert f"near, {words}, 2 snapshots\n" in trained.stdout
    added = run(
        *(
            f"source-extras --source {source} {near} {far} --head far --label gap_eV "
            "--snapshots 3 --device cpu"
        ).split()
    )
    assert added.exit_code == 0
    assert f"near, {words}, 2 snapshots\n" in added.stdout
    assert f"far, {words}, 3 snapshots\n" in added.stdout
