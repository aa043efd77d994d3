"""The second demo: crystals of the Materials Project with PBE gaps.

The target set has the crystals with both carbon and hydrogen, the source set all others. Each set
has a held-out part, drawn by families: crystals whose formulas differ only by elements of one group
of the periodic table (rare earths are one group) are never on both sides.

The data are from the Materials Project (A. Jain et al., APL Mater. 1, 011002, 2013), CC BY 4.0.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from bandgap.datasets.gaps import LEVEL_COLUMN
from bandgap.datasets.splits import grouped_split
from bandgap.foundation.csv_tables import csv_text
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.structures import StructureRecord, read_paths
from bandgap.structures.formula import reduced_formula
from data.making.contacts import DECIMALS
from data.making.shipping import MANIFEST, Item, checksum, extxyz_frame, statistics

# Files of the folder of raw data.
CIFS: Final = "cifs.zip"
TABLE: Final = "mp_crystals_pbe.csv"
GAP_COLUMN: Final = "gap_eV"
SEED: Final = 2026
HELD_OUT: Final = {"source": 191, "target": 69}
LICENCE: Final = "CC-BY-4.0"
LEVEL_OF_THEORY: Final = "PBE"
ATTRIBUTION: Final = (
    "Structures and gaps: Materials Project, https://materialsproject.org, CC BY 4.0 "
    "(https://creativecommons.org/licenses/by/4.0/). A. Jain, S. P. Ong, G. Hautier, W. Chen, "
    "W. D. Richards, S. Dacek, S. Cholia, D. Gunter, D. Skinner, G. Ceder and K. A. Persson, "
    "Commentary: The Materials Project: a materials genome approach to accelerating materials "
    "innovation, APL Materials 1, 011002 (2013), "
    "https://doi.org/10.1063/1.4812323"
)
CHANGES: Final = (
    "a choice of 2,400 non-metals of up to 200 atoms; positions and cells rounded to "
    f"{DECIMALS} decimals of an angstrom; put into two sets with a held-out part each"
)
# Groups of the periodic table; a family replaces each element by the first of its group.
GROUPS: Final = (
    "Li Na K Rb Cs",
    "Be Mg Ca Sr Ba",
    "Sc Y La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu",
    "Ti Zr Hf",
    "V Nb Ta",
    "Cr Mo W",
    "Mn Tc Re",
    "Fe Ru Os",
    "Co Rh Ir",
    "Ni Pd Pt",
    "Cu Ag Au",
    "Zn Cd Hg",
    "B Al Ga In Tl",
    "Si Ge Sn Pb",
    "P As Sb Bi",
    "S Se Te",
    "F Cl Br I",
)
_FIRST: Final = {symbol: group.split()[0] for group in GROUPS for symbol in group.split()}
_COLUMNS: Final = ("id", "formula", "family", "n_atoms", GAP_COLUMN, LEVEL_COLUMN, "part")


def family(symbols: Sequence[str]) -> str:
    """Return the reduced formula with each element replaced by the first of its group.

    >>> family(["K", "I"]), family(["Na", "Cl", "Na", "Cl"])
    ('FLi', 'FLi')
    """
    return reduced_formula([_FIRST.get(symbol, symbol) for symbol in symbols])


def make_inorganic_demo(
    raw: Path, folder: Path, *, seed: int = SEED, progress: Progress = no_progress
) -> Path:
    """Write both sets from the folder `raw`, and return the path of their manifest.

    Raises
    ------
    InputError
        If a file is missing, or a structure is refused or has no gap in the table.
    """
    for name in (CIFS, TABLE):
        if not (raw / name).is_file():
            raise InputError(
                f"{raw} has no {name}. "
                "Give the folder with the structures and the table of their gaps."
            )
    records = read_paths([raw / CIFS], progress=progress)
    gaps = pd.read_csv(raw / TABLE, keep_default_na=False).set_index("id")[GAP_COLUMN]
    for record in records:
        if record.atoms is None or record.id not in gaps.index:
            problem = record.problem or f"has no gap in {TABLE}"
            raise InputError(f"{raw}: {record.id} {problem}. Remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    organic = [{"C", "H"} <= set(_symbols(record)) for record in records]
    sets: dict[str, Any] = {}
    for name in HELD_OUT:
        records_of_set = [
            record
            for record, both in zip(records, organic, strict=True)
            if both == (name == "target")
        ]
        sets[name] = _write(folder, name, records_of_set, gaps, seed)
    manifest = {
        "title": "bandgap demo of inorganic crystals",
        "licence": LICENCE,
        "attribution": ATTRIBUTION,
        "changes": CHANGES,
        "seed": seed,
        "sets": sets,
        "files": {
            file: checksum(folder / file)
            for name in sets
            for file in (f"{name}.csv", f"{name}.extxyz.gz")
        },
    }
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return path


def _write(
    folder: Path, name: str, records: Sequence[StructureRecord], gaps: Any, seed: int
) -> dict[str, Any]:
    """Write a set, sorted by id, and return its entry of the manifest."""
    records = sorted(records, key=lambda record: record.id)
    rows = pd.DataFrame(
        {
            "id": [record.id for record in records],
            "formula": [reduced_formula(_symbols(record)) for record in records],
            "family": [family(_symbols(record)) for record in records],
            "n_atoms": [record.n_atoms for record in records],
            GAP_COLUMN: [float(gaps[record.id]) for record in records],
        }
    )
    split = grouped_split(
        rows["id"].tolist(),
        groups=rows["family"].tolist(),
        n_test=HELD_OUT[name],
        n_train=None,
        seed=seed,
    )
    rows[LEVEL_COLUMN] = LEVEL_OF_THEORY
    rows["part"] = np.where(np.isin(np.arange(len(rows)), split.test), "held out", "learned")
    text = "".join(
        extxyz_frame(_item(record, float(gap)), record.id, LEVEL_OF_THEORY)
        for record, gap in zip(records, rows[GAP_COLUMN], strict=True)
    )
    # Without time and name in the gzip header the same crystals give the same bytes.
    (folder / f"{name}.extxyz.gz").write_bytes(
        gzip.compress(text.encode(), compresslevel=9, mtime=0)
    )
    (folder / f"{name}.csv").write_text(
        csv_text(rows[list(_COLUMNS)]), encoding="utf-8", newline=""
    )
    return {
        "n": len(rows),
        "level_of_theory": LEVEL_OF_THEORY,
        "families": int(rows["family"].nunique()),
        "formulas": int(rows["formula"].nunique()),
        "elements": sorted({symbol for record in records for symbol in _symbols(record)}),
        "distributions": {
            "n_atoms": statistics(rows["n_atoms"]),
            GAP_COLUMN: statistics(rows[GAP_COLUMN]),
        },
        "held_out": rows["id"][rows["part"] == "held out"].tolist(),
    }


def _symbols(record: StructureRecord) -> list[str]:
    assert record.atoms is not None
    return list(record.atoms.symbols)


def _item(record: StructureRecord, gap_eV: float) -> Item:
    assert record.atoms is not None
    return Item(
        {GAP_COLUMN: gap_eV},
        record.atoms.numbers,
        np.asarray(record.atoms.positions),
        np.asarray(record.atoms.cell),
    )
