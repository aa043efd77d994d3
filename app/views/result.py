"""Result: what a run is good for, what to do next, and tabs on its errors, intervals and layers."""

import streamlit as st

from app import session
from app.components.result.details_view import details_view
from app.components.result.errors_view import errors_view
from app.components.result.intervals_view import intervals_view
from app.components.result.layers_view import layers_label, layers_view
from app.components.result.run_result import read_result
from app.components.result.shipped_errors import shipped_errors
from app.components.result.verdict_view import next_step_view, refit_caption, verdict_view
from app.components.shared import frame
from app.components.shared.advice import continue_button
from app.components.shared.run_choice import choose_run
from bandgap.foundation.quantities import MORE_ITERATIONS
from bandgap.jobs.next_step import OF_VERDICT
from bandgap.sources.cards import copies_of_run_sentence, left_out_sentence

LEAD = "What a run is good for, where it is wrong, and what to do next."


def page() -> None:
    frame.heading("Result", LEAD)
    run = choose_run()
    if run is None or shipped_errors(run):
        return
    result = read_result(run)
    verdict_view(result)
    refit_caption(result)
    step = next_step_view(result)
    manifest = result.files.manifest
    warnings = [left_out_sentence(manifest), copies_of_run_sentence(manifest)]
    warnings += result.files.warnings
    if step == OF_VERDICT["more draws"]:  # the button is the advice
        warnings = [text.removesuffix(MORE_ITERATIONS) for text in warnings]
    frame.warn(warnings)
    continue_button()
    views = {"errors": errors_view, "intervals": intervals_view, "details": details_view}
    labels = {"errors": "Errors", "intervals": "Intervals"}
    if label := layers_label(result.files):
        views["layers"] = layers_view
        labels["layers"] = label
    labels["details"] = "Details and files"
    tabs = st.tabs(
        list(labels.values()),
        default=labels.get(session.parameter("tab")),  # "intervals" in ?tab=intervals
        key="result-tabs",
        on_change="rerun",
    )
    for name, tab in zip(labels, tabs, strict=True):
        if tab.open:
            with tab:
                views[name](result)


page()
