"""The slow transfer that follows the first answer of a fast method."""

import streamlit as st

from app import session
from app.components.shared import stores, words
from app.components.shared.run_files import run_summary
from app.components.shared.waiting import rerun_when
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import FIRST_ANSWER
from bandgap.jobs.store import Job


def slow_transfer_view(run: RunRow) -> None:
    """Draw the transfer that follows this run as its first answer; nothing for other runs.

    While it is active, the page waits for it. After that it shows the error, or how it ended.
    """
    job = slow_job(run)
    if job is None:
        return
    finished = job.state == "finished"
    text = f"{words.escaped(job.title)} {words.STANDING[job.state]}, with the same structures."
    if job.active:
        rerun_when(lambda: _has_ended(job))
    elif finished:
        error, own_error = (run_summary(run_id).rmse_eV for run_id in (job.subject, run.id))
        text = (
            f"{words.escaped(job.title)} has an RMSE of {error:.2f} eV on the same structures "
            f"(here {own_error:.2f} eV)."
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(text, width="content")
        label = "See its result" if finished else "See how far it is"
        if st.button(label, type="tertiary", key=f"slow-{job.subject}"):
            session.choose("run", job.subject)
            st.switch_page(f"views/{'result' if finished else 'train'}.py")


def slow_job(run: RunRow) -> Job | None:
    """Return the newest job whose first answer is this run, None where its run was deleted."""
    jobs = [
        job
        for job in stores.jobs_of("transfer").values()
        if job.payload.get(FIRST_ANSWER) == run.id
    ]
    newest = max(jobs, key=lambda job: job.created, default=None)
    if newest is None or stores.library().run(run.workspace, newest.subject) is None:
        return None
    return newest


def _has_ended(job: Job) -> bool:
    present = stores.jobs().job(session.workspace(), job.id)
    return present is None or not present.active
