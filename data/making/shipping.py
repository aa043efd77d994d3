"""Write the demo data: gzipped extXYZ, CSV, and a manifest with checksums and statistics."""

import gzip
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from ase.data import chemical_symbols
from numpy.typing import NDArray

from bandgap.datasets.gaps import LEVEL_COLUMN
from bandgap.foundation.csv_tables import csv_text
from data.making.contacts import DECIMALS, Floats

MANIFEST: Final = "manifest.json"
SOURCE_MODEL: Final = "source_model"
LICENCE: Final = "CC0-1.0"
LEVELS_OF_THEORY: Final = {"molecules": "GFN2-xTB", "crystals": "GFN1-xTB (periodic, Gamma)"}
ID_FORMATS: Final = {"molecules": "mol-{:05d}", "crystals": "xtal-{:04d}"}
_MADE_WITH: Final = ("rdkit", "tblite", "numpy", "scipy", "ase")
_HOW: Final = {
    "molecules": "cores, linkers and substituents joined at random; ETKDGv3 geometry relaxed with "
    "MMFF94; HOMO-LUMO gap by GFN2-xTB on the geometry as shipped",
    "crystals": "other molecules of the same make, rigid and conjugated, packed as rigid bodies "
    "into one space group by minimising an OPLS-AA-like lattice energy from several random starts; "
    "gap at Gamma by GFN1-xTB with periodic boundary conditions on the geometry as shipped",
    "new_crystals": "crystals made like those above and in neither set; "
    "four were damaged on purpose",
}
STATISTICS: Final = ("mean", "sd", "min", "p05", "median", "p95", "max")

# Labels by name in the manifest.
QUANTITIES: Final[Mapping[str, str]] = {
    "n_atoms": "atoms",
    "gap_eV": "gap (eV)",
    "density_g_cm3": "density (g/cm3)",
    "closest_contact": "closest contact (of the van-der-Waals sum)",
    "lattice_energy_kcal_mol": "lattice energy (kcal/mol per molecule)",
    "molecule_gap_eV": "GFN2-xTB gap of the molecule (eV)",
    "molecule_gap_gfn1_eV": "GFN1-xTB gap of the molecule (eV)",
    "crystal_minus_molecule_eV": "crystal minus molecule, as labelled (GFN1 - GFN2, eV)",
    "crystal_minus_molecule_gfn1_eV": "crystal minus molecule, both GFN1-xTB (eV)",
}


@dataclass(frozen=True, eq=False)
class Item:
    """A molecule (cell None) or crystal, with its row of the table; lengths are in Angstrom."""

    row: Mapping[str, str | int | float]
    numbers: NDArray[np.int64]  # (n,)
    positions: Floats  # (n, 3)
    cell: Floats | None  # (3, 3), rows are the lattice vectors


def write_set(folder: Path, name: str, items: Sequence[Item]) -> pd.DataFrame:
    """Write `name`.extxyz.gz and `name`.csv with items numbered from 1, and return the table."""
    ids = [ID_FORMATS[name].format(number) for number in range(1, len(items) + 1)]
    level = LEVELS_OF_THEORY[name]
    text = "".join(
        extxyz_frame(item, identifier, level) for item, identifier in zip(items, ids, strict=True)
    )
    # Without time and name in the gzip header the same items give the same bytes.
    (folder / f"{name}.extxyz.gz").write_bytes(
        gzip.compress(text.encode(), compresslevel=9, mtime=0)
    )
    table = pd.DataFrame(
        [{"id": i, **item.row, LEVEL_COLUMN: level} for item, i in zip(items, ids, strict=True)]
    )
    (folder / f"{name}.csv").write_text(csv_text(table), encoding="utf-8", newline="")
    return table


def extxyz_frame(item: Item, identifier: str, level: str) -> str:
    """Return a frame with id, gap and its level of theory in the comment line."""
    keys = f'id={identifier} gap_eV={item.row["gap_eV"]} {LEVEL_COLUMN}="{level}"'
    if item.cell is None:
        head = f'Properties=species:S:1:pos:R:3 {keys} pbc="F F F"'
    else:
        lattice = " ".join(f"{x:.{DECIMALS}f}" for x in item.cell.ravel())
        head = f'Lattice="{lattice}" Properties=species:S:1:pos:R:3 {keys} pbc="T T T"'
    rows = "".join(
        _row(z, position) for z, position in zip(item.numbers, item.positions, strict=True)
    )
    return f"{len(item.numbers)}\n{head}\n{rows}"


def write_manifest(
    folder: Path,
    *,
    seed: int,
    tables: Mapping[str, pd.DataFrame],
    failures: Mapping[str, Mapping[str, int]],
    settings: Mapping[str, Any],
) -> Path:
    """Write the manifest of all files of the folder but source model and README."""
    sets = {
        name: {
            "n": len(table),
            "level_of_theory": LEVELS_OF_THEORY[name],
            "how": _HOW[name],
            "failed": dict(sorted(failures[name].items())),
            "distributions": distributions(table),
        }
        for name, table in tables.items()
    }
    manifest = {
        "title": "bandgap demo data",
        "licence": LICENCE,
        "seed": seed,
        "settings": dict(settings),
        "made_with": {
            "python": platform.python_version(),
            **{p: importlib.metadata.version(p) for p in _MADE_WITH},
        },
        "sets": sets,
        "new_crystals": _HOW["new_crystals"],
        "files": {
            path.relative_to(folder).as_posix(): checksum(path) for path in shipped_files(folder)
        },
    }
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return path


def distributions(table: pd.DataFrame) -> dict[str, Any]:
    """Return statistics of the quantities of a table, and counts of space groups and of Z."""
    table = table.copy()
    if "molecule_gap_eV" in table:
        table["crystal_minus_molecule_eV"] = table["gap_eV"] - table["molecule_gap_eV"]
        table["crystal_minus_molecule_gfn1_eV"] = table["gap_eV"] - table["molecule_gap_gfn1_eV"]
    result: dict[str, Any] = {
        name: statistics(table[name].to_numpy()) for name in QUANTITIES if name in table
    }
    for column in ("space_group", "Z"):
        if column in table:
            counts = table[column].astype(str).value_counts()
            result[column] = {str(k): int(counts[k]) for k in sorted(counts.index)}
    return result


def markdown_table(summary: Mapping[str, Any]) -> str:
    """Return the statistics of one set as a Markdown table."""
    lines = ["| | " + " | ".join(STATISTICS) + " |", "|---" * (len(STATISTICS) + 1) + "|"]
    for name, label in QUANTITIES.items():
        if name in summary:
            lines.append(
                f"| {label} | " + " | ".join(f"{summary[name][s]:.2f}" for s in STATISTICS) + " |"
            )
    return "\n".join(lines) + "\n"


def seal_source_model(folder: Path, *, how: str) -> Path:
    """Add checksums of the source model's files, and `how` it was trained, to the manifest."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    files = sorted(p for p in (folder / SOURCE_MODEL).iterdir() if p.is_file())
    checksums = {p.relative_to(folder).as_posix(): checksum(p) for p in files}
    manifest["source_model"] = {"how": how, "files": checksums}
    path.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return path


def changed_files(folder: Path) -> list[str]:
    """Return the files of a folder that differ from the checksums in its manifest."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    files = manifest["files"] | manifest.get(SOURCE_MODEL, {}).get("files", {})
    return [name for name, expected in files.items() if checksum(folder / name) != expected]


def shipped_files(folder: Path) -> Iterable[Path]:
    """Return the files that the manifest lists."""
    data_files = [
        folder / f"{name}{suffix}" for name in ID_FORMATS for suffix in (".csv", ".extxyz.gz")
    ]
    return [*sorted(data_files), *sorted((folder / "new_crystals").glob("*.cif"))]


def checksum(path: Path) -> dict[str, str | int]:
    """Return the SHA-256 and the size of a file."""
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def statistics(values: Any) -> dict[str, float]:
    """Return mean, standard deviation and quantiles, rounded to four decimals."""
    x = np.asarray(values, dtype=np.float64)
    p05, median, p95 = np.quantile(x, [0.05, 0.5, 0.95])
    figures = (x.mean(), x.std(ddof=1), x.min(), p05, median, p95, x.max())
    return {name: round(float(value), 4) for name, value in zip(STATISTICS, figures, strict=True)}


def _row(number: np.int64, position: Floats | NDArray[np.float64]) -> str:
    return chemical_symbols[int(number)] + "".join(f" {x:.{DECIMALS}f}" for x in position) + "\n"
