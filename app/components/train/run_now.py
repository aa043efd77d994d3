"""The chosen run on the page Train: its job, how it ended, what it warns of, the way on; another name, or its end."""

from collections.abc import Iterable
from functools import partial
from typing import Literal

import session
import streamlit as st

from bandgap.foundation.errors import BandgapError
from bandgap.jobs import resuming
from bandgap.jobs.housekeeping import MAX_NAME, RunLosses, delete_run, rename_run, run_losses
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job
from components.shared import frame, stores, words
from components.shared.actions import carry_out, delete_button, rename_form
from components.shared.job_panel import job_panel
from components.shared.run_files import read_run
from components.shared.waiting import run_anew_when


def run_now(run: RunRow, job: Job) -> None:
    """Draw the panel of the run's job and, when it has ended, its warnings and what may be done next."""
    if not job.active:  # the panel of one at work has its title
        st.subheader(words.escaped(run.title), anchor=False)
    job_panel(job, noun="transfer")
    if job.state == "finished":
        finished(run)
    elif job.state in resuming.STOPPED:
        stopped(run, job)


def finished(run: RunRow) -> None:
    """Say what the run warns of, as it is said beside all of its results, and lead on."""
    try:
        files = read_run(run.id)
    except BandgapError as error:
        frame.problem(error)
        return
    frame.warn([files.left_out, files.copies, *files.warnings])
    left, middle, _ = st.columns([1, 1, 1])
    left.page_link("views/posterior.py", label="See what it learned", icon=":material/ssid_chart:")
    middle.page_link(
        "views/predict.py", label="Predict new structures", icon=":material/batch_prediction:"
    )


def stopped(run: RunRow, job: Job) -> None:
    """Offer to go on from the last checkpoint, or to start the same again where none was kept."""
    kept = resuming.kept(stores.home(), job.payload)
    if kept is None:
        st.caption(
            "No draws of it are kept; started again, it begins anew with the same settings and the same split."
        )
        label = "Start it again"
    else:
        wanted = f" of {kept.wanted:,}" if kept.wanted else ""
        st.caption(
            f"Kept: {kept.iterations:,}{wanted} iterations of every chain. The run goes on from there and ends with "
            "the draws that it would have had without the break. Checkpoints are kept for 14 days."
        )
        label = "Resume from the last checkpoint"
    anew = kept is None and job.state == "failed"
    kind: Literal["primary", "secondary"] = "secondary" if anew else "primary"
    if st.button(label, type=kind, key=f"again-{job.id}", icon=":material/resume:"):
        carry_out(lambda: resuming.start_again(stores.jobs(), stores.library(), run))


def follow(jobs: dict[str, Job]) -> None:
    """Run the page once more whenever the state of one of these jobs changes, such as those that wait."""

    def states(found: Iterable[Job]) -> dict[str, str]:
        return {job.id: job.state for job in found if job.active}

    def changed() -> bool:
        return states(stores.jobs_of("transfer").values()) != states(jobs.values())

    if states(jobs.values()):
        run_anew_when(changed)


def cancel_all(jobs: dict[str, Job]) -> None:
    """Offer the end of all transfers that run or wait, where there are several."""
    active = [job for job in jobs.values() if job.active and not job.cancel_requested]
    if len(active) > 1 and st.button(f"Cancel all {len(active)} transfers", key="cancel-all"):
        for job in active:
            stores.jobs().request_cancel(session.workspace(), job.id)
        st.rerun()


def care_expander(run: RunRow, job: Job | None) -> None:
    """Offer to rename or delete the run, and say before what goes with it."""
    with st.expander("Rename or delete this run"):
        rename = partial(rename_run, stores.library(), run)
        rename_form(run.id, run.title, rename, of="run", most=MAX_NAME)
        if job is not None and job.active:
            st.caption("A run that is at work is not deleted. Cancel it first.")
            return
        st.markdown(loss_sentence(run_losses(stores.jobs(), stores.library(), run)))
        delete_button(
            run.id,
            run.title,
            lambda: delete_run(stores.jobs(), stores.library(), run),
            label="Delete this run",
            sure="I do not need them any more",
            forget="run",
        )


def loss_sentence(lost: RunLosses) -> str:
    """Say what a deletion takes away and what stays."""
    made = ""
    if lost.predictions:
        names = ", ".join(words.escaped(name) for name in lost.predictions[:3])
        more = f" and {len(lost.predictions) - 3} more" if len(lost.predictions) > 3 else ""
        made = f", {words.count(len(lost.predictions), 'prediction')} made with it ({names}{more})"
    return (
        f"Deleting it removes its posterior, its figures on held-out structures{made}: {words.size(lost.n_bytes)} for "
        "good. The data set and the source model stay."
    )
