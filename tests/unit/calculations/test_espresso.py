"""Gaps, levels of theory and reasons from small XML files of Quantum ESPRESSO."""

import bz2
import gzip
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bandgap.calculations import Calculation, read_calculations
from bandgap.calculations.espresso import element_of_label
from tests.unit.calculations.espresso_text import INSULATOR, espresso
from tests.unit.calculations.vasprun_text import vasprun


def read(folder: Path, content: str | bytes, **options: Any) -> Calculation:
    """Return the result of a file with this content."""
    path = folder / "data-file-schema.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (result,) = read_calculations([path], **options)
    return result


def test_insulator_has_its_gap_structure_and_level(tmp_path: Path) -> None:
    result = read(tmp_path, espresso())
    assert result.gap_eV == pytest.approx(1.5, abs=1e-6)
    assert (result.kind, result.level_of_theory) == ("direct", "PBE")
    assert result.record.formula == "ClNa"
    assert result.record.status == "ready"
    assert result.record.format == "Quantum ESPRESSO"
    assert result.record.atoms is not None
    assert result.record.atoms.cell.lengths() == pytest.approx([4.2, 4.2, 4.2])
    assert result.record.atoms.positions[1] == pytest.approx([2.1, 2.1, 2.1])


UP = [[-5.0, -4.0, -3.0, 2.0], [-5.0, -4.5, -3.5, 2.5]]
DOWN = [[-4.8, 1.0, 1.5, 3.0], [-4.7, 1.2, 1.6, 3.0]]
CROSSING = [[-4.8, -3.2, 1.5, 3.0], [-4.7, 1.2, 1.6, 3.0]]  # its second band is half filled
SPINORS = [[-5.0, -5.0, 0.0, 0.0, 1.25, 1.25], [-5.0, -5.0, -0.2, -0.2, 1.5, 1.5]]
MOMENT = {"tot_magnetization": 2.0}
TWO_LEVELS = "<two_fermi_energies>1.0e-1 2.0e-2</two_fermi_energies>"


@pytest.mark.parametrize(
    ("options", "gap_eV", "kind", "problem"),
    [
        ({"occupations": "fixed", "fermi": ""}, 1.5, "direct", ""),
        ({"bands": [[[-1.0, 0.0, 3.0], [-1.0, -0.5, 2.0]]]}, 2.0, "indirect", ""),
        ({"bands": [UP, DOWN]}, 4.0, "direct", ""),
        ({"bands": [UP, DOWN], "inputs": MOMENT, "fermi": TWO_LEVELS}, 4.0, "direct", ""),
        ({"bands": [UP, CROSSING]}, 0.0, "metal", "bands overlap"),
        (
            {"bands": [SPINORS], "is_noncollinear": True, "has_spin_orbit": True},
            1.25,
            "direct",
            "",
        ),
        ({"bands": [[[-1.0, 0.0, 1.0], [-1.0, -0.5, -0.3]]]}, 0.0, "metal", "overlap by 0.3000 eV"),
        ({"n_electrons": 3}, 0.0, "metal", "3 electrons leave a band partly filled"),
    ],
    ids=[
        "fixed occupations", "indirect", "two spins", "fixed moment", "half metal",
        "spin-orbit coupling", "metal with smearing", "odd number of electrons",
    ],
)  # fmt: skip
def test_gap_follows_from_the_number_of_electrons(
    tmp_path: Path, options: dict[str, Any], gap_eV: float, kind: str, problem: str
) -> None:
    result = read(tmp_path, espresso(**options))
    assert result.gap_eV == pytest.approx(gap_eV, abs=1e-6)
    assert result.kind == kind
    assert problem in result.record.problem
    assert result.record.status == ("warning" if problem else "ready")


HYBRID = "<hybrid><exx_fraction>{}</exx_fraction>{}</hybrid>"
SCREENING = "<screening_parameter>1.06e-1</screening_parameter>"


@pytest.mark.parametrize(
    ("functional", "options", "level"),
    [
        ("PBESOL", {}, "PBEsol"),
        ("PZ", {}, "LDA"),
        ("SLA PW PSX PSC", {}, "PBEsol"),
        ("SLA+PW+PBX+PBC", {}, "PBE"),
        ("R2SCAN", {}, "r2SCAN"),
        ("XC-263L-267L-000I", {}, "XC-263L-267L-000I"),
        ("HSE</functional>" + HYBRID.format("2.5e-1", SCREENING), {}, "HSE06 (25 %)"),
        ("HSE</functional>" + HYBRID.format("3.2e-1", SCREENING), {}, "HSE06 (32 %)"),
        ("PBE0</functional>" + HYBRID.format("2.5e-1", ""), {}, "PBE0 (25 %)"),
        ("B3LYP</functional>" + HYBRID.format("2.0e-1", ""), {}, "B3LYP"),
        (
            "PBE</functional><vdW><vdw_corr>grimme-d3</vdw_corr>"
            "<dftd3_version>4</dftd3_version></vdW>",
            {},
            "PBE-D3(BJ)",
        ),
        ("PBE", {"is_noncollinear": True, "n_electrons": 2}, "PBE (non-collinear)"),
        (
            "HSE</functional>" + HYBRID.format("2.5e-1", SCREENING),
            {"is_noncollinear": True, "has_spin_orbit": True, "n_electrons": 2},
            "HSE06 (25 %) + SOC",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_level_of_theory_is_named_by_the_functional(
    tmp_path: Path, functional: str, options: dict[str, Any], level: str
) -> None:
    end = "" if "</functional>" in functional else "</functional>"
    text = espresso(functional=f"<functional>{functional}{end}", **options)
    assert read(tmp_path, text).level_of_theory == level


def test_values_of_U_are_given_in_eV_and_zeros_are_left_out(tmp_path: Path) -> None:
    hubbard = (
        '<functional>PBE</functional><dftU><Hubbard_U specie="Na" label="3s">1.1e-1</Hubbard_U>'
        '<Hubbard_U specie="Cl" label="3p">0.0</Hubbard_U></dftU>'
    )
    result = read(tmp_path, espresso(functional=hubbard))
    assert result.level_of_theory == "PBE+U"
    assert result.record.problem == "DFT+U with values in eV: U Na 2.993"
    without = read(tmp_path, espresso(functional=hubbard.replace("1.1e-1", "0.0")))
    assert (without.level_of_theory, without.record.status) == ("PBE", "ready")


def test_unconverged_loop_gives_no_gap_unless_it_is_asked_for(tmp_path: Path) -> None:
    text = espresso(is_converged=False, status=2)
    result = read(tmp_path, text)
    assert math.isnan(result.gap_eV)
    assert "the electronic loop did not converge in 100 steps" in result.record.problem
    assert read(tmp_path, text, keep_unconverged=True).gap_eV == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize("calculation", ["nscf", "bands"])
def test_calculation_without_a_loop_needs_no_convergence(tmp_path: Path, calculation: str) -> None:
    text = espresso(calculation=calculation, is_converged=False)
    assert read(tmp_path, text).record.status == "ready"


@pytest.mark.parametrize(
    ("options", "x_angstrom", "words"),
    [
        ({"calculation": "relax", "is_relaxed": True, "shift": 0.2}, 0.2, ""),
        ({"calculation": "relax", "is_relaxed": False, "shift": 0.2}, 0.1, "unfinished"),
        ({"calculation": "vc-relax", "is_relaxed": False, "shift": 0.2}, 0.1, "after 2 steps"),
        ({"calculation": "md", "shift": 0.2}, 0.1, "molecular dynamics"),
    ],
    ids=["finished", "unfinished", "unfinished cell", "dynamics"],
)
def test_structure_is_that_of_the_eigenvalues(
    tmp_path: Path, options: dict[str, Any], x_angstrom: float, words: str
) -> None:
    result = read(tmp_path, espresso(steps=(0.0, 0.1), **options))
    assert result.record.atoms is not None
    assert result.record.atoms.positions[0, 0] == pytest.approx(x_angstrom, abs=1e-9)
    assert words in result.record.problem
    assert result.record.status == ("warning" if words else "ready")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": {"tot_charge": 1.0}}, "the cell is charged (+1 e)"),
        ({"weights": [2.0, 0.0]}, "1 of 2 k-points have no weight"),
        ({"bands": [[[-5.0, 0.0, 1.5]]]}, "there is one k-point"),
        ({"status": 255}, "pw.x stopped before its end (exit status 255)"),
        ({"potentials": ("Fe_ONCV.UPF", "Cl.UPF")}, "'Na' has the pseudopotential 'Fe_ONCV.UPF'"),
    ],
    ids=["charged", "no weight", "one point", "stopped", "another element"],
)
def test_peculiar_calculation_has_its_gap_and_a_warning(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    result = read(tmp_path, espresso(**options))
    assert result.gap_eV == pytest.approx(1.5, abs=1e-6)
    assert words in result.record.problem


@pytest.mark.parametrize(
    ("label", "element"),
    [("Fe1", "Fe"), ("fe_up", "Fe"), ("C-h", "C"), ("O1", "O"), ("Hx", "H"), ("SI", "Si")],
)
def test_label_of_a_species_gives_its_element(label: str, element: str) -> None:
    assert element_of_label(label) == element


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (espresso()[:-300], "the file ends early, in line"),
        (espresso()[: espresso().index("<output>")] + "</qes:espresso>", "has not finished"),
        (gzip.compress(gzip.compress(espresso().encode())), "gzipped twice"),
        (gzip.compress(espresso().encode())[:-100], "compressed file is damaged or was cut off"),
        (espresso(bands=[[[-1.0, 0.0], [-1.0, 0.0]]]), "larger nbnd"),
        (espresso(bands=[[[-1.0, 0.0, 1e300]]]), "the gap of 1e+300 eV is none"),
        (espresso(bands=[[[-1.7e308, -1.7e308, 1.7e308]]]), "the gap of inf eV is none"),
        (espresso().replace("<eigenvalues", "<none").replace("/eigenvalues", "/none"), "no eigen"),
        (espresso(bands=[[[-1.0, 0.0, 1.0], [-1.0, 0.0]]]), "eigenvalues are incomplete"),
        (espresso(labels=("Qq", "Cl")), "Qq"),
        (espresso(program="CP"), "only files of pw.x are read"),
        (espresso().replace("<nelec>", "<n>").replace("</nelec>", "</n>"), "number of electrons"),
        (espresso().replace("5.5", "****"), "is not a number"),
        ("<Root><HEADER/></Root>", "before version 6"),
        ("<qes:espresso>" + "<a>" * 100, "nested too deep"),
    ],
    ids=[
        "cut off", "no output", "gzipped twice", "cut gzip", "few bands", "large gap",
        "infinite gap", "no eigenvalues",
        "missing band", "element", "other program", "no electrons", "asterisks", "version 5",
        "deep",
    ],
)  # fmt: skip
def test_unusable_file_has_one_line_with_the_reason(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    result = read(tmp_path, content)
    assert not result.is_usable
    assert words in result.record.problem
    assert "\n" not in result.record.problem


def test_tree_of_both_programs_is_read_and_copies_and_other_files_are_left_out(
    tmp_path: Path,
) -> None:
    for name in ("NaCl/out/pwscf.save", "MgO", "old", "outcar-only"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "NaCl/out/pwscf.xml").write_text(espresso())
    (tmp_path / "NaCl/out/pwscf.save/data-file-schema.xml").write_text(espresso())
    (tmp_path / "NaCl/out/pwscf.save/Na.UPF.xml").write_text("<UPF/>")
    (tmp_path / "MgO/vasprun.xml").write_text(vasprun())
    (tmp_path / "MgO/vasprun.xml.relax1.gz").write_bytes(gzip.compress(vasprun().encode()))
    (tmp_path / "MgO/twice.xml.gz").write_bytes(gzip.compress(gzip.compress(b"<a/>")))
    (tmp_path / "old/data-file.xml").write_text("<Root/>")
    (tmp_path / "outcar-only/OUTCAR").write_text("vasp")
    results = read_calculations([tmp_path])
    assert {r.record.id: r.is_usable for r in results} == {
        "MgO": True,
        "MgO-relax1": True,
        "MgO-twice": False,
        "NaCl-out-pwscf": True,
        "old": False,
        "outcar-only": False,
    }
    (alone,) = [r for r in results if r.record.id == "outcar-only"]
    assert "has an OUTCAR and no vasprun.xml" in alone.record.problem


def test_file_packed_in_another_way_or_cut_off_early_has_one_line_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.xml").write_text(espresso())
    (tmp_path / "b.xml").write_bytes(bz2.compress(espresso().encode()))
    (tmp_path / "c.xml.gz").write_bytes(gzip.compress(espresso().encode())[:-100])
    results = read_calculations([tmp_path])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    assert "packed with bzip2" in results[1].record.problem
    assert "compressed file is damaged or was cut off" in results[2].record.problem


def test_point_of_a_tiny_weight_is_one_of_a_band_structure(tmp_path: Path) -> None:
    bands = [[*INSULATOR[0], [-4.0, -0.5, 1.0, 4.0]]]
    result = read(tmp_path, espresso(bands, weights=[1.0, 1.0, 1e-10]))
    assert result.gap_eV == pytest.approx(1.0)
    assert "1 of 3 k-points have no weight" in result.record.problem


def test_zip_archive_is_read_with_packed_members(tmp_path: Path) -> None:
    path = tmp_path / "batch.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("runs/NaCl/vasprun.xml.gz", gzip.compress(vasprun().encode()))
        archive.writestr("runs/MgO/pw.save/data-file-schema.xml", espresso())
        archive.writestr("runs/MgO/INCAR", "ENCUT = 500")
        archive.writestr("../vasprun.xml", vasprun())
    results = read_calculations([path])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("runs-NaCl", True),
        ("runs-MgO-pw", True),
        ("batch", False),
    ]
    assert "leads out of the archive" in results[-1].record.problem
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")
    (nothing,) = read_calculations([path])
    assert "the archive has no vasprun.xml" in nothing.record.problem
