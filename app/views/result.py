"""Result: what a run is good for, where it is wrong, and what to do next."""

import streamlit as st

from app.components.result import details_view, downloads_view
from app.components.result.learning_view import learning_view
from app.components.result.map_section import map_section, map_switch
from app.components.result.near_copies_view import near_copies_view
from app.components.result.run_result import RunResult, read_result
from app.components.result.slow_transfer import slow_transfer_view
from app.components.result.verdict_view import next_step_view, refit_caption, verdict_view
from app.components.result.worst_view import heldout_structure, worst_table
from app.components.shared import frame
from app.components.shared.drawing import figure, parity_columns
from app.components.shared.run_choice import choose_run
from app.components.shared.run_files import heldout_frame
from bandgap import plots
from bandgap.foundation.quantities import MORE_ITERATIONS

LEAD = "What a run is good for, where it is wrong, and what to do next."
CAPTION = (
    "Points on the line are right. With honest 95 % intervals about one bar in twenty misses the "
    "line."
)


def page() -> None:
    frame.heading("Result", LEAD)
    run = choose_run("A result is what a finished transfer gives.")
    if run is None:
        return
    result = read_result(run)
    verdict_view(result)
    refit_caption(run, result.files.manifest)
    slow_transfer_view(run)
    step = next_step_view(result)
    warnings = [result.files.left_out, result.files.copies, *result.files.warnings]
    if step == "more draws":  # the button is the advice
        warnings = [text.removesuffix(MORE_ITERATIONS) for text in warnings]
    frame.warn(warnings)
    near_copies_view(result)
    row = worst_table(result)
    left_column, right_column = st.columns([4, 5], gap="medium")
    with left_column:
        has_map = parity_view(result)
    with right_column:
        heldout_structure(result, row)
    if has_map:
        map_section(result)
    with st.container(gap="xsmall"):  # of many folded parts; a phone shows them at once
        details_view.groups_view(result)
        details_view.moved_view(result)
        details_view.chains_view(result)
        details_view.calibration_view(result)
        learning_view(result)
        details_view.settings_view(result)
    downloads_view.downloads_view(result)


def parity_view(result: RunResult) -> bool:
    """Draw predicted against known gaps of the held-out structures, and the switch of the map.

    Returns whether the map is switched on.
    """
    table = heldout_frame(result.heldout)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("**Predicted and known**", width="content")
        has_map = map_switch(result)
    figure(
        plots.parity,
        *parity_columns(table),
        ids=table["id"].tolist(),
        key="parity",
        alt="Predicted against known gaps of the held-out structures",
        caption=CAPTION,
    )
    return has_map


frame.show(page)
