"""The unlabelled CIF files of the demo: eight valid ones and four that are damaged on purpose."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from ase.data import chemical_symbols

from bandgap.structures.shapes import cell_lengths_angles
from data.making.shipping import Item

N_SAMPLES: Final = 12
N_PLAIN: Final = 3  # Valid files with all atoms and without symmetry.

_OPERATORS: Final = {
    "P1": ("x,y,z",),
    "P-1": ("x,y,z", "-x,-y,-z"),
    "P21": ("x,y,z", "-x,y+1/2,-z"),
    "P21/c": ("x,y,z", "-x,-y,-z", "-x,y+1/2,-z+1/2", "x,-y+1/2,z+1/2"),
    "P212121": ("x,y,z", "-x+1/2,-y,z+1/2", "-x,y+1/2,-z+1/2", "x+1/2,-y+1/2,-z"),
}
_NAMES: Final = {
    "P1": "P 1",
    "P-1": "P -1",
    "P21": "P 1 21 1",
    "P21/c": "P 1 21/c 1",
    "P212121": "P 21 21 21",
}
_NUMBERS: Final = {"P1": 1, "P-1": 2, "P21": 4, "P21/c": 14, "P212121": 19}


def write_sample_cifs(folder: Path, items: Sequence[Item]) -> None:
    """Replace the CIF files of a folder by five with symmetry, three without and four damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.cif"):
        old.unlink()
    valid = items[: N_SAMPLES - 4]
    damaged = items[N_SAMPLES - 4 : N_SAMPLES]
    for number, item in enumerate(valid, start=1):
        symmetric = number <= len(valid) - N_PLAIN
        group = str(item.row["space_group"]).replace("/", "") if symmetric else "all_atoms"
        _write(
            folder / f"{number:02d}_{item.row['formula']}_{group}.cif",
            cif_text(item, symmetric=symmetric),
        )
    disordered, stripped, cut, close = damaged
    _write(folder / "09_partial_occupancy.cif", _half_occupied(cif_text(disordered)))
    _write(folder / "10_no_hydrogens.cif", _without_hydrogens(cif_text(stripped)))
    _write(folder / "11_truncated.cif", _truncated(cif_text(cut)))
    _write(
        folder / "12_two_atoms_too_close.cif", cif_text(_with_close_atoms(close), symmetric=False)
    )


def cif_text(item: Item, *, symmetric: bool = True) -> str:
    """Return CIF text with the asymmetric unit and operators, or with all atoms of the cell."""
    assert item.cell is not None
    group = str(item.row["space_group"]) if symmetric else "P1"
    n = len(item.numbers) // len(_OPERATORS[group])
    fractional = item.positions[:n] @ np.linalg.inv(item.cell)
    a, b, c, alpha, beta, gamma = np.concatenate(cell_lengths_angles(item.cell))
    name = re.sub(r"\W+", "_", f"{item.row['formula']}")
    lines = [
        f"data_{name}",
        f"_chemical_formula_sum '{_spaced(str(item.row['formula']))}'",
        f"_cell_length_a {a:.5f}",
        f"_cell_length_b {b:.5f}",
        f"_cell_length_c {c:.5f}",
        f"_cell_angle_alpha {alpha:.4f}",
        f"_cell_angle_beta {beta:.4f}",
        f"_cell_angle_gamma {gamma:.4f}",
        f"_cell_formula_units_Z {item.row['Z']}",
        f"_space_group_name_H-M_alt '{_NAMES[group]}'",
        f"_space_group_IT_number {_NUMBERS[group]}",
        "loop_",
        "_space_group_symop_operation_xyz",
        *(f"'{operator}'" for operator in _OPERATORS[group]),
        "loop_",
        "_atom_site_label",
        "_atom_site_type_symbol",
        "_atom_site_fract_x",
        "_atom_site_fract_y",
        "_atom_site_fract_z",
        "_atom_site_occupancy",
    ]
    for k, (z, (x, y, w)) in enumerate(zip(item.numbers[:n], fractional, strict=True), start=1):
        symbol = chemical_symbols[int(z)]
        lines.append(f"{symbol}{k} {symbol} {x:.6f} {y:.6f} {w:.6f} 1")
    return "\n".join(lines) + "\n"


def _spaced(formula: str) -> str:
    return " ".join(re.findall(r"[A-Z][a-z]?\d*", formula))


def _atom_rows(text: str) -> list[str]:
    return text[text.index("_atom_site_occupancy\n") :].splitlines()[1:]


def _half_occupied(text: str) -> str:
    """Replace the first atom by two of half occupancy, about 0.5 Angstrom from each other."""
    first = _atom_rows(text)[0]
    label, symbol, x, y, z, _ = first.split()
    pair = f"{label}A {symbol} {x} {y} {z} 0.5\n{label}B {symbol} {float(x) + 0.05:.6f} {y} {z} 0.5"
    return text.replace(first, pair, 1)


def _without_hydrogens(text: str) -> str:
    return "".join(
        line for line in text.splitlines(keepends=True) if not re.match(r"H\d+ H ", line)
    )


def _truncated(text: str) -> str:
    """Truncate the text in the middle of an atom's row."""
    rows = _atom_rows(text)
    row = rows[len(rows) // 2]
    return text[: text.index(row) + len(row) // 2]


def _with_close_atoms(item: Item) -> Item:
    """Add a second carbon 0.1 Angstrom from the first."""
    assert item.cell is not None
    carbon = int(np.flatnonzero(item.numbers == 6)[0])
    numbers = np.append(item.numbers, 6)
    positions = np.vstack([item.positions, item.positions[carbon] + [0.1, 0.0, 0.0]])
    return Item(item.row, numbers, positions, item.cell)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")
