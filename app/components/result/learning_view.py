"""The learning curve of a run: what more labels would give, measured by one button."""

from functools import partial

import streamlit as st

from app.components.result.run_result import RunResult
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.drawing import figure
from app.components.shared.estimate_words import rounded
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import unfinished
from bandgap import plots
from bandgap.evaluation.learning_curve import (
    N_SEEDS,
    N_SIZES,
    LearningCurve,
    check_numbers,
    load_curve,
)
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.jobs.learning_curves import KIND, curve_path, start_curve

SLOW_S = 60.0  # a fit that took longer is repeated twice at each size, not three times
CAPTION = (
    "Diamonds are means over random choices of labels (circles). The line is a power law through "
    "them, dotted beyond the labels of this run, with the range in which the law may lie."
)


def learning_view(result: RunResult) -> None:
    """Draw the learning curve of a run, or the button that measures it.

    Nothing is drawn for a refit, whose parent has the curve, and without the data set.
    """
    if result.is_refit or not result.has_data:
        return
    run = result.run
    job = stores.latest(run.id, KIND)
    is_active = job is not None and job.active
    opened_key = f"learning-opened-{run.id}"  # stays open when the job of this session has ended
    st.session_state[opened_key] = is_active or st.session_state.get(opened_key, False)
    with st.expander("Would more labels help?", expanded=st.session_state[opened_key]):
        try:
            check_numbers(result.files.n, result.files.n_test, what="This run")
        except InputError as error:
            st.write(words.escaped_sentence(str(error)))
            return
        if unfinished(job):
            return
        try:
            curve = load_curve(curve_path(stores.home(), run.id))
        except ArtifactError as error:
            frame.problem(error)
            curve = None
        if curve is None:
            _button(result)
        else:
            _curve(result, curve)


def _button(result: RunResult) -> None:
    fit_s = float(result.files.manifest["elapsed_s"]["fit"])
    n_seeds = N_SEEDS if fit_s <= SLOW_S else 2
    n_fits = n_seeds * (N_SIZES - 1)
    st.write(
        f"The method learns again from a quarter, a half and three quarters of the labels, "
        f"{n_seeds} times each, with the same test."
    )
    if st.button(
        f"Measure the learning curve (at most about {rounded(n_fits * fit_s + 5)})",
        key=f"curve-{result.run.id}",
        help=f"{n_fits} fits in the background; the run itself is not changed."
        + help_link("explanation/reading-a-result", "Would more labels help?"),
    ):
        carry_out(
            partial(start_curve, stores.jobs(), stores.library(), result.run, n_seeds=n_seeds)
        )


def _curve(result: RunResult, curve: LearningCurve) -> None:
    more = st.slider(
        "More labels",
        min_value=1,
        max_value=curve.n,
        value=min(curve.usual_more, curve.n),
        key=f"more-labels-{result.run.id}",
        help="As many as the run has at most: farther away, the error is a guess.",
    )
    st.markdown(
        f"**{words.escaped_sentence(curve.sentence(more))}**",
        help="RMSE on structures like the held-out ones, by a power law through the measured "
        "errors; in brackets its 95 % range by a bootstrap. More labels are of the same kind, "
        "drawn at random." + help_link("explanation/reading-a-result", "Would more labels help?"),
    )
    table = curve.table()
    figure(
        plots.error_by_labels_figure,
        table,
        table=table,
        key="learning-curve",
        alt="Error against the number of labels, with a power law and its range",
        caption=CAPTION,
        n=curve.n,
    )
