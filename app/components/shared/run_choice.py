"""The select box of finished runs that the result pages share."""

from collections import Counter

import session
import streamlit as st

from bandgap.jobs.rows import RunRow
from components.shared import stores, words


def choose_run(purpose: str) -> RunRow | None:
    """Let the visitor choose a finished run; without one, say how it stands and what to do."""
    runs = stores.library().runs(session.workspace())
    jobs = {job.id: job for job in stores.jobs().jobs(session.workspace(), kinds=["transfer"], limit=500)}
    finished = {run.id: run for run in runs if run.job in jobs and jobs[run.job].state == "finished"}
    present = session.chosen("run")
    if not finished:
        states = [words.STANDING[jobs[run.job].state] for run in runs[:1] if run.job in jobs]
        text = f"There is no finished run yet; the newest one {states[0]}." if states else "There is no run yet."
        st.info(f"{text} {purpose}", icon=":material/model_training:")
        st.page_link("views/train.py", label="Go to Train", icon=":material/arrow_forward:")
        return None
    ids = list(finished)
    index = ids.index(present) if present in finished else 0
    names = stores.dataset_names(session.workspace())
    same = Counter(run.title for run in finished.values())
    titles = {i: run.title if same[run.title] == 1 else f"{i[:4]}: {run.title}" for i, run in finished.items()}
    picked = st.selectbox(
        "Run",
        ids,
        index=index,
        format_func=lambda i: titles[i],
        key=f"run-select-{ids[index]}-{len(ids)}",
        width=520,
    )
    run = finished[picked]
    name = words.escaped(names.get(run.dataset, "a deleted data set"))
    st.caption(f"{words.escaped(run.title)}, on {name}, seed {run.config.get('seed', 'unknown')}.")
    if picked != present:
        session.choose("run", picked)
        session.choose("prediction", "")
    return run
