"""`bandgap source-extras`, and the extras of sources of several sets."""

import json
from pathlib import Path

import pytest

from bandgap.datasets.demo import demo_source_folder
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


def test_source_extras_of_other_structures_are_refused(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    data = ("--structures", folder / "molecules.extxyz", "--label", "gap_eV")
    run("train-source", *data, "--species", "H", "O", "--out", source, "--device", "cpu")
    result = run(
        *(
            f"source-extras --source {source} --structures "
            f"{folder / 'targets.extxyz'} --label gap_eV"
        ).split()
    )
    assert result.exit_code == 1
    assert (
        "Give the structures and gaps that it was trained on, in the same order." in result.stderr
    )


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


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--label", "gap_eV"), 2, "this is a source of several sets: give them as NAME=PATH"),
        (("near=x",), 2, "their gaps by --label"),
        (
            ("near=x", "--label", "gap_eV", "--head", "far"),
            1,
            "--head 'far': there is no such set among those given",
        ),
        (
            ("gw=MOLECULES", "--label", "gap_eV"),
            1,
            "source set 'gw' does not exist in this source. Accepted: near",
        ),
    ],
    ids=["no sets", "no label", "no such head", "other set"],
)
def test_extras_of_several_sets_that_are_not_named_well_are_refused(
    run: Run, folder: Path, tmp_path: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    source = tmp_path / "source"
    near = folder / "molecules.extxyz"
    trained = run(
        *(
            f"train-sources near={near} --label gap_eV --species H O --hidden 4 --steps "
            f"2 --out {source} --device cpu"
        ).split()
    )
    assert trained.exit_code == 0
    command = [word.replace("MOLECULES", str(near)) for word in words]
    result = run("source-extras", "--source", source, *command)
    assert result.exit_code == code
    assert text in " ".join(result.stderr.replace("│", " ").split())


def test_sets_by_name_are_refused_for_a_source_of_one_set(run: Run, folder: Path) -> None:
    result = run("source-extras", "--source", folder.parent / "none", "near=x", "--label", "gap_eV")
    assert result.exit_code == 1
    result = run("source-extras", "--source", demo_source_folder(), "near=x", "--label", "gap_eV")
    assert result.exit_code == 2
    assert "this is a source of one set" in " ".join(result.stderr.split())
