"""Source models: which there are, what they were trained on and how well, and how to train another."""

import session
import streamlit as st
from components.shared import frame, stores, tables, words
from components.shared.job_panel import job_panel
from components.shared.waiting import registered
from components.sources.source_setup import source_form
from components.sources.source_view import SOURCE_COLUMNS, delete_expander, source_details, source_frame

from bandgap.jobs.sources import Source, sources_of
from bandgap.jobs.store import Job


def page() -> None:
    frame.heading("Source models", "Networks that learned gaps from many structures; a transfer starts from one.")
    trainings = stores.jobs().jobs(session.workspace(), kinds=["train_source"], limit=500)
    active = [job for job in trainings if job.active]
    for job in active:
        job_panel(job, noun="training")
    ended_too_early(trainings)
    registered("source")
    sources = sources_of(stores.jobs(), stores.library(), session.workspace())
    if sources:
        present(sources)
    datasets = {d.id: d for d in stores.library().datasets(session.workspace())}
    usable = {i: stores.library().counts(i)["usable"] for i in datasets}
    with st.expander("Train another source model", expanded=len(sources) < 2 and not active):
        source_form(datasets, usable, primary=True)


def ended_too_early(trainings: list[Job]) -> None:
    """Show how the training that the address names ended, when it left no model."""
    for job in trainings:
        if job.subject == session.chosen("source") and not job.active and job.state != "finished":
            job_panel(job, noun="training")


def present(sources: dict[str, Source]) -> None:
    ids = list(sources)
    chosen = session.chosen("source") if session.chosen("source") in sources else ids[0]
    table, key = source_frame(sources), f"sources-{len(ids)}"
    row = tables.pick(table, alt="Source models of this workspace", columns=SOURCE_COLUMNS, key=key, rows=8)
    if row is not None and ids[row] != chosen:
        session.choose("source", ids[row])
        st.rerun()
    source = sources[chosen]
    source_details(source)
    if not source.problem and st.button(f"Transfer from {words.escaped(source.title)}", key="transfer-from"):
        session.choose("source", source.id)
        st.switch_page("views/train.py")
    if source.job:
        delete_expander(source)


frame.show(page)
