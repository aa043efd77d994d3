"""The verdicts of a data set, page by page, with filter, search and CSV, and the structure of the chosen row."""

from functools import partial

import streamlit as st

from app import session
from app.components.shared import downloads, stores, tables, words
from app.components.shared.job_panel import job_panel
from app.components.shared.structure_view import structure_view
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import Status, first_usable, row_verdict, verdict_page
from bandgap.jobs.rows import Dataset

FILTERS: dict[str, Status | None] = {
    "all": None,
    "ready": "ready",
    "usable": "warning",
    "refused": "refused",
}
ROWS = 200  # of the table on one page
COLUMNS = {
    "status": st.column_config.Column(
        "verdict", help="ready, usable (with the warning beside it) or refused."
    ),
    "problem": st.column_config.Column("reason and remedy", width="large"),
    "periodic": st.column_config.Column("kind"),
}


def verdict_view(dataset: Dataset) -> None:
    """Draw the table of verdicts and the structure of the row that was chosen in it."""
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    shown = left.segmented_control(
        "Show", list(FILTERS), default="all", required=True, key="verdict-filter"
    )
    search = right.text_input(
        "Find", placeholder="part of an id, file or formula", key="verdict-search"
    )
    status, page = FILTERS[shown or "all"], int(st.session_state.get(f"page-{dataset.id}", 1))
    one_page = partial(
        verdict_page, stores.library(), dataset.id, status=status, search=search, limit=ROWS
    )
    found, total = one_page(offset=(page - 1) * ROWS)
    if not found and page > 1:
        page = 1
        found, total = one_page()
    if not found:
        st.info("No structure fits. Choose another verdict, or clear the search.")
        return
    rows = [row for row, _ in found]
    table = tables.verdict_frame([verdict for _, verdict in found])
    table = table if table["gap_eV"].notna().any() else table.drop(columns="gap_eV")
    place = tables.pick(
        table,
        alt="Verdicts on the structures",
        columns=tables.columns(table.columns.to_list()) | COLUMNS,
        key=f"verdicts-{dataset.id}-{shown}-{search}-{page}",
        rows=6,
    )
    session.follow(dataset.id, None if place is None else rows[place])
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.csv_button(
            "Download the verdicts (CSV)",
            lambda: tables.verdict_frame(stores.library().verdicts(dataset.id)),
            "verdicts.csv",
            help="All structures of the data set, whatever is shown.",
        )
        if total > ROWS:
            pages = -(-total // ROWS)
            st.pagination(pages, key=f"page-{dataset.id}")
            st.caption(f"{words.count(total, 'structure')} on {pages:,} pages")
    _structure(dataset, rows)


def _structure(dataset: Dataset, rows: list[int]) -> None:
    row = session.shown_row(dataset.id)
    row = first_usable(stores.library(), dataset.id) if row is None else row
    verdict = None if row is None else row_verdict(stores.library(), dataset.id, row)
    if row is None or verdict is None:
        return
    st.subheader("Structure", anchor=False)
    at = rows.index(row) if row in rows else -1
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, icon, target in (
            ("Previous", ":material/chevron_left:", at - 1),
            ("Next", ":material/chevron_right:", at + 1),
        ):
            there = 0 <= target < len(rows)
            args = (dataset.id, rows[target] if there else row)
            st.button(label, icon=icon, disabled=not there, on_click=session.show_row, args=args)
        st.caption("Choose a row of the table, or go through it.")
    if not structure_view(
        shapes_path(stores.home(), dataset.id), row, verdict, key=f"structure-{dataset.id}-{row}"
    ):
        _read_again(dataset)


def _read_again(dataset: Dataset) -> None:
    """Offer to make the viewer's file again where it is missing or damaged."""
    subject = f"shapes-{dataset.id}"
    job = stores.jobs().latest(session.workspace(), subject)
    if job is not None and (job.active or job.state != "finished"):
        job_panel(job, noun="reading")
    if job is None or not job.active:
        st.warning(
            "What the viewer draws is not stored for this data set, or cannot be read. Verdicts "
            "and gaps are safe.",
            icon=":material/visibility_off:",
        )
        if st.button("Read the structures again"):
            stores.ask(
                "shapes",
                f"Reading the structures of {dataset.name}",
                subject=subject,
                dataset=dataset.id,
            )
            st.rerun()
