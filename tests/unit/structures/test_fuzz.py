"""Reading any bytes under any name ends without a warning: valid structures or a message."""

import functools
import gzip
import json
import re

import hypothesis.strategies as st
import numpy as np
import pytest
from ase.geometry import get_distances, minkowski_reduce
from hypothesis import HealthCheck, example, given, settings

from bandgap.datasets.demo import data_folder, unlabelled_cifs
from bandgap.datasets.gaps import labels_from_info
from bandgap.descriptors import config_for, featurize
from bandgap.foundation.errors import InputError
from bandgap.structures import Limits, StructureRecord, read_structures
from bandgap.structures.drawing import shape_of
from bandgap.structures.formats import FORMATS
from bandgap.structures.neighbours import CLOSEST_ANGSTROM
from tests.mutations import Random, assert_sentence, damaged, run_mutations, wrapped
from tests.unit.structures.samples import (
    AIMS,
    METHANE_XYZ,
    PDB,
    POSCAR,
    RES,
    ase_db,
    cif,
    optimade,
    parquet,
)

EXTENDED = METHANE_XYZ.replace(
    "methane", 'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 id=007 gap_eV=1.5'
)
ASE_JSON = {"numbers": [55, 17], "positions": [[0, 0, 0], [2, 2, 2]], "pbc": False}
TABLE = f'id,cif,gap_eV\na,"{cif()}",1.5\nb,"{cif()}",2.5\n'
NAMES = [
    "a.cif",
    "a.xyz",
    "POSCAR",
    "geometry.in",
    "a.res",
    "a.pdb",
    "a.zip",
    "a.xyz.gz",
    "a",
    "",
    "x/..",
    "a.txt",
    "a.json",
    "a.db",
    "a.parquet",
]
FEW = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
SMALL = Limits(max_atoms=100, max_structures=50, max_file_bytes=100_000, max_archive_bytes=200_000)

CONTCAR = (
    "two waters\n -216.0\n6 0 0\n1 6 0\n0 2 6\nH O\n4 2\nSelective dynamics\nCartesian\n"
    + "".join(
        f"{x} {y} {z} T T F\n"
        for x, y, z in [
            (0.76, 0.59, 0),
            (-0.76, 0.59, 0),
            (3.76, 3.59, 3),
            (2.24, 3.59, 3),
            (0, 0, 0),
            (3, 3, 3),
        ]
    )
)
VELOCITIES = "\n0.1 0.2 0.3\n0.1 0.2 0.3\n"
PERIODIC_AIMS = (
    "lattice_vector 5 0 0\nlattice_vector 1 5 0\nlattice_vector 0 0 6\natom_frac 0.1 0.1 0.1 C\n"
    "atom 2 2 2 O\n"
)
CRYST1 = "CRYST1   10.000   11.000   12.000  90.00  95.00  90.00 P 1 21/c 1\n"
MODELS = f"{CRYST1}MODEL        1\n{PDB}ENDMDL\nMODEL        2\n{PDB}"
OCCUPIED = cif(
    columns={"occupancy": ["1.0", "0.999(3)", "1"]}, extra="_chemical_formula_sum 'C4 H4 O4'"
)
BY_SYMBOL = cif(operators=None, symbol="P n a 21", extra="_cell.formula_units_Z 4")


@functools.cache
def seeds() -> list[tuple[str, bytes]]:
    """One sound file of every accepted format and variant, and files of the demo data."""
    texts = {
        "a.cif": cif() + cif(name="b"),
        "occupied.cif": OCCUPIED,
        "symbol.cif": BY_SYMBOL,
        "POSCAR": POSCAR,
        "a.vasp": POSCAR.replace("Na Cl\n", "", 1).replace("rock salt", "Na Cl"),
        "CONTCAR": CONTCAR + VELOCITIES,
        "a.xyz": METHANE_XYZ * 2,
        "a.extxyz": EXTENDED * 2,
        "a.pdb": PDB,
        "models.pdb": MODELS,
        "a.res": RES,
        "a.ins": RES.replace("LATT -1", "LATT 1\nSYMM -X, 1/2+Y, 1/2-Z"),
        "geometry.in": AIMS,
        "x/geometry.in.next_step": PERIODIC_AIMS,
        "a.json": optimade(),
        "ase.json": json.dumps(ASE_JSON),
        "table.csv": TABLE,
    }
    samples = [(name, text.encode()) for name, text in texts.items()] + [("a.db", ase_db())]
    samples += [("a.parquet", parquet(compression="none", use_dictionary=False, row_group_size=1))]
    samples += [(path.name, path.read_bytes()) for path in unlabelled_cifs()]
    for name in ("crystals", "molecules"):
        text = gzip.decompress((data_folder() / f"{name}.extxyz.gz").read_bytes())
        lines = text.split(b"\n", 400)
        samples += [(f"{name}.extxyz", b"\n".join(lines[: int(lines[0]) + 2]) + b"\n")]
    return samples


@functools.cache
def contents() -> list[bytes]:
    return [data for _, data in seeds()]


def mutated(rng: Random) -> tuple[bytes, str]:
    """Return a damaged file and its name, which mostly is the right one."""
    name, data = rng.choice(seeds())
    data = damaged(rng, data, contents())
    name = name if rng.random() < 0.85 else rng.choice(NAMES)
    return wrapped(rng, data, name) if rng.random() < 0.15 else (data, name)


def assert_sound(record: StructureRecord) -> None:
    """Fail where a structure for learning is empty, not finite, flat, or has overlapping atoms."""
    assert record.atoms is not None
    atoms = record.atoms
    assert len(atoms) > 0
    assert np.isfinite(atoms.positions).all() and np.isfinite(atoms.cell.array).all()
    assert ((atoms.numbers > 0) & (atoms.numbers <= 118)).all()
    if atoms.pbc.any():
        assert atoms.cell.complete().volume > 1e-3
    # A structure that is not periodic may have a cell of any form, and a long cell has many bins of
    # a neighbour list. So the distances of all pairs are computed.
    cell = pbc = None
    to_own_images = []
    if atoms.pbc.any():
        pbc = atoms.pbc
        cell, _ = minkowski_reduce(atoms.cell.complete(), pbc)
        to_own_images = np.linalg.norm(cell[pbc], axis=1)
    _, distances = get_distances(atoms.positions, cell=cell, pbc=pbc)
    between_atoms = distances[~np.eye(len(atoms), dtype=bool)]
    assert min([*between_atoms, *to_own_images], default=np.inf) > CLOSEST_ANGSTROM - 1e-6


def check_file(rng: Random) -> None:
    """Read one damaged file; every 25th or so is drawn and described too."""
    data, name = mutated(rng)
    records = read_structures(data, name, limits=SMALL)
    assert records
    assert len({record.id for record in records}) == len(records)
    for record in records:
        assert (record.atoms is None) == (record.status == "refused")
        for problem in record.problems:
            assert_sentence(problem.text)
        if record.status != "refused":
            assert_sound(record)
    try:
        labels_from_info(records, "gap_eV")
    except InputError as error:
        assert_sentence(str(error))
    if rng.random() < 0.04:
        described = featurize(records, config_for(preset="oe62-16-roots"))
        for record, row, problem in zip(
            records, described.features, described.problems, strict=True
        ):
            assert problem is not None or record.atoms is None or np.isfinite(row).all()
            assert problem is None or not re.search("by DScribe|not finite", problem.text), problem
            shape_of(record)


def test_samples_of_damaged_files_cover_every_format():
    records = [record for name, data in seeds() for record in read_structures(data, name)]
    assert {record.format for record in records} >= {form.name for form in FORMATS.values()}


@pytest.mark.parametrize(
    ("count", "fresh"),
    [(300, False), pytest.param(70_000, True, marks=[pytest.mark.fuzz, pytest.mark.soak])],
)
def test_damaged_files_give_valid_structures_or_a_reason(
    count: int, fresh: bool, capsys: pytest.CaptureFixture[str]
):
    run_mutations(check_file, count=count, fresh=fresh, capsys=capsys)


def assert_verdicts(records: list[StructureRecord]) -> None:
    assert records
    assert len({record.id for record in records}) == len(records)
    for record in records:
        assert record.status in ("ready", "warning", "refused")
        assert (record.atoms is None) == (record.status == "refused")
        assert "cannot be read as" not in record.problem
        assert record.problem.isprintable()
        assert record.verdict


@FEW
@given(st.binary(max_size=400), st.sampled_from(NAMES))
@example(b"\x1f\x8b", "a.gz")
@example(b"PK\x03\x04", "a.zip")
@example(b"\xff\xfe\x00", "a.cif")
def test_arbitrary_bytes_give_verdicts(data: bytes, name: str):
    assert_verdicts(read_structures(data, name, limits=SMALL))


@FEW
@given(st.text(max_size=300), st.sampled_from(NAMES))
def test_arbitrary_text_gives_verdicts(text: str, name: str):
    assert_verdicts(read_structures(text.encode("utf-8", errors="replace"), name, limits=SMALL))
