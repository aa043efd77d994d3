"""Filters of a table of structures by ranges of the gap and of the number of atoms."""

from dataclasses import replace

import streamlit as st

from bandgap.jobs.structure_filter import StructureFilter


def choose_ranges(
    conditions: StructureFilter, *, key: str, has_gaps: bool, has_sizes: bool = True
) -> StructureFilter:
    """Draw the fields of the ranges in a popover and return the filter with them.

    An empty field is no bound. The label of the popover says which ranges are set. Fields of gaps
    and sizes are drawn where the structures have them.
    """
    names = ["gap-from", "gap-to", "atoms-from", "atoms-to"]
    present = [st.session_state.get(f"{name}-{key}") for name in names]
    label = range_label((present[0], present[1]), (present[2], present[3]), has_gaps=has_gaps)
    with st.popover(label, icon=":material/filter_alt:"):
        gap_eV: tuple[float | None, float | None] = (None, None)
        if has_gaps:
            left_column, right_column = st.columns(2)
            gap_eV = (
                left_column.number_input(
                    "Gap from (eV)", 0.0, None, None, 0.1, key=f"gap-from-{key}"
                ),
                right_column.number_input("to (eV)", 0.0, None, None, 0.1, key=f"gap-to-{key}"),
            )
        n_atoms: tuple[int | None, int | None] = (None, None)
        if has_sizes:
            left_column, right_column = st.columns(2)
            n_atoms = (
                left_column.number_input("Atoms from", 0, None, None, 1, key=f"atoms-from-{key}"),
                right_column.number_input("Atoms to", 0, None, None, 1, key=f"atoms-to-{key}"),
            )
    return replace(conditions, gap_eV=gap_eV, n_atoms=n_atoms)


def range_label(
    gap_eV: tuple[float | None, float | None],
    n_atoms: tuple[int | None, int | None],
    *,
    has_gaps: bool = True,
) -> str:
    """Return which ranges are set; without gaps there is only that of the size.

    >>> range_label((1.0, None), (None, 40))
    'Gap from 1 eV, up to 40 atoms'
    """
    parts = []
    for (lower, upper), unit in ((gap_eV, "eV"), (n_atoms, "atoms")):
        name = "gap " if unit == "eV" else ""
        if lower is not None and upper is not None:
            parts.append(f"{name}{lower:g} to {upper:g} {unit}")
        elif lower is not None:
            parts.append(f"{name}from {lower:g} {unit}")
        elif upper is not None:
            parts.append(f"{name}up to {upper:g} {unit}")
    text = ", ".join(parts) or ("gap and size: all" if has_gaps else "size: all")
    return text[0].upper() + text[1:]
