"""The verdicts of a data set: filters, a table in pages, one structure, histogram of gaps."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.drawing import figure
from app.components.shared.job_panel import unfinished
from app.components.shared.structure_view import structure_view
from app.components.structures.pictures import picture_addresses
from bandgap import plots
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import known_gaps, verdict_page
from bandgap.jobs.rows import Dataset
from bandgap.jobs.structure_filter import Status, StructureFilter
from bandgap.predictions.gap_distribution import ZERO_EV

FILTERS: dict[str, Status | None] = {
    "all": None,
    "ready": "ready",
    "usable": "warning",
    "refused": "refused",
}
ROWS = 200  # of the table on one page
PAGER_WIDTH = 320  # pixels; without it the numbers of the pages are left out
COLUMNS = {
    "id": tables.column("structure", 76),
    "status": tables.column("verdict", 58, help="ready, usable (with a warning) or refused."),
    "gap_eV": tables.column("gap (eV)", 62, "%.2f"),
    "problem": tables.column("reason and remedy", 188),
    "formula": tables.column("formula", 95),
}


def verdict_view(dataset: Dataset, conditions: StructureFilter) -> None:
    """Draw the table of verdicts beside the selected structure, and the histogram of gaps."""
    # a new filter starts on the first page
    suffix = "" if conditions == StructureFilter() else f"-{conditions}"
    page_key = f"page-{dataset.id}{suffix}"
    page = int(st.session_state.get(page_key, 1))
    read_page = partial(verdict_page, stores.library(), dataset.id, conditions, limit=ROWS)
    numbered_verdicts, total = read_page(offset=(page - 1) * ROWS)
    if not numbered_verdicts and page > 1:
        page = 1
        numbered_verdicts, total = read_page()
    if not numbered_verdicts:
        st.info("No structure fits. Choose another verdict, or clear the search and the filters.")
        return
    left_column, right_column = st.columns([5, 3])
    with left_column:
        table = tables.verdict_frame([verdict for _, verdict in numbered_verdicts])
        usable = [None if v.status == "refused" else row for row, v in numbered_verdicts]
        position = tables.pick(
            tables.with_pictures(table, picture_addresses(dataset.id, usable)),
            alt="Verdicts on the structures",
            columns=column_settings(table),
            key=f"verdicts-{dataset.id}-{page}{suffix}",
            rows=6,
        )
        with frame.row():
            downloads.csv_button(
                "Download the verdicts (CSV)",
                lambda: tables.verdict_frame(stores.library().verdicts(dataset.id)),
                "verdicts.csv",
                help="All structures of the data set, not only those shown.",
            )
            if total > ROWS:
                st.pagination(-(-total // ROWS), key=page_key, width=PAGER_WIDTH)
        _histogram(dataset, conditions.elements)
    if position is None:  # no row is marked: the first with a structure, refused ones are first
        position = next((k for k, row in enumerate(usable) if row is not None), 0)
    row, verdict = numbered_verdicts[position]
    path = shapes_path(stores.home(), dataset.id)
    with right_column:
        if not structure_view(path, row, verdict, key="structure"):
            _read_again(dataset)


def choose_conditions(
    dataset: Dataset, counts: dict[str, int], elements: tuple[str, ...]
) -> StructureFilter:
    """Draw the filters and return what they, and the periodic table, select."""
    offered = ["all", *(name for name, s in FILTERS.items() if s is not None and counts[s])]
    name = st.segmented_control(
        "Show",
        offered,
        default="all",
        required=True,
        key=f"verdict-filter-{dataset.id}",
        label_visibility="collapsed",
    )
    search = st.text_input(
        "Find",
        placeholder="find an id, file or formula",
        key="verdict-search",
        width=200,
        label_visibility="collapsed",
    )
    with st.popover("Gap and size", icon=":material/filter_alt:"):
        gap_eV = _range("Gap", "(eV)", 0.1, key=f"gap-{{}}-{dataset.id}")
        n_atoms = _range("Atoms", "", 1, key=f"atoms-{{}}-{dataset.id}")
    return StructureFilter(FILTERS[name or "all"], search, elements, gap_eV, n_atoms)


def _range(name: str, unit: str, step: float, *, key: str) -> tuple[Any, Any]:
    """Draw the fields of both ends of a range; an empty field is no bound."""
    low, high = (
        column.number_input(
            f"{label} {unit}".strip(), 0 * step, None, None, step, key=key.format(end)
        )
        for column, label, end in zip(
            st.columns(2), (f"{name} from", f"{name} to"), ("from", "to"), strict=True
        )
    )
    return low, high


def _histogram(dataset: Dataset, elements: tuple[str, ...]) -> None:
    """Draw the histogram of the known gaps above zero, unless all are equal."""
    gaps = known_gaps(stores.library(), dataset.id, elements)
    above_zero = gaps[gaps > ZERO_EV]
    if not above_zero.size or above_zero.min() == above_zero.max():
        return
    n_metals = gaps.size - above_zero.size
    left_out = f"; {words.count(n_metals, 'metal')} left out" if n_metals else ""
    figure(
        plots.gap_histogram,
        above_zero,
        key="gaps",
        alt="Known gaps in eV",
        caption=f"Known gaps{left_out}.",
    )


def column_settings(table: pd.DataFrame) -> dict[str, Any]:
    """Return the settings of the columns, None for those of the table's menu and of the CSV.

    The table shows gaps where there are any, and formulas where no verdict has a reason.
    """
    first_columns = {"id", "status", "problem" if table["problem"].any() else "formula"}
    if table["gap_eV"].notna().any():
        first_columns.add("gap_eV")
    return {name: COLUMNS[name] if name in first_columns else None for name in table.columns}


def _read_again(dataset: Dataset) -> None:
    """Offer to rebuild the file of the structure viewer, which is missing or damaged."""
    subject = f"shapes-{dataset.id}"
    if not unfinished(stores.latest(subject, "shapes")):
        st.warning(
            "What the viewer draws is not stored for this data set, or cannot be read. Verdicts "
            "and gaps are safe.",
            icon=":material/visibility_off:",
        )
        if st.button("Read the structures again"):
            stores.start(
                "shapes",
                f"Reading the structures of {dataset.name}",
                subject=subject,
                again=True,
                dataset=dataset.id,
            )
            st.rerun()
