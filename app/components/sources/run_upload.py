"""The form that adds a run that was made elsewhere, as a zip, and what became of the last one."""

import streamlit as st

from app import session
from app.components.shared import frame, stores, uploads, words
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.added_runs import ADD_RUN, add_run_archive
from bandgap.jobs.housekeeping import MAX_NAME
from bandgap.jobs.rows import MAX_FILE_BYTES, check_upload
from bandgap.jobs.store import Job

_ADDED = "added_run_job"  # key of the job that this session submitted last
LARGER = f"At most {words.size(MAX_FILE_BYTES)}. A larger one is added on this server's machine."


def run_upload() -> None:
    """Draw the folded form, with the checks that are active and the end of the last one."""
    jobs = list(stores.jobs_of(ADD_RUN).values())
    job_id = st.session_state.get(_ADDED)
    shown_jobs = [job for job in jobs if job.active or job.id == job_id]
    with st.expander("Add a run that was made elsewhere", expanded=bool(shown_jobs)):
        for job in shown_jobs:
            job_panel(job, noun="check of the run")
            if job.state == "finished":
                _next_steps(job)
        _form()


def _form() -> None:
    """Draw the form; one press makes one job, and the same archive twice gives one run."""
    with st.form(f"run-upload-{session.form_key('run-upload')}", border=False):
        file = st.file_uploader(
            "Zip of a run",
            type=["zip"],
            help="From the button The run (zip) of the page Result, or a zip of the folder of "
            "a run from a shell. The worker loads it and repeats the predictions that it "
            "was stored with; nothing is executed."
            + help_link("how-to/share-a-run", "The run as a zip"),
        )
        name = st.text_input(
            "Name", max_chars=MAX_NAME, placeholder="named after the file", key="run-upload-name"
        )
        if not st.form_submit_button("Add the run"):
            st.caption(LARGER + help_link("how-to/share-a-run", "The run in another workspace"))
            return
        if file is None:
            st.error("No file was chosen. Choose the zip of a run.")
            return
        data = file.getvalue()
        try:
            check_upload([(file.name, data)])
            job = add_run_archive(
                stores.jobs(),
                stores.library(),
                session.workspace(),
                data,
                name=name.strip() or file.name.removesuffix(".zip")[:MAX_NAME],
            )
        except BandgapError as error:
            frame.problem(error)
            return
    if job.state == "finished":
        session.set_message(
            f"{words.escaped(job.payload['name'])} was added before; the same zip gives the same "
            "run."
        )
    st.session_state[_ADDED] = job.id
    uploads.release(file)
    session.renew("run-upload")
    st.rerun()


def _next_steps(job: Job) -> None:
    """Draw the buttons that open the pages of an added run."""
    run = stores.library().run(session.workspace(), job.payload["run"])
    if run is None:
        return
    st.markdown(
        f"**{words.escaped(run.title)}** is in the list of runs. Its data set is not in this "
        "workspace, so it predicts but cannot be refitted here."
    )
    with st.container(horizontal=True):
        for label, page in (("See the result", "result"), ("Predict new structures", "predict")):
            if st.button(label, key=f"added-run-{page}"):
                session.choose("run", run.id)
                st.switch_page(f"views/{page}.py")
