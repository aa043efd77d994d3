"""Small structure files, as text, that the tests of the readers share."""

import io
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from ase import Atoms
from ase.build import molecule as ase_molecule
from ase.db import connect

from bandgap.structures import StructureRecord, read_structures

METHANE_XYZ = """5
methane
C 0.000 0.000 0.000
H 0.629 0.629 0.629
H -0.629 -0.629 0.629
H -0.629 0.629 -0.629
H 0.629 -0.629 -0.629
"""

POSCAR = """rock salt
1.0
5.64 0.0 0.0
0.0 5.64 0.0
0.0 0.0 5.64
Na Cl
4 4
Direct
0.0 0.0 0.0
0.5 0.5 0.0
0.5 0.0 0.5
0.0 0.5 0.5
0.5 0.0 0.0
0.0 0.5 0.0
0.0 0.0 0.5
0.5 0.5 0.5
"""

AIMS = """# water
atom 0.0 0.0 0.0 O
atom 0.76 0.59 0.0 H
atom -0.76 0.59 0.0 H
"""

RES = """TITL acetylene in Pa-3 by hand
CELL 0.71073 6.14 6.14 6.14 90 90 90
ZERR 4 0.001 0.001 0.001 0 0 0
LATT -1
SFAC C H
UNIT 4 4
FVAR 1.0
C1 1 0.10 0.20 0.30 11.00000 0.05
H1 2 0.10 0.20 0.45 11.00000 0.05
HKLF 4
END
"""

PDB = """HEADER    WATER
HETATM    1  O   HOH A   1       0.000   0.000   0.000  1.00  0.00           O
HETATM    2  H1  HOH A   1       0.760   0.590   0.000  1.00  0.00           H
HETATM    3  H2  HOH A   1      -0.760   0.590   0.000  1.00  0.00           H
END
"""

P21C = ["x,y,z", "-x,y+1/2,-z+1/2", "-x,-y,-z", "x,-y+1/2,z+1/2"]
METHANOL = [
    ("C1", "C", 0.10, 0.10, 0.10),
    ("O1", "O", 0.30, 0.10, 0.10),
    ("H1", "H", 0.05, 0.22, 0.10),
]


def cif(
    *,
    name: str = "shelx",
    symbol: str | None = "P 21/c",
    operators: list[str] | None = P21C,
    sites: list[tuple[str, str, float, float, float]] = METHANOL,
    columns: dict[str, list[str]] | None = None,
    cell: tuple[float, ...] | None = (7.0, 8.0, 9.0, 90.0, 100.0, 90.0),
    extra: str = "",
) -> str:
    """Return a CIF block; `columns` adds _atom_site columns, None leaves a part out."""
    lines = [f"data_{name}"]
    if cell is not None:
        tags = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
        lines += [f"_cell_{tag} {value}" for tag, value in zip(tags, cell, strict=True)]
    if symbol is not None:
        lines.append(f"_symmetry_space_group_name_H-M '{symbol}'")
    if operators is not None:
        lines += [
            "loop_",
            "_symmetry_equiv_pos_as_xyz",
            *(f"'{operator}'" for operator in operators),
        ]
    lines += [extra] if extra else []
    lines += [
        "loop_",
        *(f"_atom_site_{tag}" for tag in ("label", "type_symbol", "fract_x", "fract_y", "fract_z")),
    ]
    added = columns or {}
    lines += [f"_atom_site_{tag}" for tag in added]
    for row, site in enumerate(sites):
        lines.append(
            " ".join(map(str, site)) + "".join(f" {values[row]}" for values in added.values())
        )
    return "\n".join(lines) + "\n"


def read(text: str, name: str = "sample.cif") -> list[StructureRecord]:
    """Read a text as the file `name`."""
    return read_structures(text.encode(), name)


def read_one(text: str, name: str = "sample.cif") -> StructureRecord:
    """Read a text that holds one structure."""
    (record,) = read(text, name)
    return record


def optimade(**changes: object) -> str:
    """A response with a molecule and a crystal; `changes` are attributes of the crystal."""
    molecule = {
        "species_at_sites": ["O", "H1", "H1"],
        "species": [
            {"name": "O", "chemical_symbols": ["O"], "concentration": [1.0]},
            {"name": "H1", "chemical_symbols": ["H"], "concentration": [1.0]},
        ],
        "cartesian_site_positions": [[0.0, 0.0, 0.1], [0.0, 0.76, -0.47], [0.0, -0.76, -0.47]],
        "lattice_vectors": None,
        "_exmpl_gap_eV": 7.5,
        "_exmpl_note": "made up",
    }
    crystal = {
        "species_at_sites": ["Na", "Cl"],
        "dimension_types": [1, 1, 1],
        "cartesian_site_positions": [[0, 0, 0], [2.82, 2.82, 2.82]],
        "lattice_vectors": [[0, 2.82, 2.82], [2.82, 0, 2.82], [2.82, 2.82, 0]],
    } | changes
    entries = [
        {"id": name, "type": "structures", "attributes": a}
        for name, a in (("w/1", molecule), ("n/2", crystal))
    ]
    return json.dumps({"meta": {"api_version": "1.2.0"}, "data": entries})


def ase_db(*structures: Atoms) -> bytes:
    """A database as ASE writes it: these structures, or a molecule and a slab, with key-values."""
    slab = Atoms("CuAu", [(0, 0, 5), (1.8, 1.8, 5)], cell=[3.6, 3.6, 12], pbc=(True, True, False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with connect(path, use_lock_file=False) as db:
            for number, atoms in enumerate(structures or (ase_molecule("CH3OH"), slab)):
                db.write(
                    atoms,
                    name=f"row-{number}",
                    gap_eV=1.5 + number,
                    source="made",
                    data={"x": [1, 2]},
                )
        return path.read_bytes()


PARQUET_ROWS = (
    {
        "id": "water",
        "numbers": [8, 1, 1],
        "positions": [[0.0, 0.0, 0.1], [0.0, 0.76, -0.47], [0.0, -0.76, -0.47]],
        "cell": None,
        "pbc": None,
        "gap_eV": 7.5,
        "note": "made up",
    },
    {
        "id": "salt",
        "numbers": [11, 17],
        "positions": [[0.0, 0.0, 0.0], [2.82, 2.82, 2.82]],
        "cell": [[0.0, 2.82, 2.82], [2.82, 0.0, 2.82], [2.82, 2.82, 0.0]],
        "pbc": [True] * 3,
        "gap_eV": None,
        "note": "made up",
    },
)


def parquet(*rows: dict[str, object], **settings: object) -> bytes:
    """A table of a molecule and a crystal, or of these rows; `settings` are those of its writer."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows or PARQUET_ROWS)), buffer, **settings)
    return buffer.getvalue()
