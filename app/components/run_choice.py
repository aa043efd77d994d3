"""The select box of finished runs that the result pages share."""

import session
import streamlit as st

from bandgap.jobs.rows import RunRow
from components import stores, words


def choose_run(purpose: str) -> RunRow | None:
    """Let the visitor choose a finished run; without one, say how it stands and what to do."""
    runs = stores.library().runs(session.workspace())
    jobs = {job.id: job for job in stores.jobs().jobs(session.workspace(), kinds=["transfer"], limit=500)}
    finished = {run.id: run for run in runs if run.job in jobs and jobs[run.job].state == "finished"}
    present = session.chosen("run")
    if not finished:
        states = [words.STATES[jobs[run.job].state] for run in runs[:1] if run.job in jobs]
        text = f"There is no finished run yet; the newest one is {states[0]}." if states else "There is no run yet."
        st.info(f"{text} {purpose}", icon=":material/model_training:")
        st.page_link("views/train.py", label="Go to Train", icon=":material/arrow_forward:")
        return None
    ids = list(finished)
    index = ids.index(present) if present in finished else 0
    names = stores.dataset_names(session.workspace())
    picked = st.selectbox(
        "Run",
        ids,
        index=index,
        format_func=lambda i: f"{finished[i].title} · {names.get(finished[i].dataset, 'deleted data set')} · {i[:4]}",
        key=f"run-select-{ids[index]}-{len(ids)}",
        width=520,
    )
    if picked != present:
        session.choose("run", picked)
        session.choose("prediction", "")
    return finished[picked]
