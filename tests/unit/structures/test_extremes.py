"""Numbers that overflow, anywhere in a file, give a verdict and no warning of NumPy."""

import re

import numpy as np
import pytest

from tests.unit.structures.samples import AIMS, METHANE_XYZ, PDB, POSCAR, RES, cif, read, read_one

CRYST1 = "CRYST1   10.000   11.000   12.000  90.00  95.00  90.00 P 1 21/c 1\n"
SCALE = "".join(
    f"SCALE{row}    {x:10.6f}{y:10.6f}{z:10.6f}\n"
    for row, (x, y, z) in enumerate([(0.1, 0, 0.008749), (0, 1 / 11, 0), (0, 0, 0.083652)], start=1)
)
CRYSTAL = (
    "lattice_vector 5 0 0\nlattice_vector 0 5 0\nlattice_vector 0 0 6\natom_frac 0.1 0.1 0.1 C\n"
    "atom 2 2 2 O\n"
)
LATTICE = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 gap_eV=1.5'
FILES = {
    "POSCAR": POSCAR,
    "volume.vasp": POSCAR.replace("1.0\n", "-179.4\n", 1),
    "a.pdb": CRYST1 + SCALE + PDB,
    "scales.vasp": POSCAR.replace("1.0\n", "5.64 5.64 5.64\n", 1)
    .replace("5.64 0", "1 0")
    .replace("0 5.64", "0 1")
    .replace("Direct", "Cartesian"),
    "geometry.in": CRYSTAL,
    "molecule/geometry.in": AIMS,
    "a.res": RES,
    "a.xyz": METHANE_XYZ,
    "a.extxyz": METHANE_XYZ.replace("methane", LATTICE),
    "a.cif": cif(columns={"occupancy": ["1", "1", "1"]}),
}
EXTREMES = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e200",
    "1e154",
    "1e100",
    "1e-160",
    "1e-320",
    "nan",
    "-inf",
    "9" * 400,
]
NUMBER = re.compile(r"(?<![\w.'/+-])-?\d+\.?\d*(?![\w'/])")

POSITION = "expected three coordinates"
VECTOR = "expected a lattice vector (three numbers)"
OUT = "is too large for a structure"
FLAT = "the unit cell has no volume"


@pytest.mark.parametrize("name", FILES)
def test_extreme_number_gives_valid_structures_or_a_verdict(name: str):
    text = FILES[name]
    assert [record.atoms is not None for record in read(text, name)] == [True]
    places = list(NUMBER.finditer(text))
    assert len(places) >= 9
    for place in places:
        for extreme in EXTREMES:
            width = len(place.group()) if name.endswith(".pdb") else 0
            changed = f"{text[: place.start()]}{extreme[:8]:>{width}}{text[place.end() :]}"
            if not width:
                changed = text[: place.start()] + extreme + text[place.end() :]
            for record in read(changed, name):  # a warning is an error in every test
                assert "cannot be read as" not in record.problem
                assert record.atoms is None or np.isfinite(record.atoms.positions).all()
                assert (record.atoms is None) == (record.status == "refused")


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (
            "POSCAR",
            "5.64 0.0 0",
            "1e308 0.0 0",
            f"line 3: {VECTOR}, found '1e308 0.0 0.0', which {OUT}",
        ),
        (
            "POSCAR",
            "5.64 0.0 0",
            "1e90 0.0 0",
            "a coordinate or cell vector of 1e+90 A is too large for a structure; is the unit"
            " right?",
        ),
        (
            "POSCAR",
            "1.0\n",
            "1e200\n",
            "line 2: expected the scale (one number, or three above zero), found '1e200'",
        ),
        ("POSCAR", "0.0 5.64\n", "0.0 1e-160\n", f"{FLAT}: its opposite faces are 1e-160 A apart"),
        (
            "POSCAR",
            "0.5 0.5 0.0",
            "0.5 0.5 -1e308",
            f"line 10: {POSITION}, found '0.5 0.5 -1e308', which {OUT}",
        ),
        (
            "geometry.in",
            "0.1 0.1 0.1",
            "1e308 0.1 0.1",
            f"line 4: {POSITION}, found '1e308 0.1 0.1', which {OUT}",
        ),
        (
            "a.pdb",
            "  0.083652",
            "   8.3e307",
            "SCALE1 to SCALE3 do not fit the cell of CRYST1. Export as CIF.",
        ),
        (
            "a.cif",
            "length_b 8.0",
            "length_b 1e-320",
            f"{FLAT}: its opposite faces are 1e-320 A apart",
        ),
    ],
)
def test_extreme_number_is_refused_with_a_reason(name: str, old: str, new: str, expected: str):
    text = FILES[name]
    assert old in text
    assert read_one(text.replace(old, new, 1), name).problem == expected
