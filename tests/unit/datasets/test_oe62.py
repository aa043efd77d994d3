"""OE62 files: peculiar rows, published values, and real rows."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.oe62 import LEVELS, read_oe62

WATER = "3\n\nO 50.0 40.0 30.1193\nH 50.0 40.7632 29.5227\nH 50.0 39.2368 29.5227\n"
HCN = "3\n\nH 0.0 0.0 -1.066\nC 0.0 0.0 0.0\nN 0.0 0.0 1.156\n"
COLUMNS = ["refcode_csd", "canonical_smiles", "inchi", "number_of_atoms", "xyz_pbe_relaxed"]
PBE, PBE0, WATER_LEVEL, GW = (LEVELS[level][:2] for level in ("pbe", "pbe0", "pbe0_water", "gw"))
COLUMNS += [*PBE, *PBE0, *WATER_LEVEL, *GW, "total_energy_pbe0_vac_tier2"]

# Index labels are not in the order of the rows.
# fmt: off
ROWS = {
    # Everything computed; lists of one virtual level.
    0: ["AAA", "O\t\n", "InChI=1S/H2O\n", 3, WATER, [-9.3, -7.2], [-0.9, -0.1], [-11.8, -9.1],
        [-0.2], [-9.2], [-0.3], [-14.6, -12.5], [2.5], -2080.1],
    # A number instead of a list of one virtual level, and a positive LUMO; no water, no GW.
    3: ["BBB", "C\t\n", "InChI=1S/CH4\n", 3, HCN, [-9.4, -9.4], -0.4, [-11.0, -11.0], 0.31,
        None, None, None, None, None],
    # Degenerate levels.
    1: ["CCC", "C#N\t\n", "\n", 3, HCN, [-9.0, -9.0], [-1.2, -1.2], [-10.5], [-0.4, -0.4],
        None, None, None, None, 0.0],
    # The same molecule again with missing levels: null, an empty list, a scalar NaN.
    4: ["DDD", "C#N\t\n", "\n", 3, HCN, None, None, [-10.5], [],
        None, float("nan"), None, [None], 0.0],
    # No refcode, SMILES that no toolkit reads, a tab in the geometry.
    2: [None, "not a smiles\t\n", "\n", 3, WATER.replace("O 50", "O\t50"), [-25.1, -7.2], [-0.9],
        [-9.1], [-0.2], None, None, None, None, 0.0],
}
# fmt: on


def write(folder, rows=ROWS, columns=COLUMNS):
    path = folder / "df.json"
    path.write_text(
        json.dumps({"columns": columns, "index": list(rows), "data": list(rows.values())})
    )
    return path


@pytest.mark.parametrize(
    ("level", "gaps", "ids"),
    [
        ("pbe", [7.2 - 0.9, 9.4 - 0.4, 9.0 - 1.2, 7.2 - 0.9], ["AAA", "BBB", "CCC", "oe62_00002"]),
        (
            "pbe0",
            [9.1 - 0.2, 11.0 + 0.31, 10.5 - 0.4, 9.1 - 0.2],
            ["AAA", "BBB", "CCC", "oe62_00002"],
        ),
        ("pbe0_water", [9.2 - 0.3], ["AAA"]),
        ("gw", [12.5 + 2.5], ["AAA"]),
    ],
)
def test_read_oe62_gap_is_first_unoccupied_minus_last_occupied(tmp_path, level, gaps, ids):
    molecules = read_oe62(write(tmp_path), level=level)
    np.testing.assert_allclose(molecules.gaps_eV, gaps, atol=1e-12)
    assert [record.id for record in molecules.records] == ids
    assert len(molecules.records) + len(molecules.dropped) == 5


def test_read_oe62_rows_left_out_are_named_with_their_reason(tmp_path):
    molecules = read_oe62(write(tmp_path), level="pbe")
    assert [(row.id, row.index, row.reason) for row in molecules.dropped] == [
        ("DDD", 4, "no occupied levels at PBE+vdW")
    ]
    assert molecules.summary == "5 rows read, 4 kept; 1 left out: no occupied levels at PBE+vdW."
    assert [row.reason for row in read_oe62(write(tmp_path), level="pbe0").dropped] == [
        "no unoccupied levels at PBE0"
    ]


def test_read_oe62_geometry_is_not_moved(tmp_path):
    record = read_oe62(write(tmp_path), level="pbe").records[0]
    assert record.atoms.get_chemical_symbols() == ["O", "H", "H"]
    np.testing.assert_array_equal(record.atoms.positions[1], [50.0, 40.7632, 29.5227])
    assert not record.atoms.pbc.any()
    assert (record.status, record.info["index"]) == ("ready", 0)


@pytest.mark.parametrize(
    ("smiles", "level", "occupied", "unoccupied", "gap"),
    [
        pytest.param(
            "MAJHUB", "pbe0", [-7.0, -6.45361], [-2.57014, -1.0], 3.88347, id="MAJHUB-pbe0"
        ),
        pytest.param("MAJHUB", "gw", [-9.0, -8.31924], [-1.48633], 6.83291, id="MAJHUB-gw"),
        pytest.param("JIMHOC", "pbe", [-5.0, -4.196], [-0.62037], 3.57563, id="JIMHOC-pbe"),
        pytest.param(
            "JIMHOC", "pbe0", [-6.0, -5.25787], 0.03856, 5.29643, id="JIMHOC-positive-lumo"
        ),
        pytest.param("GALPAL", "pbe", [-6.0, -5.61075], [-1.63809, -0.5], 3.97266, id="GALPAL-pbe"),
    ],
)
def test_read_oe62_published_levels_give_the_published_gap(
    tmp_path, smiles, level, occupied, unoccupied, gap
):
    columns = ["refcode_csd", "xyz_pbe_relaxed", *LEVELS[level][:2]]
    molecules = read_oe62(
        write(tmp_path, {0: [smiles, WATER, occupied, unoccupied]}, columns), level=level
    )
    assert molecules.gaps_eV[0] == pytest.approx(gap, abs=1e-9)


def test_read_oe62_repeated_refcode_gets_its_index_appended(tmp_path):
    rows = {5: ROWS[0], 9: ROWS[0]}
    records = read_oe62(write(tmp_path, rows), level="pbe").records
    assert [record.id for record in records] == ["AAA", "AAA_9"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({4: WATER[:40]}, "geometry is absent or cut off"),
        ({4: None}, "geometry is absent or cut off"),
        ({4: WATER.replace("O ", "Q ")}, "geometry contains a line that is not an atom"),
        ({4: WATER.replace("30.1193", "nan")}, "geometry contains a line that is not an atom"),
        ({3: 4}, "number_of_atoms differs from the geometry"),
        ({4: WATER.replace("3", "\u00b3", 1)}, "geometry is absent or cut off"),
        (
            {4: WATER.replace("50.0 40.7632 29.5227", "50.0 40.0 30.2")},
            "geometry contains atoms closer than 0.5 A",
        ),
        ({4: WATER.replace("30.1193", "1e308")}, "geometry contains a line that is not an atom"),
        ({5: [-0.1], 6: [-0.9]}, "HOMO above LUMO"),
        ({5: [-99.0], 6: [2.0]}, "a gap above 100 eV"),
        ({5: [-1e308], 6: [1e308]}, "no occupied levels at PBE+vdW"),
        ({5: [10**400]}, "no occupied levels at PBE+vdW"),
    ],
)
def test_read_oe62_row_that_cannot_be_used_is_left_out(tmp_path, change, reason):
    row = [change.get(i, value) for i, value in enumerate(ROWS[0])]
    molecules = read_oe62(write(tmp_path, {0: row, 3: ROWS[3]}), level="pbe")
    assert [record.id for record in molecules.records] == ["BBB"]
    assert molecules.dropped[0].reason == reason


@pytest.mark.data
def test_read_oe62_real_rows_agree_with_the_published_table():
    if "BANDGAP_TEST_DATA" not in os.environ:
        pytest.skip("BANDGAP_TEST_DATA is not set")
    folder = Path(os.environ["BANDGAP_TEST_DATA"]) / "oe62_gw"
    molecules = read_oe62(folder / "df_5k_subset_split.json.gz", level="gw_qzvp")
    table = np.genfromtxt(
        folder / "oe62_gw.csv",
        delimiter=",",
        names=True,
        dtype=None,
        encoding="utf-8",
        comments=None,
    )
    assert (len(molecules.records), len(molecules.dropped)) == (1911, 0)
    assert [record.info["index"] for record in molecules.records] == table["df5k_row"].tolist()
    assert [record.atoms.get_chemical_formula("hill") for record in molecules.records] == table[
        "formula"
    ].tolist()
    np.testing.assert_allclose(molecules.gaps_eV, table["gap_eV"], atol=1e-6)
    # As published.
    limits = (molecules.gaps_eV.min(), molecules.gaps_eV.max())
    assert limits == pytest.approx((4.28, 12.62), abs=0.005)
