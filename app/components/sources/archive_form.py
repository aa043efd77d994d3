"""The forms that add a run or a source model that was made elsewhere, as a zip."""

import streamlit as st

from app import session
from app.components.shared import frame, stores, uploads, words
from app.components.shared.advice import advice
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.added_runs import RUNS
from bandgap.jobs.added_sources import SOURCES
from bandgap.jobs.additions import Additions
from bandgap.jobs.housekeeping import MAX_NAME
from bandgap.jobs.rows import MAX_FILE_BYTES, check_upload
from bandgap.jobs.store import Job

_ADDED = "added_run_job"  # key of the job that this session submitted last
LARGER = f"At most {words.size(MAX_FILE_BYTES)}. A larger one is added on this server's machine."


def source_upload() -> None:
    """Draw the form that adds a source model; the added one is selected."""
    job = _form(
        SOURCES,
        "Zip of the folder of a source model that was trained in a shell",
        file="the zip of a source model's folder",
        help=_SOURCE_HELP,
        link=help_link("tutorials/source-of-your-own", "In the dashboard"),
    )
    if job is not None:
        session.choose("source", job.subject)
        st.rerun()


def run_upload() -> None:
    """Draw the folded form that adds a run, with the active checks and the end of the last one."""
    jobs = list(stores.jobs_of(RUNS.kind).values())
    job_id = st.session_state.get(_ADDED)
    shown_jobs = [job for job in jobs if job.active or job.id == job_id]
    with st.expander("Add a run that was made elsewhere", expanded=bool(shown_jobs)):
        for shown_job in shown_jobs:
            job_panel(shown_job)
            run = stores.library().run(session.workspace(), shown_job.payload.get("run", ""))
            if shown_job.state == "finished" and run is not None:
                session.choose("run", run.id)
                st.markdown(
                    f"**{words.escaped(run.title)}** is in the list of runs. Its data set is not "
                    "in this workspace, so it predicts but cannot be refitted here."
                )
                advice("sources", run.dataset, run)
        job = _form(
            RUNS,
            "Zip of a run",
            file="the zip of a run",
            help=_RUN_HELP + help_link("how-to/share-a-run", "The run as a zip"),
            link=help_link("how-to/share-a-run", "The run in another workspace"),
        )
    if job is None:
        return
    if job.state == "finished":
        session.set_message(
            f"{words.escaped(job.payload['name'])} was added before; the same zip gives the same "
            "run."
        )
    st.session_state[_ADDED] = job.id
    st.rerun()


def _form(additions: Additions, label: str, *, file: str, help: str, link: str) -> Job | None:
    """Draw a form and return its job when it is submitted; the same zip twice gives one model."""
    form = f"{additions.field}-upload"
    with st.form(f"{form}-{session.form_key(form)}", border=False):
        upload = st.file_uploader(label, type=["zip"], help=help)
        name = st.text_input(
            "Name", max_chars=MAX_NAME, placeholder="named after the file", key=f"{form}-name"
        )
        if not st.form_submit_button(f"Add the {additions.noun}"):
            st.caption(LARGER + link)
            return None
        if upload is None:
            st.error(f"No file was chosen. Choose {file}.")
            return None
        data = upload.getvalue()
        title = name.strip() or upload.name.removesuffix(".zip")[:MAX_NAME]
        try:
            check_upload([(upload.name, data)])
            job = additions.add_archive(
                stores.jobs(), stores.library(), session.workspace(), data, name=title
            )
        except BandgapError as error:
            frame.problem(error)
            return None
    uploads.release(upload)
    session.renew(form)
    return job


_SOURCE_HELP = (
    "The worker opens every network in it and repeats the predictions that it was stored with; "
    "nothing is executed."
)
_RUN_HELP = (
    "From the button The run (zip) of the page Result, or a zip of the folder of a run from a "
    "shell. The worker loads it and repeats the predictions that it was stored with; nothing is "
    "executed."
)
