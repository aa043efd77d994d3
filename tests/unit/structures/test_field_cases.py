"""Inputs rebuilt after public bug reports: what must happen with each structure file.

The inputs and the list of what must happen are outside of this project (`BANDGAP_TEST_DATA`).
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from bandgap.structures import read_paths
from tests.unit.structures.test_operators import density

pytestmark = pytest.mark.data


@dataclass(frozen=True)
class Expected:
    """What must happen: a formula and density, or a refusal or warning with these words."""

    formula: str = ""
    density: float = 0.0
    status: str = "ready"
    words: str = ""
    n: int = 1


REFUSED = "refused"
WARNING = "warning"
SALT = "Cl4Na4"
EXPECTED = {
    "001_si_origin2_symbol_only.cif": Expected(status=REFUSED, words="has two origins"),
    "002_si_origin2_hall.cif": Expected("Si8", 2.33),
    "004_anatase_origin2.cif": Expected("O8Ti4", 3.89),
    "005_calcite_rhombohedral_axes.cif": Expected("C2Ca2O6", 2.73),
    "007_bi2te3_rhombohedral.cif": Expected("Bi2Te3", 7.86),
    "008_nacl_number_only.cif": Expected(status=REFUSED, words="number 225 does not say"),
    "010_al2o3_icsd_H.cif": Expected("Al12O18", 3.99),
    "011_mos2_thirds_4digits.cif": Expected("Mo2S4"),
    "012_thirds_2digits.cif": Expected("Mo2S4"),
    "016_mnf2_magnetic.mcif": Expected("F4Mn2"),
    "017_modulated_ssg.cif": Expected(status=REFUSED, words="modulated structure"),
    "018_fe3o4_fractional_charge.cif": Expected("Fe6O8"),
    "019_wat_label.cif": Expected("HCaO5S"),
    "020_calc_flag_dum.cif": Expected("CO2", status=WARNING, words="dummy atoms were left out"),
    "022_attached_h_inorganic.cif": Expected(status=WARNING, words="attached_hydrogens"),
    "023_cartesian_only.cif": Expected(status=REFUSED, words="_atom_site_Cartn_x"),
    "024_cif2_triple.cif": Expected(status=REFUSED, words="CIF 2.0"),
    "026_border_atoms_P1.cif": Expected(SALT, status=WARNING, words="listed again on the opposite"),
    "033_unicode_minus.cif": Expected("ClNa", status=WARNING, words="are the lengths in bohr?"),
    "041_C2c_gamma.cif": Expected(status=REFUSED, words="does not map the unit cell onto itself"),
    "150_cubic_symbol_tetragonal_cell.cif": Expected(status=REFUSED, words="does not map"),
    "042_nonascii_first_letter_unquoted.cif": Expected(SALT),
    "035_only_x_y_z_but_sg.cif": Expected(status=WARNING, words="the listed ones were used"),
    "100_loop_single_value.cif": Expected("GaPb2"),
    "102_mixed_type_symbol.cif": Expected(status=REFUSED, words="Disordered structures"),
    "103_mixed_label.cif": Expected(status=REFUSED, words="the elements Nb and Zr"),
    "104_T_site_zeolite.cif": Expected(status=REFUSED, words="'T1' names no element"),
    "108_quoted_number_1.cif": Expected("Si"),
    "112_occupancy_zero_site.cif": Expected(SALT, status=WARNING, words="sites of occupancy 0"),
    "118_angles_missing_only.cif": Expected(SALT, status=WARNING, words="90 degrees"),
    "119_cell_pm.cif": Expected(status=WARNING, words="2.2e-06 g/cm3"),
    "050_contcar_hash.vasp": Expected(SALT),
    "055_three_scales_cart.vasp": Expected(SALT),
    "057_xdatcar_three_frames.XDATCAR": Expected(SALT, n=3),
    "080_qm9_star_exp.xyz": Expected("CH4", status=WARNING, words="was not read"),
    "130_ms_pdb.pdb": Expected("CN", status=WARNING, words="guessed from atom names"),
    "133_pdb_R3H.pdb": Expected("C3", status=WARNING, words="are the lengths in bohr?"),
    "160_pmg_structure.json": Expected(SALT, 2.16),
    "161_jarvis.json": Expected(SALT, 2.16),
    "164_table_with_cif_column.csv": Expected(SALT, 2.16, n=2),
}


@pytest.mark.parametrize("file", EXPECTED)
def test_file_has_the_right_structure_or_a_reason(test_data: Path, file: str):
    expected = EXPECTED[file]
    records = read_paths([test_data / "field_cases" / file])
    assert len(records) == expected.n
    for record in records:
        assert record.status == expected.status, record.problem
        assert expected.words in record.problem
        if expected.formula:
            assert record.formula == expected.formula
        if expected.density:
            assert density(record) == pytest.approx(expected.density, abs=0.02)


def test_response_of_optimade_has_a_reason_for_every_entry_that_is_not_used(test_data: Path):
    records = read_paths([test_data / "field_cases" / "163_optimade.json"])
    problems = {record.id: (record.status, record.problem) for record in records}
    assert problems["mp-1"] == ("ready", "")
    assert problems["mp-3"][0] == REFUSED
    assert "Disordered structures" in problems["mp-3"][1]
    assert "attached atoms" in problems["mp-5"][1]
    assert records[-1].status == REFUSED
    assert "the server has more structures" in records[-1].problem


def test_every_structure_file_of_the_manifest_is_tested(test_data: Path):
    with (test_data / "field_cases" / "manifest.csv").open(encoding="utf-8") as file:
        names = {row["file"] for row in csv.DictReader(file)}
    suffixes = (".cif", ".mcif", ".vasp", ".XDATCAR", ".xyz", ".pdb", ".json")
    tested = {*EXPECTED, "163_optimade.json"}
    assert {name for name in names if name.endswith(suffixes)} <= tested <= names
