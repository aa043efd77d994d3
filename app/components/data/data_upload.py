"""Adding data: upload, the demos, and the server's folder for files too large to upload."""

import uuid
from collections.abc import Collection
from functools import partial

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import session
from app.components.shared import frame, stores, uploads
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.server_files import entries
from bandgap.jobs.uploaded_gaps import uploaded_payload

SINGLE_FILES = 500  # more files than these should be one zip
HINT = (
    "CIF, POSCAR, extXYZ and others, or a zip of them; a folder can be dropped on the field. "
    "Choose a CSV table of the known gaps with them, if you have some."
)
MORE = (
    f"{uploads.ACCEPTED}. The table needs a column id or file, and one such as gap_eV. Pack more "
    f"than {SINGLE_FILES:,} files into a zip first. {uploads.LIMITS}"
)
TABLE_LATER = (
    "Or upload the structures without the table, and add it afterwards under Known gaps, where its "
    "columns and its unit can be named."
)
SECOND = "Or crystals of the Materials Project: 209 with carbon and hydrogen and their PBE gaps."


def first_visit() -> None:
    """Offer the upload and the demo in a workspace without data."""
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        st.subheader("Upload your own structures", anchor=False)
        upload_form(primary=True)
    with right_column:
        st.subheader("Start with the demo data", anchor=False)
        st.write(
            "Molecular crystals with their gaps, and a source model that was trained on other "
            "molecules: the whole way in a few minutes."
        )
        demo_buttons()


def demo_buttons(present: Collection[str] = ()) -> None:
    """Draw the buttons that add the demos that are not present; two presses add one once."""
    if "demo" not in present and st.button("Use the demo data"):
        carry_out(uploads.add_demo)
    if "demo-inorganic" not in present:
        st.write(SECOND)
        if st.button("Use Materials Project crystals"):
            carry_out(partial(uploads.add_demo, "demo-inorganic"))


def upload_form(*, primary: bool = False) -> None:
    """Draw the form for uploads and, if the server has a folder, the form for its entries.

    `primary` is whether its button is the primary one of the page.
    """
    # no form: a change of the files removes the message on the earlier ones
    files = uploads.choose_files(
        "Structure files",
        MORE,
        form="upload",
        link=help_link("reference/file-formats", "Structure files"),
        several=True,
    )
    st.caption(HINT)
    if st.button("Check the files", type="primary" if primary else "secondary"):
        _store(files)
    if names := entries():
        _folder_form(names)


def _store(files: list[UploadedFile]) -> None:
    """Store the files as a data set and submit its check, or say why not."""
    try:
        structures, table = uploads.with_gap_table(files)
        gaps = None
        if table is not None:
            try:
                gaps = uploaded_payload(table.getvalue(), name=table.name)
            except InputError as error:
                raise InputError(f"{error} {TABLE_LATER}") from None
    except BandgapError as error:
        frame.problem(error)
        return
    dataset = uploads.stored_files(
        structures,
        uploads.ACCEPTED,
        form="upload",
        purpose="training",
        then=partial(uploads.submit_check, gaps=gaps),
    )
    if dataset is not None:
        uploads.release(table)
        session.choose("data", dataset.id)
        st.rerun()


def _folder_form(names: list[str]) -> None:
    with st.form(f"folder-{session.form_key('folder')}", border=False):
        entry = st.selectbox("A file or folder that is on the server already", names)
        if not st.form_submit_button("Check what is there"):
            return
        try:
            dataset = stores.library().add_dataset(
                session.workspace(),
                entry,
                origin="folder",
                dataset_id=str(uuid.UUID(session.form_key("folder"))),
                then=lambda new: stores.start(
                    "import_folder",
                    f"Reading {entry}",
                    subject=new.id,
                    dataset=new.id,
                    entry=entry,
                ),
            )
        except BandgapError as error:
            frame.problem(error)
            return
    session.choose("data", dataset.id)
    session.renew("folder")
    st.rerun()
