"""The verdicts of a data set: a table in pages with filter, search and CSV, and one structure."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, stores, tables, words
from app.components.shared.job_panel import unfinished
from app.components.shared.range_filters import choose_ranges
from app.components.shared.structure_view import structure_view
from app.components.structures.pictures import picture_addresses
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import first_usable, row_verdict, verdict_page
from bandgap.jobs.rows import Dataset, Verdict
from bandgap.jobs.structure_filter import Status, StructureFilter

FILTERS: dict[str, Status | None] = {
    "all": None,
    "ready": "ready",
    "usable": "warning",
    "refused": "refused",
}
ROWS = 200  # of the table on one page
PAGER_WIDTH = 320  # pixels; without it the numbers of the pages are left out
REASON_WIDTH = 290  # pixels; in the rows with pictures, three lines of a reason
COLUMNS = {
    "status": tables.column(
        "verdict", help="ready, usable (with a warning in the next column) or refused."
    ),
    "problem": tables.column("reason and remedy", REASON_WIDTH),
    "periodic": tables.column("kind"),
}


def verdict_view(dataset: Dataset, elements: tuple[str, ...] = ()) -> None:
    """Draw the table of verdicts and the structure of the selected row.

    The table has only structures that contain `elements`.
    """
    left_column, right_column = st.columns([3, 2], vertical_alignment="bottom")
    filter_name = left_column.segmented_control(
        "Show", list(FILTERS), default="all", required=True, key="verdict-filter"
    )
    search = right_column.text_input(
        "Find", placeholder="part of an id, file or formula", key="verdict-search"
    )
    conditions = choose_ranges(
        StructureFilter(FILTERS[filter_name or "all"], search, elements),
        key=dataset.id,
        has_gaps=stores.library().counts(dataset.id)["labelled"] > 0,
    )
    # a new filter starts on the first page
    page_key = f"page-{dataset.id}{'' if conditions == StructureFilter() else f'-{conditions}'}"
    page = int(st.session_state.get(page_key, 1))
    read_page = partial(verdict_page, stores.library(), dataset.id, conditions, limit=ROWS)
    numbered_verdicts, total = read_page(offset=(page - 1) * ROWS)
    if not numbered_verdicts and page > 1:
        page = 1
        numbered_verdicts, total = read_page()
    if not numbered_verdicts:
        st.info("No structure fits. Choose another verdict, or clear the search and the filters.")
        return
    rows = [row for row, _ in numbered_verdicts]
    table = tables.verdict_frame([verdict for _, verdict in numbered_verdicts])
    table = _shown_columns(table)
    table = tables.with_pictures(table, _pictures(dataset, numbered_verdicts))
    position = tables.pick(
        table,
        alt="Verdicts on the structures",
        columns=tables.columns(table.columns.to_list()) | COLUMNS,
        key=f"verdicts-{dataset.id}-{filter_name}-{search}-{page}" + _suffix(conditions),
        rows=6,
    )
    session.show_marked_row(dataset.id, None if position is None else rows[position])
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.csv_button(
            "Download the verdicts (CSV)",
            lambda: tables.verdict_frame(stores.library().verdicts(dataset.id)),
            "verdicts.csv",
            help="All structures of the data set, not only those shown.",
        )
        if total > ROWS:
            pages = -(-total // ROWS)
            st.pagination(pages, key=page_key, width=PAGER_WIDTH)
            st.caption(f"{words.count(total, 'structure')} on {pages:,} pages")
    is_filtered = conditions != StructureFilter()
    _structure(dataset, numbered_verdicts, is_filtered=is_filtered)


def _shown_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without columns that say nothing, and with the file as the last.

    These are gaps and reasons where there are none, a kind or a file that is the same for all
    structures, and files that are named as the structures, unless some are refused. The others are
    then whole in a narrow window.
    """
    table = table[[*table.columns.drop("file"), "file"]]
    names = table["file"].str.replace(r"^.*/|\.[A-Za-z]+$", "", regex=True)  # also of a zip
    repeats_ids = names.equals(table["id"]) and not (table["status"] == "refused").any()
    is_empty = {
        "gap_eV": table["gap_eV"].isna().all(),
        "problem": not table["problem"].any(),
        "periodic": len(table) > 1 and table["periodic"].nunique() == 1,
        "file": len(table) > 1 and (table["file"].nunique() == 1 or repeats_ids),
    }
    return table.drop(columns=[name for name, drop in is_empty.items() if drop])


def _pictures(dataset: Dataset, rows: Sequence[tuple[int, Verdict]]) -> list[str | None]:
    usable = [None if verdict.status == "refused" else row for row, verdict in rows]
    return picture_addresses(dataset.id, usable)


def _suffix(conditions: StructureFilter) -> str:
    """Return the part of the table's key that says by what it is filtered besides the text."""
    filters = [conditions.elements, conditions.gap_eV, conditions.n_atoms]
    return (
        "" if conditions == StructureFilter(conditions.status, conditions.search) else f"-{filters}"
    )


def _structure(
    dataset: Dataset, numbered_verdicts: Sequence[tuple[int, Verdict]], *, is_filtered: bool
) -> None:
    """Draw the selected structure, or another one where the table's filter excludes it."""
    rows = [row for row, _ in numbered_verdicts]
    row = session.shown_row(dataset.id)
    if is_filtered and row not in rows:
        usable = [row for row, verdict in numbered_verdicts if verdict.status != "refused"]
        row = usable[0] if usable else rows[0]
    row = first_usable(stores.library(), dataset.id) if row is None else row
    verdict = None if row is None else row_verdict(stores.library(), dataset.id, row)
    if row is None or verdict is None:
        return
    st.subheader("Structure", anchor=False)
    position = rows.index(row) if row in rows else -1
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, icon, target in (
            ("Previous", ":material/chevron_left:", position - 1),
            ("Next", ":material/chevron_right:", position + 1),
        ):
            exists = 0 <= target < len(rows)
            args = (dataset.id, rows[target] if exists else row)
            st.button(label, icon=icon, disabled=not exists, on_click=session.show_row, args=args)
        st.caption("Choose a row of the table, or go through it.")
    if not structure_view(shapes_path(stores.home(), dataset.id), row, verdict, key="structure"):
        _read_again(dataset)


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
