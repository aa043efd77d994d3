"""The selected run on the page Train: its job, next steps, name and deletion."""

from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out, delete_button, edited_text
from app.components.shared.advice import advice
from app.components.shared.job_panel import job_panel
from app.components.shared.run_files import finished_runs, read_run
from app.components.shared.waiting import rerun_when
from bandgap.foundation.errors import BandgapError
from bandgap.jobs import resuming
from bandgap.jobs.deletions import bin_run
from bandgap.jobs.housekeeping import rename_run
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import FIRST_ANSWER
from bandgap.jobs.store import Job
from bandgap.storage.manifests import MANIFEST

WATCHED = "watched_transfer"  # key of the active job that this session showed last


def run_now(run: RunRow, job: Job) -> bool:
    """Draw the panel of the run's job and, after its end, the next step.

    Returns whether that has a primary button. When a job ends that this session has watched, the
    page Result opens.
    """
    if not job.active:  # the panel of an active job has the title
        st.subheader(words.escaped(run.title), anchor=False)
    job_panel(job)
    if job.active:
        st.session_state[WATCHED] = job.id
        first_answer(job)
    elif _has_just_finished(run, job):
        session.set_message(words.ending(job))
        st.switch_page("views/result.py")
    if job.state == "finished":
        step = advice("train", run.dataset, run)
        st.page_link("views/result.py", label="See the result", icon=":material/task_alt:")
        return step.page != "train"
    if job.state in resuming.STOPPED:
        stopped(run, job)
        return True
    return False


def first_answer(job: Job) -> None:
    """Draw the error of the quicker method that was started with this one, once it is known."""
    first = finished_runs().get(job.payload.get(FIRST_ANSWER, ""))
    if first is None:
        return
    try:
        error = read_run(first.id).manifest["metrics"]["rmse_eV"]
    except BandgapError:  # Result says what is damaged
        return
    with frame.row():
        title = words.escaped(first.title)
        st.markdown(f"{title} has an RMSE of {error:.2f} eV on the same test.", width="content")
        if st.button("See its result", type="tertiary"):
            session.choose("run", first.id)
            st.switch_page("views/result.py")


def _has_just_finished(run: RunRow, job: Job) -> bool:
    """Return, once for each job, whether a job with a result ended that this session watched."""
    is_watched = st.session_state.get(WATCHED) == job.id
    if not is_watched or job.state != "finished":
        return False
    del st.session_state[WATCHED]
    return (stores.home().run_folder(run.id) / MANIFEST).is_file()


def stopped(run: RunRow, job: Job) -> None:
    """Offer to resume the run from its last checkpoint, or to restart it if there is none."""
    checkpoint = resuming.checkpoint_progress(stores.home(), job.payload)
    if checkpoint is None:
        st.caption("No draws of it are stored; it restarts with the same settings and split.")
        label = "Start it again"
    else:
        total = f" of {checkpoint.total:,}" if checkpoint.total else ""
        st.caption(
            f"Stored: {checkpoint.iterations:,}{total} iterations of every chain, for 14 days. The "
            "run resumes there, to the same draws as without the break."
        )
        label = "Resume from the last checkpoint"
    would_fail_again = checkpoint is None and job.state == "failed"
    kind: Literal["primary", "secondary"] = "secondary" if would_fail_again else "primary"
    if st.button(label, type=kind, key=f"again-{job.id}", icon=":material/resume:"):
        carry_out(lambda: resuming.restart_run(stores.jobs(), stores.library(), run))


def follow(jobs: dict[str, Job]) -> None:
    """Run the page again whenever the state of one of these jobs changes."""

    def active_states() -> dict[str, str]:
        return {job.id: job.state for job in stores.jobs_of("transfer").values() if job.active}

    states = {job.id: job.state for job in jobs.values() if job.active}
    if states:
        rerun_when(lambda: active_states() != states)


def manage(run: RunRow, job: Job | None) -> None:
    """Draw the name of the selected run, which is edited in place, and the button to delete it."""
    with frame.row("bottom"):
        rename = partial(rename_run, stores.library(), run)
        edited_text("Name", run.title, rename, key=f"name-{run.id}", width=420)
        if job is None or not job.active:
            delete_button(
                "run", run.id, run.title, lambda: bin_run(stores.jobs(), stores.library(), run)
            )
