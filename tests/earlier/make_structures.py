"""Structures of the demo data for the files of an earlier version, small and few; `make_earlier.py` asks for them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bandgap
from bandgap.structures import StructureRecord
from bandgap.structures.formats.xyz import extxyz_blocks

SPECIES = ("H", "C", "N", "O")
N_MOLECULES, N_CRYSTALS, N_NEW, N_UPLOADED = 56, 50, 4, 12
LEVEL_OF_THEORY = "GFN1-xTB"


def make_structures(folder: Path) -> None:
    """Write small molecules and crystals of the demo with their gaps, and crystals to predict without them."""
    folder.mkdir(parents=True)
    molecules, crystals = bandgap.load_demo("molecules"), bandgap.load_demo("crystals")
    chosen = small(molecules.records, N_MOLECULES, n_atoms=range(9, 14))
    write(folder / "molecules.extxyz", chosen, dict(zip(ids(molecules.records), molecules.gaps_eV, strict=True)))
    found = small(crystals.records, N_CRYSTALS + N_NEW, n_atoms=range(10, 36))
    gaps = dict(zip(ids(crystals.records), crystals.gaps_eV, strict=True))
    write(folder / "crystals.extxyz", found[:N_CRYSTALS], gaps)
    write(folder / "uploaded.extxyz", found[:N_UPLOADED], gaps)
    foreign = next(r for r in crystals.records if r.atoms is not None and "S" in r.atoms.symbols and len(r.atoms) < 40)
    write(folder / "new.extxyz", [*found[N_CRYSTALS:], foreign], {})


def small(records: Sequence[StructureRecord], n: int, *, n_atoms: range) -> list[StructureRecord]:
    """Return the first n structures of so many atoms of the chosen elements."""
    fitting = (
        r
        for r in records
        if r.atoms is not None
        and r.status == "ready"
        and len(r.atoms) in n_atoms
        and {"H", "C"} <= set(r.atoms.symbols) <= set(SPECIES)
    )
    return [record for record, _ in zip(fitting, range(n), strict=False)]


def ids(records: Sequence[StructureRecord]) -> list[str]:
    return [record.id for record in records]


def write(path: Path, records: Sequence[StructureRecord], gaps: Mapping[str, float]) -> None:
    """Write structures with their ids, and with their gaps in eV where there are any."""
    comments: list[dict[str, Any]] = [
        {"id": r.id, **({"gap_eV": float(gaps[r.id])} if r.id in gaps else {})} for r in records
    ]
    path.write_text("".join(extxyz_blocks(records, comments)), encoding="utf-8")


def read(path: Path) -> tuple[list[StructureRecord], np.ndarray]:
    """Return structures and their gaps in eV, as every later version reads them."""
    records = list(bandgap.read_structures(path.read_bytes(), path.name))
    return records, np.array([float(r.info.get("gap_eV", np.nan)) for r in records])
