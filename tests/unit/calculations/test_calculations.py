"""Gaps, levels of theory and reasons from small `vasprun.xml` files."""

import gzip
import math
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandgap.calculations import Calculation, read_calculations
from bandgap.calculations.band_edges import band_gap
from bandgap.calculations.records import calculation_parts
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable
from tests.unit.calculations.vasprun_text import INSULATOR, vasprun


def read(folder: Path, content: str | bytes, **options: Any) -> Calculation:
    """Return the result of a file with this content."""
    path = folder / "vasprun.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
    (result,) = read_calculations([path], **options)
    return result


def test_gap_is_that_of_the_bands_that_the_electrons_fill(tmp_path: Path) -> None:
    result = read(tmp_path, vasprun())
    assert (result.gap_eV, result.kind, result.level_of_theory) == (1.5, "direct", "PBE")
    assert result.record.formula == "ClNa"
    assert result.record.status == "ready"
    assert result.record.atoms is not None
    assert result.record.atoms.positions[1] == pytest.approx([2.1, 2.1, 2.1])


def test_band_edges_at_different_points_give_an_indirect_gap() -> None:
    gap = band_gap(np.array([[[0.0, 3.0], [-1.0, 1.0]]]), 2, electrons_per_band=2)
    assert (gap.gap_eV, gap.kind) == (1.0, "indirect")


@pytest.mark.parametrize(
    ("bands", "n_electrons", "words"),
    [
        ([[[0.0, 1.0], [-1.0, -0.2]]], 2, "bands overlap by 0.2000 eV"),
        ([[[0.0, 0.0], [-1.0, 1.0]]], 2, "the filled and the empty bands touch"),
        ([[[0.0, 1.0, 2.0]]], 3, "3 electrons leave a band partly filled"),
        ([[[0.0, 1.0]], [[0.5, 1.0]]], 2.5, "2.5 electrons leave a band partly filled"),
    ],
    ids=["overlap", "touching", "odd number", "half an electron"],
)
def test_crystal_without_a_gap_is_a_metal(bands: Any, n_electrons: float, words: str) -> None:
    gap = band_gap(np.array(bands), n_electrons, electrons_per_band=2 if len(bands) == 1 else 1)
    assert (gap.gap_eV, gap.kind, gap.problem) == (0.0, "metal", words)


def test_spin_polarised_insulator_has_the_gap_of_unequal_filling() -> None:
    up = [[-5.0, -4.0, -3.0, 2.0], [-5.0, -4.5, -3.5, 2.5]]
    down = [[-4.8, 1.0, 1.5, 3.0], [-4.7, 1.2, 1.6, 3.0]]
    gap = band_gap(np.array([up, down]), 4, electrons_per_band=1)
    assert (gap.gap_eV, gap.kind) == (4.0, "direct")  # 3 up and 1 down


def test_fixed_moment_gives_the_filling() -> None:
    bands = np.array([[[0.0, 1.0, 5.0]], [[0.2, 1.1, 5.0]]])
    free = band_gap(bands, 2, electrons_per_band=1)
    fixed = band_gap(bands, 2, electrons_per_band=1, spin_moment=2)
    assert free.gap_eV == pytest.approx(0.8)
    assert (fixed.kind, fixed.problem) == ("metal", "bands overlap by 0.8000 eV")


def test_half_metal_and_moment_that_is_not_whole_are_metals() -> None:
    insulating = [[-3.0, -2.0, 2.0, 3.0], [-3.0, -2.5, 2.5, 3.0]]
    crossing = [[-3.0, -1.0, 0.5, 3.0], [-3.0, 1.0, 2.0, 3.0]]
    insulator = band_gap(np.array([insulating, crossing]), 3, electrons_per_band=1)
    assert (insulator.gap_eV, insulator.kind) == (1.0, "direct")
    half_metal = band_gap(np.array([insulating, crossing]), 4, electrons_per_band=1)
    assert (half_metal.gap_eV, half_metal.kind) == (0.0, "metal")
    fixed = band_gap(np.array([insulating, crossing]), 3, electrons_per_band=1, spin_moment=0.5)
    assert fixed.problem == "a moment of 0.5 leaves bands partly filled"


@pytest.mark.parametrize("n_electrons", [4, 6])
def test_no_empty_band_is_refused_with_a_remedy(n_electrons: int) -> None:
    with pytest.raises(Unreadable, match=r"too few bands.*larger NBANDS"):
        band_gap(np.array([[[0.0, 1.0]]]), n_electrons, electrons_per_band=2)


def test_spin_orbit_coupling_fills_bands_with_one_electron(tmp_path: Path) -> None:
    bands = [[[-5.0, -5.0, 0.0, 0.0, 1.25, 1.25]]]
    result = read(tmp_path, vasprun(bands, settings={"LSORBIT": "T", "LNONCOLLINEAR": "T"}))
    assert result.gap_eV == 1.25
    assert result.level_of_theory == "PBE + SOC"
    assert "one k-point" in result.record.problem


SPINOR_SETTINGS = {"LSORBIT": "T", "LNONCOLLINEAR": "T"}
DOUBLED = [[[-5.0, -5.0, 0.0, 0.0, 1.25, 1.25]]]


@pytest.mark.parametrize(
    ("settings", "electrons_per_band", "reason"),
    [
        ({}, 1, "with one electron per band, and the file states neither LSORBIT nor"),
        (SPINOR_SETTINGS, 2, "with two electrons per band, and the file states LSORBIT or"),
    ],
    ids=["lost", "added"],
)
def test_settings_of_spins_that_contradict_the_occupations_are_refused(
    tmp_path: Path, settings: dict[str, str], electrons_per_band: int, reason: str
) -> None:
    """Without its settings, a semiconductor with spin-orbit coupling would be a metal."""
    text = vasprun(DOUBLED, settings=settings, electrons_per_band=electrons_per_band)
    result = read(tmp_path, text)
    assert not result.is_usable
    assert f"the occupations add up to NELECT = 4 {reason}" in result.record.problem


def test_occupations_that_do_not_add_up_to_the_electrons_are_named(tmp_path: Path) -> None:
    text = vasprun().replace(">4</i>", ">6</i>")
    result = read(tmp_path, text)
    assert "the occupations add up to 4 electrons, and NELECT is 6" in result.record.problem
    without_occupations = re.sub(r" 1\.0000 </r>", " 0.0 </r>", vasprun())
    assert "occupations" not in read(tmp_path, without_occupations).record.problem


@pytest.mark.parametrize(
    ("settings", "potential", "level"),
    [
        ({"GGA": "PE"}, "PAW_PBE", "PBE"),
        ({"GGA": "--"}, "PAW", "LDA"),
        ({"GGA": "PS", "IVDW": 12}, "PAW_PBE", "PBEsol-D3(BJ)"),
        ({"METAGGA": "R2scan"}, "PAW_PBE", "r2SCAN"),
        ({"METAGGA": "SCAN", "LUSE_VDW": "T"}, "PAW_PBE", "SCAN+rVV10"),
        ({"METAGGA": "MBJ"}, "PAW_PBE", "mBJ"),
        ({"METAGGA": "--", "GGA": "BO", "LUSE_VDW": ".TRUE."}, "PAW_PBE", "optB88-vdW"),
        ({"LHFCALC": "T", "AEXX": 0.25, "HFSCREEN": 0.2}, "PAW_PBE", "HSE06 (25 %)"),
        (
            {"LHFCALC": "T", "AEXX": 0.25, "HFSCREEN": 0.207, "GGA": "PS", "LSORBIT": "T"},
            "PAW_PBE",
            "HSE06 (25 %, PBEsol) + SOC",
        ),
        ({"LHFCALC": "T", "AEXX": 0.375, "HFSCREEN": 0.2}, "PAW_PBE", "HSE06 (37.5 %)"),
        ({"LHFCALC": "T", "AEXX": 0.25, "HFSCREEN": 0}, "PAW_PBE", "PBE0 (25 %)"),
        ({"LHFCALC": "T", "AEXX": 0.2, "GGA": "B3"}, "PAW_PBE", "B3LYP"),
        (
            {"LHFCALC": "T", "AEXX": 1, "HFSCREEN": 0, "AGGAX": 1},
            "PAW_PBE",
            "Hartree-Fock exchange (100 %) + PBE correlation",
        ),
        ({"LHFCALC": "T", "AEXX": 1, "ALDAC": 0, "AGGAC": 0}, "PAW_PBE", "Hartree-Fock"),
        (
            {"LHFCALC": "T", "AEXX": 1, "HFSCREEN": 0.2},
            "PAW_PBE",
            "Hartree-Fock exchange (100 %, screened, 0.2 1/A) + PBE correlation",
        ),
        ({"LDAU": "T", "LDAUU": "0 4.0", "LDAUJ": "0 0"}, "PAW_PBE", "PBE+U"),
        ({"LDAU": "T", "LDAUU": "0 0", "LDAUJ": "0 0"}, "PAW_PBE", "PBE"),
        ({"LDAU": "T", "LDAUL": "-1 2", "LDAUU": "4.0 0", "LDAUJ": "0 0"}, "PAW_PBE", "PBE"),
        ({"LHFCALC": "T", "AEXX": 0.32, "HFSCREEN": 0.2}, "PAW_PBE", "HSE06 (32 %)"),
        ({"LHFCALC": "T", "AEXX": 0.25, "GGA": "PS"}, "PAW_PBE", "PBE0 (25 %, PBEsol)"),
        ({"METAGGA": "--", "GGA": "CX", "LUSE_VDW": "T"}, "PAW_PBE", "vdW-DF-cx"),
        ({"LVDW": "T", "GGA": "PE"}, "PAW_PBE", "PBE-D2"),
        (
            {"GGA": "LIBXC", "LIBXC1": "GGA_X_RPBE", "LIBXC2": "GGA_C_PBE"},
            "PAW_PBE",
            "libxc GGA_X_RPBE+GGA_C_PBE",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_level_of_theory_is_named_by_the_settings(
    tmp_path: Path, settings: dict[str, object], potential: str, level: str
) -> None:
    bands = [[[-5.0, -5.0, 0.0, 0.0, 1.0, 1.0]] * 2]
    text = vasprun(bands, settings=settings, potential=potential)
    assert read(tmp_path, text).level_of_theory == level


def test_comment_that_contradicts_the_functional_is_named(tmp_path: Path) -> None:
    text = vasprun(settings={"GGA": "PE ! PBEsol exchange"})
    result = read(tmp_path, text)
    assert result.level_of_theory == "PBE"
    assert "GGA = PE, which is PBE, with a comment that says PBEsol" in result.record.problem


def test_points_without_weight_count_and_are_named(tmp_path: Path) -> None:
    bands = [[*INSULATOR[0], [-4.0, -0.5, 1.0, 4.0]]]
    result = read(tmp_path, vasprun(bands, weights=[0.5, 0.5, 0.0]))
    assert (result.gap_eV, result.kind) == (1.0, "indirect")
    assert "1 of 3 k-points have no weight" in result.record.problem
    assert "1.5000 eV without these" in result.record.problem


def test_points_of_KPOINTS_OPT_count_and_are_named(tmp_path: Path) -> None:
    rows = "".join(f"<r> {energy} 0.0 </r>" for energy in (-4.0, -0.5, 1.0, 4.0))
    after = (
        "<eigenvalues_kpoints_opt comment='kpoints_opt'><kpoints><varray name='weights'>"
        "<v>1.0</v></varray></kpoints><eigenvalues><array><set><set comment='spin 1'>"
        f"<set comment='kpoint 1'>{rows}</set></set></set></array></eigenvalues>"
        "</eigenvalues_kpoints_opt>"
    )
    result = read(tmp_path, vasprun(after=after))
    assert (result.gap_eV, result.kind) == (1.0, "indirect")
    assert "1 of 3 k-points have no weight" in result.record.problem
    assert "1.5000 eV without these" in result.record.problem


UNCONVERGED = {"n_steps": 60, "last_change": 0.01}


def test_unconverged_loop_gives_no_gap_unless_it_is_asked_for(tmp_path: Path) -> None:
    text = vasprun(**UNCONVERGED)  # type: ignore[arg-type]
    result = read(tmp_path, text)
    assert math.isnan(result.gap_eV)
    assert "electronic loop did not converge: it ended at its limit of 60" in result.record.problem
    used = read(tmp_path, text, keep_unconverged=True)
    assert used.gap_eV == 1.5
    assert used.record.status == "warning"


def test_loop_that_converges_in_its_last_step_is_converged(tmp_path: Path) -> None:
    assert read(tmp_path, vasprun(n_steps=60, last_change=1e-5)).record.status == "ready"


RELAXATION = {"IBRION": 2, "NSW": 3, "EDIFFG": -0.02}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"settings": RELAXATION, "n_ionic_steps": 3, "force": 0.5}, "relaxation is unfinished"),
        ({"settings": RELAXATION, "n_ionic_steps": 3, "force": 0.01}, ""),
        ({"settings": RELAXATION, "n_ionic_steps": 2, "force": 0.01}, ""),
        (
            {"settings": RELAXATION, "n_ionic_steps": 2, "force": 0.5},
            "unfinished: it was stopped after 2 of 3 steps, with a force of 0.5 eV/A",
        ),
        ({"last_change": 0.1}, "the electronic loop was stopped after 5 steps"),
        ({"settings": {"IBRION": 0, "NSW": 9}}, "molecular dynamics"),
        ({"settings": {"IBRION": 6, "NSW": 1}}, "displaced"),
        ({"valence": (1.0, 4.0)}, "the cell is charged (+1 e)"),
        ({"settings": {"LDAU": "T", "LDAUU": "0 4"}}, "DFT+U with U - J in eV: Cl 4"),
    ],
    ids=[
        "unfinished", "relaxed at the limit", "relaxed", "relaxation stopped", "loop stopped",
        "dynamics", "displaced", "charged", "U",
    ],
)  # fmt: skip
def test_peculiar_calculation_has_its_gap_and_a_warning(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    result = read(tmp_path, vasprun(**options))
    assert result.gap_eV == 1.5
    assert words in result.record.problem
    assert result.record.status == ("warning" if words else "ready")


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    "<modeling><incar><i name='SYSTEM'>&b;</i></incar></modeling>"
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (vasprun()[:1500], "the file ends early, in line"),
        (gzip.compress(gzip.compress(vasprun().encode())), "gzipped twice"),
        (gzip.compress(vasprun().encode())[:-200], "compressed file is damaged or was cut off"),
        (b"", "the file is empty"),
        (b"not xml", "the file is not XML"),
        ("<molpro><output/></molpro>", "its first element is 'molpro'"),
        (BOMB, "DOCTYPE"),
        ("<modeling>" + "<a>" * 100, "nested too deep"),
        ("<modeling><incar><i name='A'>" + "x" * 200_000, "more than 100,000 characters"),
        ("<modeling a='" + "x" * 3_000_000, "an XML tag has more than 1 MB"),
        (gzip.compress(b"<modeling>" + b" " * 50_000_000), "MB after decompression"),
        (vasprun().replace("<r> 1.5 0", "<r> ******** 0"), "an eigenvalue is not a number"),
        (vasprun().replace("<r> 1.5 0.0000 </r>", ""), "eigenvalues are incomplete"),
        (vasprun(settings={"NELECT": 8}), "too few bands"),
        (vasprun(settings={"ALGO": "GW0"}), "quasiparticle energies"),
        (vasprun().replace("NELECT", "OTHER"), "number of electrons"),
        (vasprun(elements=("Na", "Qq")), "Qq"),
        (vasprun().replace("eigenvalues", "nothing"), "no eigenvalues"),
        (vasprun().replace("</incar>", "\x01</incar>"), "the file is damaged in line 4"),
        (b"<modeling>\xff\xfe</modeling>", "damaged in line 1"),
    ],
    ids=[
        "cut off", "gzipped twice", "cut gzip", "empty", "text", "other program", "entities",
        "deep", "long value", "long tag", "compressed blanks", "asterisks", "missing band",
        "few bands", "GW", "no electrons", "element", "no bands", "control character", "bytes",
    ],
)  # fmt: skip
def test_unusable_file_has_one_line_with_the_reason(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    result = read(tmp_path, content)
    assert not result.is_usable
    assert words in result.record.problem
    assert "\n" not in result.record.problem


RELAXED = {"NSW": 5, "IBRION": 2, "EDIFFG": -0.01}


@pytest.mark.parametrize(
    "content",
    [
        vasprun(force=0.5).replace("<v>0 0 0.5</v>", "<v>**** 0 NaN</v>"),
        vasprun(settings=RELAXED).replace('name="forces"', 'name="others"'),
        vasprun(n_steps=60).replace("e_fr_energy", "others"),
        vasprun().replace("e_fr_energy", "others"),
        vasprun(last_change=1e-6).replace(">0.0</i></energy>", ">****</i></energy>"),
        vasprun().replace('"weights"><v>0.5<', '"weights"><v>****<'),
        vasprun().replace(" 4.0 0.0000 ", " ******** ****** "),
        vasprun().replace('"EDIFF">0.0001<', '"EDIFF">****<'),
        vasprun(n_ionic_steps=2).replace("<v>0.5 0.5 0.5</v>", "<v>**** **** ****</v>", 2),
        vasprun().replace("<c>1.0</c><c>3.0</c>", "<c>1.0</c><c>****</c>"),
    ],
    ids=[
        "forces", "no forces", "no energies at the limit", "no energies", "energy", "weight",
        "band above the gap", "setting of steps", "earlier step", "valence electrons",
    ],
)  # fmt: skip
def test_number_that_the_gap_does_not_need_refuses_nothing(tmp_path: Path, content: str) -> None:
    assert content != vasprun()
    result = read(tmp_path, content)
    assert result.is_usable, result.record.problem
    assert result.gap_eV == read(tmp_path, vasprun()).gap_eV
    assert "nan" not in result.record.problem


def test_folders_are_searched_and_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in ("NaCl/relax", "NaCl/static", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "vasprun.xml").write_text(vasprun())
    (tmp_path / "NaCl/static/vasprun.xml").write_text("broken")
    (tmp_path / "NaCl/static/OUTCAR").write_text("not read")
    (tmp_path / "pbe.vasprun.xml.gz").write_bytes(gzip.compress(vasprun().encode()))
    results = read_calculations([tmp_path])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("pbe", True),
        ("NaCl-relax", True),
        ("NaCl-static", False),
    ]


def test_equal_ids_become_different(tmp_path: Path) -> None:
    for name in ("a/x", "b/x"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "vasprun.xml").write_text(vasprun())
    results = read_calculations([tmp_path / "a", tmp_path / "b"])
    assert [r.record.id for r in results] == ["x", "x-2"]


def test_memory_does_not_grow_with_densities_of_states(tmp_path: Path) -> None:
    rows = "<r> -12.3456 0.0012 3.4567 </r>\n" * 300_000
    text = vasprun().replace("</calculation>", f"<dos><set>{rows}</set></dos></calculation>")
    read(tmp_path, vasprun())  # loads modules
    path = tmp_path / "vasprun.xml"
    path.write_text(text)
    assert path.stat().st_size > 9_000_000
    del text, rows
    content = Content.at(path, size=path.stat().st_size)
    tracemalloc.start()
    try:
        (part,) = calculation_parts(content, path.name, keep_unconverged=False)
        (record,) = part.records
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert record.info["gap_eV"] == 1.5
    assert peak_bytes < 2_000_000


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "gap_eV", "kind", "level"),
    [
        ("Cs2SnI6_dos", 0.7115, "direct", "HSE06 (25 %)"),
        ("Cs2SnBr6", 2.5408, "direct", "HSE06 (25 %) + SOC"),
        ("Ge", 0.0, "metal", "LDA"),
        ("Si_r2scan", 0.7873, "indirect", "r2SCAN"),
    ],
)
def test_real_output_has_its_gap_to_1_meV(
    test_data: Path, file: str, gap_eV: float, kind: str, level: str
) -> None:
    (result,) = read_calculations([test_data / "vasp_runs" / f"{file}.vasprun.xml.gz"])
    assert result.gap_eV == pytest.approx(gap_eV, abs=0.001)
    assert (result.kind, result.level_of_theory) == (kind, level)
