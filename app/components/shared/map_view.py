"""The map of structures on Data, Result and Predict: a click or a lasso selects points."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.drawing import drawn
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import unfinished
from app.components.shared.structure_view import draw_structure
from app.components.structures.pictures import picture_addresses
from bandgap import plots
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.home import shapes_path
from bandgap.jobs.rows import RunRow
from bandgap.jobs.structure_maps import KIND, MapRows, map_path, map_rows, read_map

Axes = Literal["likeness", "predicted and known", "gap and density"]
Colour = Literal["gap", "error", "set"]
Floats = NDArray[np.float64]

N_LISTED = 3  # neighbours
ALIKE_CAPTION = (
    "Structures that are close are alike to the model; the axes are the first two principal "
    "components of the descriptors, {shares}. Click a point to see its structure; with the lasso "
    "or the box of the bar above the map, draw round some of them to list only those."
)
KNOWN_CAPTION = (
    "Points on the line are right. Click a point to see its structure; with the lasso or the box "
    "of the bar above the map, draw round some of them to list only those."
)
DENSITY_CAPTION = (
    "Known gap against density. Click a point to see its structure; with the lasso or the box of "
    "the bar above the map, draw round some of them to list only those."
)
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["toImage", "autoScale2d", "zoomIn2d", "zoomOut2d"],
}


@dataclass(frozen=True, eq=False)
class MapPoints:
    """The structures of a data set with what is known of them by one run.

    All arrays have the length n of `structures`.

    Attributes
    ----------
    structures
        Rows, ids, formulas and known gaps.
    predicted_eV
        Predicted gaps, NaN where there is none.
    sets
        The set of each structure, such as "held out".
    densities
        Densities in g/cm3, NaN for molecules; None where they are not asked for.
    """

    structures: MapRows
    predicted_eV: Floats
    sets: tuple[str, ...]
    densities: Floats | None = None

    @property
    def errors_eV(self) -> Floats:
        """Predicted minus known gap, NaN where one is missing."""
        return self.predicted_eV - self.structures.gaps_eV


@dataclass(frozen=True, eq=False)
class MapSelection:
    """The selected points: rows in the data set, None where nothing is selected."""

    rows: NDArray[np.int64] | None = None

    @property
    def single(self) -> int | None:
        """The row of the only selected structure."""
        is_single = self.rows is not None and self.rows.size == 1
        return int(self.rows[0]) if self.rows is not None and is_single else None


def points_of(
    dataset: str, predicted_eV: Mapping[int, float], sets: Mapping[int, str]
) -> MapPoints:
    """Return the points of a data set from predicted gaps and sets by row.

    Structures in no set are left out.
    """
    stored = map_rows(stores.library(), dataset)
    members = [k for k, row in enumerate(stored.rows.tolist()) if row in sets]
    structures = MapRows(
        stored.rows[members],
        tuple(stored.ids[k] for k in members),
        tuple(stored.formulas[k] for k in members),
        stored.gaps_eV[members],
    )
    rows = structures.rows.tolist()
    predicted = np.array([predicted_eV.get(row, np.nan) for row in rows], dtype=np.float64)
    return MapPoints(structures, predicted, tuple(sets[row] for row in rows))


def map_view(
    points: MapPoints, *, run: RunRow | None, dataset: str, manifest: Mapping[str, Any], key: str
) -> MapSelection:
    """Draw the map with the choice of axes and colours; return what is selected on it.

    The coordinates are by the descriptor of the run, whose manifest is given, or without a run by
    `DATASET_DESCRIPTOR`; a button computes them where they are not stored.
    """
    n_compared = int(np.isfinite(points.errors_eV).sum())
    axes: Axes = "likeness"
    colours: list[Colour] = ["gap", "error", "set"] if n_compared else ["gap", "set"]
    if run is None and len(set(points.sets)) == 1:
        colours = ["gap"] if np.isfinite(points.structures.gaps_eV).any() else ["set"]
    offered: list[Axes] = ["likeness"]
    if n_compared:
        offered.append("predicted and known")
    if points.densities is not None and np.isfinite(points.densities).any():
        offered.append("gap and density")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(offered) > 1:
            axes = (
                st.segmented_control("Axes", offered, default=offered[0], key=f"axes-{key}")
                or offered[0]
            )
        colour = (
            st.segmented_control("Colour", colours, default=colours[-1], key=f"colour-{key}")
            or colours[-1]
        )
    place = map_path(stores.home(), dataset, manifest["descriptor"])
    if axes == "predicted and known":
        xy = np.stack([points.structures.gaps_eV, points.predicted_eV], axis=1)
        return _draw(points, xy, colour, key=key, titles=_KNOWN_TITLES, caption=KNOWN_CAPTION)
    if axes == "gap and density" and points.densities is not None:
        xy = np.stack([points.densities, points.structures.gaps_eV], axis=1)
        return _draw(points, xy, colour, key=key, titles=_DENSITY_TITLES, caption=DENSITY_CAPTION)
    try:
        stored = read_map(place)
    except ArtifactError as error:
        frame.problem(error)
        stored = None
    rows = points.structures.rows
    if stored is None or (rows.size and int(rows.max()) >= len(stored[0])):
        _computation(run, dataset, name=place.stem)
        return MapSelection()
    coordinates, _, shares = stored
    percent = f"with {100 * shares[0]:.0f}\u00a0% and {100 * shares[1]:.0f}\u00a0% of the variance"
    return _draw(
        points,
        coordinates[rows],
        colour,
        key=key,
        titles=("first component", "second component"),
        caption=ALIKE_CAPTION.format(shares=percent),
    )


def selected_members(
    points: MapPoints,
    selection: MapSelection,
    *,
    dataset: str,
    manifest: Mapping[str, Any],
    columns: Mapping[str, Any],
    table_of: Callable[[MapPoints, NDArray[np.int64]], pd.DataFrame],
    lines_of: Callable[[int], Sequence[str]],
) -> NDArray[np.int64] | None:
    """Draw what is selected: one structure with its numbers, or a table of several.

    Returns the positions of the points in the table, None without one. `table_of` returns it, with
    the rows of the data set as index; `lines_of` returns the numbers of a point.
    """
    if selection.rows is None:
        return None
    members = np.flatnonzero(np.isin(points.structures.rows, selection.rows))
    if selection.single is not None and members.size:
        _single(points, int(members[0]), dataset=dataset, manifest=manifest, lines_of=lines_of)
        return None
    table = table_of(points, members)
    tables.show(
        tables.with_pictures(table, picture_addresses(dataset, table.index.tolist())),
        alt="Structures that are selected on the map",
        columns=columns,
        rows=6,
    )
    downloads.csv_button("Download the selected structures (CSV)", lambda: table, "selected.csv")
    return members


def _single(
    points: MapPoints,
    k: int,
    *,
    dataset: str,
    manifest: Mapping[str, Any],
    lines_of: Callable[[int], Sequence[str]],
) -> None:
    """Draw the numbers, the neighbours and the structure of one point."""
    structures = points.structures
    row = int(structures.rows[k])
    formula = structures.formulas[k]
    with st.container(border=True):
        st.markdown(f"**{words.escaped(structures.ids[k])}, {words.escaped(formula)}**")
        near = neighbours_text(points, row, dataset=dataset, manifest=manifest)
        st.markdown("  \n".join(filter(None, [*lines_of(k), near])))
        draw_structure(shapes_path(stores.home(), dataset), row, formula=formula, key="mapped")


def neighbours_text(
    points: MapPoints, row: int, *, dataset: str, manifest: Mapping[str, Any]
) -> str:
    """Return the structures that are most alike to a row of the data set, with their gaps.

    Empty where the map is not stored, or is damaged.
    """
    try:
        stored = read_map(map_path(stores.home(), dataset, manifest["descriptor"]))
    except ArtifactError:
        return ""
    if stored is None or row >= len(stored[1]):
        return ""
    position = {r: k for k, r in enumerate(points.structures.rows.tolist())}
    parts = []
    for near in stored[1][row].tolist():
        if near not in position:
            continue
        k = position[near]
        gap, predicted = points.structures.gaps_eV[k], points.predicted_eV[k]
        number = f"{gap:.2f} eV known" if np.isfinite(gap) else f"{predicted:.2f} eV predicted"
        parts.append(f"{words.escaped(points.structures.ids[k])} ({number})")
    return f"Most alike: {', '.join(parts[:N_LISTED])}." if parts else ""


def _draw(
    points: MapPoints,
    xy: Floats,
    colour: Colour,
    *,
    key: str,
    titles: tuple[str, str],
    caption: str,
) -> MapSelection:
    gaps = points.structures.gaps_eV
    numbers = {
        "gap": np.where(np.isfinite(points.predicted_eV), points.predicted_eV, gaps),
        "error": points.errors_eV,
    }
    is_drawn = np.isfinite(xy).all(axis=1)
    if colour != "set":
        is_drawn &= np.isfinite(numbers[colour])
    members = np.flatnonzero(is_drawn)
    options: dict[str, Any] = (
        {"sets": [points.sets[k] for k in members]}
        if colour == "set"
        else {"values": numbers[colour][members], "value_title": _COLOUR_TITLES[colour]}
    )
    fig = drawn(
        plots.structure_map_figure,
        xy[members, 0],
        xy[members, 1],
        rows=points.structures.rows[members],
        labels=_labels(points, members),
        titles=titles,
        is_diagonal=titles == _KNOWN_TITLES,
        **options,
    )
    event = st.plotly_chart(
        fig,
        key=f"map-{key}-{titles[0]}-{colour}",
        theme=None,
        width="stretch",
        config=_CONFIG,
        alt=f"Map of {members.size:,} structures, coloured by {colour}",
        on_select="rerun",
        selection_mode=("points", "box", "lasso"),
    )
    st.caption(caption, width=720)
    if members.size < len(points.sets):
        st.caption(
            f"{words.count(len(points.sets) - members.size, 'structure')} without such a number, "
            "or without a descriptor, not drawn."
        )
    rows = [_row_of(point) for point in event["selection"]["points"]]
    selected = np.array(sorted({row for row in rows if row is not None}), dtype=np.int64)
    return MapSelection(selected if selected.size else None)


def _labels(points: MapPoints, members: NDArray[np.int64]) -> list[str]:
    """Return the hover texts of some points: id, formula and gaps."""
    structures = points.structures
    names = zip(structures.ids, structures.formulas, strict=True)
    # lists, as single numbers of arrays are slow to read
    gaps = zip(structures.gaps_eV.tolist(), points.predicted_eV.tolist(), strict=True)
    texts = [
        f"{id_}, {formula}: "
        + ", ".join(
            f"{gap:.2f} eV {name}"
            for gap, name in ((known_eV, "known"), (predicted_eV, "predicted"))
            if math.isfinite(gap)
        )
        for (id_, formula), (known_eV, predicted_eV) in zip(names, gaps, strict=True)
    ]
    return [texts[k] for k in members.tolist()]


def _row_of(point: Mapping[str, Any]) -> int | None:
    """Return the row of a selected point, None for a point that has none."""
    value = point.get("customdata")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return None if value is None else int(value)


def _computation(run: RunRow | None, dataset: str, *, name: str) -> None:
    """Draw the button that computes the map of a data set, or the panel of its job."""
    subject = f"{name}-{dataset}"
    if unfinished(stores.latest(subject, KIND)):
        return
    if st.button(
        "Compute the map",
        icon=":material/scatter_plot:",
        key=f"compute-{subject}",
        help="Places all structures of this data set by their descriptors, once: a few "
        "milliseconds a structure." + help_link("explanation/reading-a-result", "The map"),
    ):
        stores.start(
            KIND,
            "Placing the structures on a map",
            subject=subject,
            again=True,
            dataset=dataset,
            run="" if run is None else run.id,
        )
        st.rerun()


_DENSITY_TITLES = ("density (g/cm³)", "known gap (eV)")
_KNOWN_TITLES = ("known gap (eV)", "predicted gap (eV)")
_COLOUR_TITLES = {"gap": "gap (eV)", "error": "predicted - known (eV)"}
