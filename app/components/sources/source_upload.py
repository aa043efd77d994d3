"""The form that adds a source model, trained in a shell, as a zip of its folder."""

import streamlit as st

from app import session
from app.components.shared import frame, stores, uploads, words
from app.components.shared.guide_links import help_link
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.added_sources import add_archive
from bandgap.jobs.rows import MAX_FILE_BYTES, check_upload
from bandgap.jobs.sources import MAX_NAME

LARGER = f"At most {words.size(MAX_FILE_BYTES)}. A larger one is added on this server's machine."


def source_upload() -> None:
    """Draw the form; one press makes one job, and the same archive twice gives one model."""
    with st.form(f"source-upload-{session.form_key('source-upload')}", border=False):
        file = st.file_uploader(
            "Zip of the folder of a source model that was trained in a shell",
            type=["zip"],
            help=_HELP,
        )
        name = st.text_input(
            "Name", max_chars=MAX_NAME, placeholder="named after the file", key="source-upload-name"
        )
        if not st.form_submit_button("Add the source model"):
            st.caption(LARGER + help_link("tutorials/source-of-your-own", "In the dashboard"))
            return
        if file is None:
            st.error("No file was chosen. Choose the zip of a source model's folder.")
            return
        source_name = " ".join(name.split()) or file.name.removesuffix(".zip")[:MAX_NAME]
        data = file.getvalue()
        try:
            check_upload([(file.name, data)])
            job = add_archive(
                stores.jobs(), stores.library(), session.workspace(), data, name=source_name
            )
        except BandgapError as error:
            frame.problem(error)
            return
    session.choose("source", job.subject)
    uploads.release(file)
    session.renew("source-upload")
    st.rerun()


_HELP = (
    "The worker opens every network in it and repeats the predictions that it was stored with; "
    "nothing is executed."
)
