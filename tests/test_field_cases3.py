"""The second manifest of inputs rebuilt after public bug reports: what must happen in each row.

The inputs and the manifest are outside of this project (`BANDGAP_TEST_DATA`).
"""

import csv
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bandgap.calculations import read_calculations
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.labels import match_labels, read_labels
from bandgap.structures import StructureRecord, read_paths
from tests.test_field_cases import labels_refused
from tests.unit.structures.test_operators import density

pytestmark = pytest.mark.data
FOLDER = "field_cases3"
Check = Callable[[Path], None]


def usable(formula: str, *words: str, n: int = 1) -> Check:
    """Return a check that structures have this formula, and a warning if there are words."""

    def check(path: Path) -> None:
        records = read_paths([path])
        assert [record.formula for record in records] == [formula] * n, records[0].problem
        for record in records:
            assert record.status == ("warning" if words else "ready"), record.problem
            assert [word for word in words if word not in record.problem] == []

    return check


def refused(*words: str, without: str = "\n") -> Check:
    """Return a check that a file has one refused structure, with these words."""

    def check(path: Path) -> None:
        (record,) = read_paths([path])
        assert record.status == "refused"
        assert [word for word in words if word not in record.problem] == []
        assert without not in record.problem

    return check


def has_ids(*ids: str) -> Check:
    """Return a check that all structures of a file can be used and have these ids."""

    def check(path: Path) -> None:
        usable_records(path, ids)

    return check


def usable_records(path: Path, ids: tuple[str, ...]) -> list[StructureRecord]:
    records = read_paths([path])
    assert [record.id for record in records] == list(ids)
    assert {record.status for record in records} == {"ready"}
    return records


def has_gaps(key: str, *ids: str) -> Check:
    """Return a check of the ids, and that a key without unit is read as gaps."""

    def check(path: Path) -> None:
        gaps = labels_from_info(usable_records(path, ids), key, unit="eV")
        assert gaps.min() == 0 and gaps.max() == 5

    return check


def check_mixed_valence(path: Path) -> None:
    usable("Fe24O32")(path)
    (record,) = read_paths([path])
    assert density(record) == pytest.approx(5.2, abs=0.02)


def check_gap_of_silicon(path: Path) -> None:
    (result,) = read_calculations([path])
    assert result.gap_eV == pytest.approx(0.7873, abs=1e-4)
    assert "nan" not in result.record.problem


def check_table_of_gnome(path: Path) -> None:
    labels = read_labels(path, unit="eV")
    assert len(labels) == 4 and "abc1f" in labels.problems[0]


def n_matched(structures: Path, table: Path) -> int:
    records = read_paths([structures])
    labels = read_labels(table)
    return match_labels([r.id for r in records], [r.file for r in records], labels).n_matched


CHECKS: dict[str, Check] = {
    "401_aims/geometry.in": usable("Mg4O4"),
    "403_pw.in": refused("Quantum ESPRESSO", "ase convert"),
    "405_cp2k-pos-1.xyz": usable("Cl4Na4", "there is no cell", "as a molecule", n=2),
    "406_matbench_mp_gap.json.gz": has_gaps(
        "gap pbe", *(f"406_matbench_mp_gap-{k}" for k in range(1, 6))
    ),
    "407_computed_structure_entries.json": has_gaps("band_gap", *(f"mp-{k}-GGA" for k in range(5))),
    "409_expt_gap_composition.json": refused("compositions alone"),
    "411_oqmd.json": usable("Cl4Na4"),
    "413_c2db.db": has_ids("MoS2-1", "Si2-1", "Cu-1"),
    "414_run.traj": refused("an ASE trajectory", "ase convert"),
    "418c_T.vasp": usable("H2O", "tritium (T) is read as hydrogen"),
    "419_magnetite_mixed_valence.cif": check_mixed_valence,
    "420b_occ_above1.cif": refused("occupancy 4", "between 0 and 1", without="isordered"),
    "421_Ar.cif": usable("Ar4"),
    "423b_slab_no_c.extxyz": usable("MoS2"),
    "429_squeeze.cif": usable("O4Zn", "240 electrons", "not in the atoms"),
    "434_potcar_names.vasp": usable("O3SrTi"),
    "446_isotope_types.cif": usable("CO", "13C is read as C", "18O is read as O"),
    "451b_alexandria.json.bz2": refused("Decompress it"),
    "452_qmof_structures.json": has_ids(*(f"qmof-00{k}" for k in range(5))),
    "453_mp_docs_mpid.json": has_ids(*(f"mp-{k}" for k in range(5))),
    "454_gnome.csv": check_table_of_gnome,
    "459_numbers.extxyz": refused("Properties must name species"),
    "462_fold_id.extxyz": has_ids("mp-0", "mp-1", "mp-2", "mp-3"),
    "470_metal_words.csv": labels_refused("rows 3 ('metal')", "Write 0 for a metal"),
    "471_experimental.csv": labels_refused("rows 2 ('4.7-4.9'), 3 ('5.0(2)')"),
    "476_header_square.csv": labels_refused("no gap column"),
    "476b_header_centred.csv": labels_refused("no gap column"),
    "478_forces_star.vasprun.xml.gz": check_gap_of_silicon,
    "478_no_forces.vasprun.xml.gz": check_gap_of_silicon,
}
# Rows with a test of their own below; the last two are tested in unit/cli/test_evaluate.py.
FURTHER = (
    *("473_float_ids.csv", "474_tree.zip", "474_tree.csv"),
    *("479_predictions_with_copies.csv", "481_other_crystals_same_ids.extxyz"),
)


@pytest.mark.parametrize("file", CHECKS)
def test_row_of_the_manifest_holds(test_data: Path, file: str) -> None:
    CHECKS[file](test_data / FOLDER / file)


def test_ids_that_pandas_wrote_as_floats_find_their_files(test_data: Path, tmp_path: Path) -> None:
    for number in range(1000041, 1000053):
        shutil.copy(test_data / FOLDER / "421_Ar.cif", tmp_path / f"{number}.cif")
    assert n_matched(tmp_path, test_data / FOLDER / "473_float_ids.csv") == 12


def test_paths_below_a_given_folder_find_their_files(test_data: Path, tmp_path: Path) -> None:
    table = test_data / FOLDER / "474_tree.csv"
    archive = test_data / FOLDER / "474_tree.zip"
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path / "D")
    assert n_matched(tmp_path / "D", table) == n_matched(archive, table) == 7


def test_every_row_of_the_manifest_is_tested(
    test_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (test_data / FOLDER / "manifest.csv").open(encoding="utf-8") as file:
        names = [row["file"] for row in csv.DictReader(file)]
    assert sorted(names) == sorted([*CHECKS, *FURTHER])
    with capsys.disabled():
        print(f"\n{len(names)} rows of the manifest are tested")  # noqa: T201
