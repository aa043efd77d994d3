"""Rename or delete the chosen run; what goes with it is said before."""

import streamlit as st

from bandgap.jobs.housekeeping import MAX_NAME, RunLosses, delete_run, rename_run, run_losses
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job
from components.shared import stores, words
from components.shared.actions import carry_out


def care_expander(run: RunRow, job: Job | None) -> None:
    """Draw the expander with both actions."""
    with st.expander("Rename or delete this run"):
        with st.form(f"rename-{run.id}", border=False):
            title = st.text_input("Name", run.title, max_chars=MAX_NAME)
            if st.form_submit_button("Rename"):
                carry_out(lambda: rename_run(stores.library(), run, title), f"The run is now called {title}.")
        if job is not None and job.active:
            st.caption("A run that is at work is not deleted. Cancel it first.")
            return
        st.markdown(loss_sentence(run_losses(stores.jobs(), stores.library(), run)))
        sure = st.checkbox("I do not need them any more", key=f"sure-{run.id}")
        if st.button("Delete this run", disabled=not sure, icon=":material/delete:", key=f"delete-{run.id}"):
            carry_out(
                lambda: delete_run(stores.jobs(), stores.library(), run), f"{run.title} is deleted.", forget="run"
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
