"""The map of a data set on the page Data: its structures as points, and those selected on it."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import stores, tables, words
from app.components.shared.map_view import MapPoints, map_view, selected_members
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.home import shapes_path
from bandgap.jobs.rows import Dataset
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.jobs.structure_maps import DATASET_DESCRIPTOR, map_path, map_rows
from bandgap.structures.shapes import load_densities

MANIFEST = {"descriptor": DATASET_DESCRIPTOR}
SHOWN = 200  # rows of the table of selected structures
COLUMNS = tables.columns(["id", "formula"]) | {
    "gap_eV": tables.column("known (eV)", 80, "%.2f"),
    "density": tables.column("density (g/cm³)", 110, "%.2f"),
}


def dataset_map(dataset: Dataset, elements: tuple[str, ...]) -> None:
    """Draw the map of the structures that contain `elements`, and what is selected on it.

    Once the map is stored, a click on it draws nothing else of the page again.
    """
    if map_path(stores.home(), dataset.id, DATASET_DESCRIPTOR).is_file():
        _alone(dataset, elements)
    else:  # the panel of the job is a fragment itself
        _map_and_selection(dataset, elements)


@st.fragment
def _alone(dataset: Dataset, elements: tuple[str, ...]) -> None:
    _map_and_selection(dataset, elements)


def _map_and_selection(dataset: Dataset, elements: tuple[str, ...]) -> None:
    points = dataset_points(dataset.id, elements)
    if not points.sets:
        st.info("No structure fits. Choose other elements in the periodic table.")
        return
    selection = map_view(
        points, run=None, dataset=dataset.id, manifest=MANIFEST, key=f"data-{dataset.id}"
    )
    members = selected_members(
        points,
        selection,
        dataset=dataset.id,
        manifest=MANIFEST,
        columns=COLUMNS,
        table_of=selected_frame,
        lines_of=partial(_lines, points),
    )
    if members is None:
        return
    text = f"{words.count(members.size, 'structure')} selected."
    if members.size > SHOWN:
        text += f" The {SHOWN} with the smallest gaps are listed."
    st.caption(text)


def dataset_points(dataset_id: str, elements: tuple[str, ...] = ()) -> MapPoints:
    """Return the structures of a data set that contain `elements`, with gaps and densities."""
    structures = map_rows(stores.library(), dataset_id, StructureFilter(elements=elements))
    n = structures.rows.size
    has_gap = np.isfinite(structures.gaps_eV)
    sets = tuple(np.where(has_gap, "with a gap", "without a gap").tolist())
    try:
        densities = load_densities(shapes_path(stores.home(), dataset_id))[structures.rows]
    except (ArtifactError, IndexError):
        densities = np.full(n, np.nan)
    return MapPoints(structures, np.full(n, np.nan), sets, densities)


def selected_frame(points: MapPoints, members: np.ndarray) -> pd.DataFrame:
    """Return selected points as a table, the smallest gap first; the index has their rows."""
    structures = points.structures
    order = members[np.argsort(structures.gaps_eV[members], kind="stable")][:SHOWN]
    columns: dict[str, Any] = {
        "id": [structures.ids[k] for k in order],
        "gap_eV": structures.gaps_eV[order],
        "formula": [structures.formulas[k] for k in order],
    }
    if points.densities is not None:
        columns["density"] = points.densities[order]
    return pd.DataFrame(columns, index=structures.rows[order]).dropna(axis="columns", how="all")


def _lines(points: MapPoints, k: int) -> list[str]:
    gap = points.structures.gaps_eV[k]
    return [f"Known gap: {gap:.2f} eV" if np.isfinite(gap) else "No known gap"]
