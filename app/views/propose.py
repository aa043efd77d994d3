"""Propose: molecules whose gap probably lies in a window. Experimental."""

from functools import partial

import streamlit as st

from app import session
from app.components.predict.window_choice import choose_window
from app.components.propose.proposal_view import proposal_view
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from app.components.shared.run_choice import choose_run
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.proposals import load_proposals, submit_proposals
from bandgap.jobs.queueing import active_first
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job
from bandgap.predictions.window import Window

DEMO = "The demo molecules"
MOST_LISTED = 200
MOST_GENERATED = 5_000


def page() -> None:
    frame.heading(
        "Propose",
        "New molecules for a band gap in a window. Experimental: where it was measured, 38 % of "
        "the proposals had a gap in a window of 0.5 eV, of known molecules 8 %.",
    )
    run = choose_run(refits_first=True)
    if run is None:
        return
    learned = stores.datasets().get(run.dataset)
    if learned is not None and not stores.is_organic(learned):
        st.info(
            "This run learned from structures that are not organic. Molecules are proposed only "
            "with a run on organic molecules or crystals of them."
        )
        return
    if run.request.baseline:
        st.info(
            f"This run corrects {words.escaped(run.request.baseline)} of every structure, which a "
            "proposed molecule does not have. Choose a run without a baseline."
        )
        return
    jobs = [job for job in stores.jobs_of("propose").values() if job.payload["run"] == run.id]
    lists = active_first(jobs, lambda job: job)
    if not lists:
        proposal_form(run)
        return
    with st.expander("Propose others"):
        proposal_form(run)
    result(run, lists)


def proposal_form(run: RunRow) -> None:
    """Draw the form; its button submits the job."""
    window = choose_window()
    names = {"": DEMO} | stores.dataset_labels(stores.datasets().values())
    dataset = st.selectbox(
        "Molecules to learn from",
        list(names),
        format_func=names.__getitem__,
        key=f"propose-data-{run.id}",
        width=520,
        help="Isolated neutral molecules with all hydrogens. Crystals are left out."
        + help_link("explanation/proposals", "Molecules"),
    )
    with frame.row("bottom"):
        count = st.number_input(
            "New molecules to list",
            1,
            MOST_LISTED,
            20,
            width=190,
            help="Known molecules that rank as high are listed too, and marked.",
        )
        generated = st.number_input(
            "Molecules to generate",
            1,
            MOST_GENERATED,
            1_000,
            step=100,
            width=190,
            help="Each is one to three random changes of a known molecule; the best are listed. "
            "1,000 take a few minutes.",
        )
    if st.button("Propose", type="primary", disabled=window is None):
        assert window is not None
        carry_out(partial(_submit, run, dataset, window, int(count), int(generated)))
    if window is None:
        st.caption("Fill in both ends of the target window first, the lower one on the left.")


def _submit(run: RunRow, dataset: str, window: Window, count: int, generated: int) -> None:
    """Submit the job; the same form instance gives the same job."""
    submit_proposals(
        stores.jobs(),
        session.workspace(),
        run=run.id,
        dataset=dataset,
        window=window,
        count=count,
        generated=generated,
        seed=run.request.seed,
        key=f"propose-{run.id}-{session.form_key('propose')}",
    )
    session.renew("propose")


def result(run: RunRow, lists: list[Job]) -> None:
    """Draw the newest list, or the one that is selected."""
    job = lists[0]
    if len(lists) > 1:
        place = st.selectbox(
            "List",
            range(len(lists)),
            format_func=lambda k: f"{k + 1}: {lists[k].title}",
            key=f"propose-list-{job.id}",
            width=520,
        )
        job = lists[place]
    if job.state != "finished":
        job_panel(job)
        return
    try:
        proposals = load_proposals(stores.home(), run.id, job.id)
    except BandgapError as error:
        frame.problem(error)
        return
    proposal_view(proposals, name=f"proposed-{run.id[:8]}")


page()
