"""The run that was started together with another one: a slow transfer after its first answer."""

import streamlit as st

from app import session
from app.components.shared import stores, words
from app.components.shared.run_files import run_figures
from app.components.shared.waiting import rerun_when
from bandgap.jobs.rows import RunRow
from bandgap.runs.requests import TransferRequest

TOGETHER_S = 60.0
_DIFFERENT = ("method", "settings")


def companions_view(run: RunRow) -> None:
    """Draw the run that was started together with this one, on the same structures, after it.

    While it is under way, the page waits for it; after that it shows its error.
    """
    companion = later_run(run)
    if companion is None:
        return
    job = stores.run_jobs().get(companion.job)
    if job is None:
        return
    title = words.escaped(companion.title)
    if job.active:
        text = f"{title} is under way, with the same structures. Its result will be shown here."
        rerun_when(lambda: not _is_active(companion))
        label, page = "See how far it is", "views/train.py"
    else:
        error = _rmse_eV(companion)
        if job.state != "finished" or error is None:
            return
        own_error = _rmse_eV(run)
        comparison = "" if own_error is None else f" (here {own_error:.2f} eV)"
        text = f"{title} has an RMSE of {error:.2f} eV on the same structures{comparison}."
        label, page = "See its result", "views/result.py"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(text, width="content")
        if st.button(label, type="tertiary", key=f"later-run-{companion.id}"):
            session.choose("run", companion.id)
            if page == "views/result.py":
                st.rerun()
            st.switch_page(page)


def later_run(run: RunRow) -> RunRow | None:
    """Return the last run that was started together with another one, after it, on the same split.

    It differs from it in method and settings only.
    """
    names = [field.name for field in TransferRequest.fields() if field.name not in _DIFFERENT]
    later = [
        row
        for row in stores.library().runs(run.workspace)
        if 0 < row.created - run.created < TOGETHER_S
        and (row.dataset, row.source) == (run.dataset, run.source)
        and all(getattr(row.request, name) == getattr(run.request, name) for name in names)
    ]
    return max(later, key=lambda row: row.created, default=None)


def _is_active(run: RunRow) -> bool:
    job = stores.run_jobs().get(run.job)
    return job is not None and job.active


def _rmse_eV(run: RunRow) -> float | None:
    figures = run_figures(run.id)
    return None if figures is None else figures.figures.get("rmse_eV")
