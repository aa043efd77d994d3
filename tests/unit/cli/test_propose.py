"""`bandgap propose`: the table, the molecules, known ones marked, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
from ase.io import write
from rdkit.Chem import CanonSmiles

from bandgap.datasets.demo import demo_source_folder
from bandgap.proposals.chemistry import embedded_atoms
from bandgap.structures import read_paths
from tests.unit.cli.conftest import Run, commands_in, rows_of

RINGS = ("c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "c1cc[nH]c1", "c1cnccn1")
ENDS = ("C", "O", "F", "N#C")


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 aromatic molecules with made-up gaps that fall with the number of atoms."""
    path = tmp_path_factory.mktemp("molecules") / "molecules.extxyz"
    frames = []
    for ring in RINGS:
        for end in ENDS:
            atoms = embedded_atoms(f"{end}{ring}", seed=1)
            assert atoms is not None
            atoms.info = {"id": f"m{len(frames)}", "gap_eV": 5.0 - 0.1 * len(atoms)}
            frames.append(atoms)
    write(path, frames, format="extxyz")
    return path


@pytest.fixture(scope="module")
def organic_run(molecules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on these molecules; tests must not change it."""
    folder = tmp_path_factory.mktemp("organic") / "run"
    source = folder.with_name("source")  # elsewhere, the data of the demo are not read for copies
    shutil.copytree(demo_source_folder(), source)
    with commands_in(folder.parent) as run:
        result = run(
            *("transfer", "--source", source, "--structures", molecules),
            *("--label", "gap_eV", "--method", "last_layer_ridge", "--n", "20", "--out", folder),
        )
    assert result.exit_code == 0, result.output
    return folder


def test_mutations_are_ranked_written_and_read_back(
    run: Run, organic_run: Path, molecules: Path, tmp_path: Path
) -> None:
    out, structures = tmp_path / "new" / "proposed.csv", tmp_path / "new" / "proposed.extxyz"
    words = ("propose", "--model", organic_run, "--structures", molecules, "--window", "3.4:3.8")
    numbers = ("--count", "5", "--generated", "60", "--compared", "6")
    result = run(*words, *numbers, "--out", out, "--extxyz", structures)
    assert result.exit_code == 0, result.output
    assert "5 new and" in result.stdout
    assert "The crystal packing is unknown" in result.stderr
    assert "60 molecules generated: 100.0% complete" in result.stderr
    assert "Geometries made from SMILES change the predictions" in result.stderr
    assert "distances of the candidates from the known molecules" in result.stderr
    rows = rows_of(out)
    assert [row["rank"] for row in rows] == [str(k) for k in range(1, len(rows) + 1)]
    assert sum(row["known"] == "no" for row in rows) == 5
    assert all(1 <= float(row["sa_score"]) <= 10 for row in rows)
    assert "alerts" in rows[0]
    inside = [row for row in rows if row["status"] == "ok"]
    assert rows[: len(inside)] == inside
    chances = [float(row["p_window"]) for row in inside]
    assert chances == sorted(chances, reverse=True)
    records = read_paths([structures])
    assert [record.info["smiles"] for record in records] == [row["smiles"] for row in rows]
    assert [record.status for record in records] == ["ready"] * len(rows)
    body = json.loads((tmp_path / "new" / "proposed.csv.json").read_text(encoding="utf-8"))
    assert body["kind"] == "bandgap proposals"
    assert body["counts"]["sampled"] == 60
    assert 0 < body["property_distances"]["molar mass"] < 1
    again = run(*words, *numbers, "--out", tmp_path / "again.csv")
    assert again.exit_code == 0
    assert (tmp_path / "again.csv").read_bytes() == out.read_bytes()
    ranked = run(
        *("compute-next", "--model", organic_run, "--structures", structures),
        *("--window", "3.4:3.8", "--out", tmp_path / "next.csv"),
    )
    assert ranked.exit_code == 0, ranked.output


def test_known_molecules_are_marked(
    run: Run, organic_run: Path, molecules: Path, tmp_path: Path
) -> None:
    """Some changes of toluene and its like give another of these molecules."""
    out = tmp_path / "proposed.csv"
    result = run(
        *("propose", "--model", organic_run, "--structures", molecules, "--window", "0:9"),
        *("--count", "100", "--generated", "80", "--compared", "0", "--out", out),
    )
    assert result.exit_code == 0, result.output
    marks = {row["smiles"]: row["known"] for row in rows_of(out)}
    known_smiles = {CanonSmiles(f"{end}{ring}") for ring in RINGS for end in ENDS}
    assert "yes" in marks.values()
    assert {smiles for smiles, mark in marks.items() if mark == "yes"} == known_smiles & set(marks)
    assert "was not measured" in result.stderr


def silanes(path: Path, *smiles: str) -> Path:
    """Write molecules with silicon, for which the descriptor of the demo has no place."""
    frames = [embedded_atoms(text, seed=1) for text in smiles]
    write(path, [atoms for atoms in frames if atoms is not None], format="extxyz")
    return path


def test_run_that_predicts_no_generated_molecule_is_an_error_with_the_reason(
    run: Run, organic_run: Path, tmp_path: Path
) -> None:
    path = silanes(tmp_path / "silanes.extxyz", "[SiH3][SiH3]")
    result = run(
        *("propose", "--model", organic_run, "--structures", path, "--window", "1:2"),
        *("--generated", "5", "--out", tmp_path / "proposed.csv"),
    )
    assert result.exit_code == 1
    assert "The run predicts none of" in result.stderr
    assert "contains Si" in result.stderr
    assert not (tmp_path / "proposed.csv").exists()


def test_error_of_geometries_is_not_a_number_where_no_known_molecule_is_predicted(
    run: Run, organic_run: Path, tmp_path: Path
) -> None:
    """Changes of silanes may be alkanes, which the run predicts."""
    path = silanes(tmp_path / "silanes.extxyz", "C[SiH3]", "C[SiH2]C")
    out = tmp_path / "proposed.csv"
    result = run(
        *("propose", "--model", organic_run, "--structures", path, "--window", "1:2"),
        *("--generated", "40", "--out", out),
    )
    assert result.exit_code == 0, result.output
    assert "was not measured" in result.stderr
    assert {row["geometry_rms_eV"] for row in rows_of(out)} == {""}
    body = json.loads((tmp_path / "proposed.csv.json").read_text(encoding="utf-8"))
    assert body["geometry_rms_eV"] is None
