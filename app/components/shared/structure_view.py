"""The view of one structure: a figure in three dimensions, numbers, and a table of atoms."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, tables, words
from app.components.structures.viewer import draw_shape
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import Verdict
from bandgap.plots.elements import symbol_of
from bandgap.structures.shapes import Shape, cell_lengths_angles, load_shape

CAPTION = "Drag to turn, scroll to zoom."
BONDS_HELP = (
    "Bonds are contacts below 1.25 times the sum of the covalent radii. Contacts between metals of "
    "an ionic crystal are not drawn, nor those of large cations such as K and Ba next to polyhedra."
)


_POSITIONS = {name: tables.column(name, format="%.3f") for name in ("x (Å)", "y (Å)", "z (Å)")}


def structure_view(path: Path, row: int, verdict: Verdict, *, key: str) -> bool:
    """Draw the structure of a row and its numbers; return False if its file cannot be read."""
    st.markdown(f"**{words.escaped(verdict.id)}** {words.escaped(verdict.formula)}")
    if verdict.status == "refused":
        frame.warn([f"Refused: {verdict.problem}"])
        st.caption(words.escaped(verdict.file))
        return True
    shape = _shape(path, row)
    if shape is None:
        return False
    _draw(shape, formula=verdict.formula, key=key)
    frame.warn([words.sentence(verdict.problem)])
    with st.expander(f"Numbers and {words.count(shape.numbers.size, 'atom')}", key=f"of-{key}"):
        numbers = structure_numbers(shape, verdict)
        table = pd.DataFrame({"quantity": list(numbers), "value": list(numbers.values())})
        alt = "Numbers of this structure"
        downloads.table_with_csv(table, "structure.csv", alt=alt, rows=20)
        atoms = atom_table(shape)
        alt = "Atoms of this structure"
        downloads.table_with_csv(atoms, "atoms.csv", alt=alt, columns=_POSITIONS, rows=7)
    return True


def draw_structure(path: Path, row: int, *, formula: str, key: str) -> None:
    """Draw the structure of a row, or nothing if its file cannot be read."""
    shape = _shape(path, row)
    if shape is not None:
        _draw(shape, formula=formula, key=key)


@st.fragment
def _draw(shape: Shape, *, formula: str, key: str) -> None:
    draw_shape(
        shape, label=f"Structure {formula} in three dimensions", file=formula, key=f"viewer-{key}"
    )
    st.caption(CAPTION, help=BONDS_HELP)


def _shape(path: Path, row: int) -> Shape | None:
    try:
        return load_shape(path, row)
    except ArtifactError:
        return None


def structure_numbers(shape: Shape, verdict: Verdict) -> dict[str, str]:
    """Return the numbers of a structure as texts with units."""
    rows = {"formula": verdict.formula, "atoms": f"{shape.numbers.size:,}"}
    if verdict.gap_eV is not None:
        rows[Quantity.GAP.label] = f"{verdict.gap_eV:.2f} eV"
    if shape.pbc.all():
        rows["density"] = f"{shape.density_g_cm3:.3f} g/cm³"
    if shape.n_molecules > 1:
        rows["molecules"] = f"{shape.n_molecules:,}"
    elif not shape.n_molecules:
        rows["molecules"] = "none: a network of bonds"
    rows["shortest distance"] = _distance(shape, shape.shortest_angstrom, shape.shortest_pair)
    if shape.n_molecules and (shape.n_molecules > 1 or shape.pbc.any()):
        rows["shortest contact"] = _distance(
            shape, shape.contact_angstrom, shape.contact_pair, none="above 3.5 Å"
        )
    if shape.pbc.any():
        lengths, angles = cell_lengths_angles(shape.cell)
        rows["cell a, b, c"] = ", ".join(f"{x:.2f}" for x in lengths) + " Å"
        if shape.pbc.all():
            rows["cell alpha, beta, gamma"] = ", ".join(f"{x:.1f}" for x in angles) + " °"
            rows["cell volume"] = f"{abs(float(np.linalg.det(shape.cell))):,.0f} Å³"
    rows["kind"] = {0: "molecule", 3: "crystal"}.get(
        int(shape.pbc.sum()), f"periodic in {int(shape.pbc.sum())}D"
    )
    return rows


def atom_table(shape: Shape) -> pd.DataFrame:
    """Return element and position of every atom; molecules are not split by the cell."""
    x, y, z = shape.positions.round(3).T
    elements = [symbol_of(int(number)) for number in shape.numbers]
    order = np.arange(1, len(elements) + 1)
    return pd.DataFrame({"atom": order, "element": elements, "x (Å)": x, "y (Å)": y, "z (Å)": z})


def _distance(
    shape: Shape, distance: float, pair: tuple[int, int], *, none: str = "one atom"
) -> str:
    if math.isnan(distance):
        return none
    first, second = (f"{symbol_of(int(shape.numbers[k]))}{k + 1}" for k in pair)
    return f"{distance:.2f} Å ({first} to {second})"
