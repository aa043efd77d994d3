"""The live panel of a job: phase, progress, current figures, cancel button, and how it ended."""

import time

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import rounded
from app.components.shared.live_curves import live_curves
from app.components.shared.waiting import POLL_S
from bandgap.jobs import resuming
from bandgap.jobs.queueing import QueuePlace, queue_place
from bandgap.jobs.store import Job

LOOK_BACK = 20  # latest events that are searched for a log message


def job_panel(job: Job) -> None:
    """Draw the panel of a job and update it until the job ends.

    The whole page runs again whenever the state of the job changes.
    """

    @st.fragment(run_every=POLL_S if job.active else None)
    def panel() -> None:
        present = stores.jobs().job(session.workspace(), job.id)
        if present is None:
            return
        if present.active:
            _running(present)
        else:
            _ended(present)
        # Lists next to the panel show the state too. The page runs again only after the panel is
        # drawn, so that a click on "Cancel" is processed.
        if present.state != job.state:
            st.rerun()

    panel()


def unfinished(job: Job | None) -> bool:
    """Draw the panel of a job unless it has finished; return whether it is active."""
    if job is None or job.state == "finished":
        return False
    job_panel(job)
    return job.active


def _running(job: Job) -> None:
    with st.container(border=True, key=f"job-{job.id}"):
        with frame.row():
            st.markdown(f"**{words.escaped(job.title)}**")
            pressed = st.button("Cancel", key=f"cancel-{job.id}", disabled=job.cancel_requested)
        if pressed:
            carry_out(lambda: stores.jobs().request_cancel(session.workspace(), job.id))
        if job.state == "queued":
            st.write(place_sentence(queue_place(stores.jobs(), job)))
        elif job.cancel_requested:
            st.write("Ending the computation; this takes up to 15 s.")
        else:
            _progress(job)


def place_sentence(place: QueuePlace) -> str:
    """Return the place of a waiting job in the queue and its expected start."""
    if not place.n_before:
        return "Waiting for the worker to begin."
    line = f"Waiting, with {words.count(place.n_before, 'job')} before this one."
    if place.at_least and place.wait_s < 1:
        return f"{line} It starts after the job before it."
    more = "at the earliest in" if place.at_least else "in"
    return f"{line} It is expected to start {more} about {rounded(place.wait_s)}."


def _progress(job: Job) -> None:
    events = stores.jobs().events(job.id, last=LOOK_BACK)
    last = next((event for event in reversed(events) if event.kind == "progress"), None)
    if last is None:
        spent = words.duration(time.time() - (job.started or job.created))
        st.write(f"Loading the libraries, for {spent}; this can take half a minute.")
        return
    update = last.update
    line = f"{words.sentence(update.phase)} · {words.progress_line(last, now=time.time())}"
    if update.total:
        st.progress(min(update.done / update.total, 1.0), text=line)
    else:
        st.write(line)
    if figures := words.value_line(last):
        st.markdown(figures)
    if any(event.update.values for event in events):  # also between two phases that have some
        live_curves(job)
    spent = words.duration(time.time() - (job.started or job.created))
    messages = [event.update.message for event in events if event.update.message]
    st.caption(" · ".join([f"running for {spent}", *map(words.escaped, messages[-1:])]))


def _ended(job: Job) -> None:
    can_resume = job.kind == "predict" and bool(
        resuming.n_predicted_rows(stores.home(), job.payload)
    )
    text = words.ending(job, can_resume=can_resume)
    match job.state:
        case "finished":
            st.caption(text)
        case "failed":
            st.error(text, icon=":material/error:")
        case _:
            st.warning(text, icon=":material/stop_circle:")
