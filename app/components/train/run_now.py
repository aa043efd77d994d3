"""The selected run on the page Train: its job, warnings, next steps, renaming and deletion."""

from collections.abc import Iterable
from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out, delete_button, rename_form
from app.components.shared.job_panel import job_panel
from app.components.shared.run_files import read_run
from app.components.shared.waiting import rerun_when
from bandgap.foundation.errors import BandgapError
from bandgap.jobs import resuming
from bandgap.jobs.deletions import bin_run
from bandgap.jobs.housekeeping import MAX_NAME, rename_run
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job
from bandgap.storage.manifests import MANIFEST

WATCHED = "watched_transfer"  # key of the active job that this session showed last


def run_now(run: RunRow, job: Job) -> None:
    """Draw the panel of the run's job and, after its end, its warnings and the next steps.

    When a job ends that this session has watched, the page Result opens.
    """
    if not job.active:  # the panel of an active job has the title
        st.subheader(words.escaped(run.title), anchor=False)
    job_panel(job)
    if job.active:
        st.session_state[WATCHED] = job.id
    elif _has_just_finished(run, job):
        session.set_message(words.ending(job))
        st.switch_page("views/result.py")
    if job.state == "finished":
        finished(run)
    elif job.state in resuming.STOPPED:
        stopped(run, job)


def _has_just_finished(run: RunRow, job: Job) -> bool:
    """Return, once for each job, whether a job with a result ended that this session watched."""
    is_watched = st.session_state.get(WATCHED) == job.id
    if not is_watched or job.state != "finished":
        return False
    del st.session_state[WATCHED]
    return (stores.home().run_folder(run.id) / MANIFEST).is_file()


def finished(run: RunRow) -> None:
    """Show the warnings of a finished run, and links to its results."""
    try:
        files = read_run(run.id)
    except BandgapError as error:
        frame.problem(error)
        return
    frame.warn([files.left_out, files.copies, *files.warnings])
    with st.container(horizontal=True):
        st.page_link("views/result.py", label="See the result", icon=":material/task_alt:")
        st.page_link(
            "views/predict.py",
            label="Predict new structures",
            icon=":material/batch_prediction:",
        )


def stopped(run: RunRow, job: Job) -> None:
    """Offer to resume the run from its last checkpoint, or to restart it if there is none."""
    checkpoint = resuming.checkpoint_progress(stores.home(), job.payload)
    if checkpoint is None:
        st.caption(
            "No draws of it are stored; it restarts with the same settings and the same split."
        )
        label = "Start it again"
    else:
        total = f" of {checkpoint.total:,}" if checkpoint.total else ""
        st.caption(
            f"Stored: {checkpoint.iterations:,}{total} iterations of every chain. The run resumes "
            "there and ends with the draws that it would have had without the break. Checkpoints "
            "are stored for 14 days."
        )
        label = "Resume from the last checkpoint"
    would_fail_again = checkpoint is None and job.state == "failed"
    kind: Literal["primary", "secondary"] = "secondary" if would_fail_again else "primary"
    if st.button(label, type=kind, key=f"again-{job.id}", icon=":material/resume:"):
        carry_out(lambda: resuming.restart_run(stores.jobs(), stores.library(), run))


def follow(jobs: dict[str, Job]) -> None:
    """Run the page again whenever the state of one of these jobs changes."""

    def states(transfers: Iterable[Job]) -> dict[str, str]:
        return {job.id: job.state for job in transfers if job.active}

    def changed() -> bool:
        return states(stores.jobs_of("transfer").values()) != states(jobs.values())

    if states(jobs.values()):
        rerun_when(changed)


def cancel_all(jobs: dict[str, Job]) -> None:
    """Draw the button that cancels all transfers that run or wait, if there are several."""
    active = [job for job in jobs.values() if job.active and not job.cancel_requested]
    if len(active) > 1 and st.button(f"Cancel all {len(active)} transfers", key="cancel-all"):
        for job in active:
            stores.jobs().request_cancel(session.workspace(), job.id)
        st.rerun()


def manage_expander(run: RunRow, job: Job | None) -> None:
    """Draw the forms that rename and delete the run, with what a deletion removes."""
    with st.expander("Rename or delete this run"):
        rename = partial(rename_run, stores.library(), run)
        rename_form(run.id, run.title, rename, noun="run", max_chars=MAX_NAME)
        if job is not None and job.active:
            st.caption("An active run cannot be deleted. Cancel it first.")
            return
        st.write("Its predictions are deleted with it; data set and source model stay.")
        delete_button(
            "run", run.id, run.title, lambda: bin_run(stores.jobs(), stores.library(), run)
        )
