"""Read geometry.in of FHI-aims, with atoms in Angstrom or in fractions of lattice vectors."""

import re

import numpy as np

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import ROW, Draft, Format, Unreadable, coordinates
from bandgap.structures.elements import element_of_name
from bandgap.structures.records import Limits

_ATOMS = {"atom", "atom_frac"}
_UNUSED = {  # keywords that do not concern the positions of atoms
    "initial_moment", "initial_charge", "constrain_relaxation", "homogeneous_field",
    "multipole", "velocity", "trust_radius", "hessian_block", "hessian_block_lv",
    "hessian_block_lv_atom", "hessian_file", "isotope", "symmetry_n_params", "symmetry_params",
    "symmetry_lv", "symmetry_frac", "symmetry_frac_change_threshold", "nuclear_spin",
    "magnetic_response", "magnetic_moment", "calculate_friction", "verbatim_writeout",
    "set_vacuum_level",
}  # fmt: skip


def read_aims(text: str, *, limits: Limits) -> list[Draft]:
    """Return the structure of a geometry.in. Raises Unreadable with the invalid line."""
    vectors: list[tuple[float, float, float]] = []
    atoms: list[tuple[float, float, float]] = []
    draft = Draft()
    fractional: list[bool] = []
    not_read: list[tuple[int, str]] = []
    for line, tokens in _instructions(text):
        keyword = tokens[0]
        if keyword == "lattice_vector":
            vectors.append(coordinates(tokens[1:], line=line))
        elif keyword in _ATOMS:
            if len(tokens) < 5:
                text = quoted(" ".join(tokens))
                raise Unreadable(
                    f"line {line}: expected three coordinates and an element, found {text}"
                )
            atoms.append(coordinates(tokens[1:], line=line))
            draft.symbols.append(element_of_name(tokens[4]) or tokens[4])
            fractional.append(keyword == "atom_frac")
        elif keyword == "empty":
            raise Unreadable(
                f"line {line}: ghost atoms (empty) are not supported. Remove them and export again"
            )
        elif keyword not in _UNUSED:
            not_read.append((line, " ".join(tokens)))
        if len(atoms) > limits.max_atoms:
            raise Unreadable(f"the structure has more than {limits.max_atoms:,} atoms, the limit")
    if not_read:
        line, text_of_line = not_read[0]
        more = f" and {len(not_read) - 1} more" if len(not_read) > 1 else ""
        draft.warn(f"line {line} ({quoted(text_of_line)}){more} not understood and not read")
    if len(vectors) not in (0, 3):
        raise Unreadable(
            f"expected no lattice_vector (a molecule) or three (a crystal), found {len(vectors)}"
        )
    if any(fractional) and not vectors:
        raise Unreadable("atom_frac needs three lattice_vector lines, and there is none")
    positions = np.array(atoms, dtype=float).reshape(-1, 3)
    if vectors:
        draft.cell = np.array(vectors)
        draft.pbc = (True, True, True)
        if atoms:
            is_fractional = np.array(fractional)[:, None]
            positions = np.where(is_fractional, positions @ draft.cell, positions)
    draft.positions = positions
    return [draft]


def _instructions(text: str) -> list[tuple[int, list[str]]]:
    lines = (line.split("#")[0].split() for line in text.split("\n"))
    return [(line_number, tokens) for line_number, tokens in enumerate(lines, start=1) if tokens]


FORMAT = Format(
    "FHI-aims",
    label="FHI-aims geometry.in",
    read=read_aims,
    patterns=(re.compile(rf"^[ \t]*(?:lattice_vector|atom|atom_frac)[ \t]+{ROW}", re.MULTILINE),),
)
