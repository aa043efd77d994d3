"""Compare: finished runs beside each other, and whether their differences are more than noise."""

import streamlit as st
from components.compare import compare_view
from components.compare.compare_choice import choose_runs
from components.shared import frame

from bandgap.evaluation.paired import Figure
from bandgap.evaluation.run_tables import StoredRun, figures_table


def page() -> None:
    frame.heading("Compare", "Finished runs beside each other, and whether a difference is more than this test set.")
    finished, runs = choose_runs()
    if not runs:
        return
    baseline, figure, level = controls(runs)
    compare_view.flags(runs, baseline)
    key = (baseline.id, *(run.id for run in runs))
    found = compare_view.cached_differences(key, figure, runs, baseline)
    compare_view.figures(figures_table(runs, level), found, level=level, baseline=baseline.label)
    compare_view.difference_view(found, figure=figure, baseline=baseline.label)
    compare_view.settings_view(runs)
    compare_view.learning_view(finished, baseline, figure=figure)
    compare_view.parity_view(runs, level)


def controls(runs: list[StoredRun]) -> tuple[StoredRun, Figure, float]:
    """Return the baseline, the figure whose difference is taken, and the level of the intervals."""
    left, middle, right = st.columns([2, 2, 2], gap="large", vertical_alignment="bottom")
    by_id = {run.id: run for run in runs}
    picked = left.selectbox(
        "Baseline",
        list(by_id),
        index=len(runs) - 1,  # the oldest of those that are chosen by themselves
        format_func=lambda i: by_id[i].label,
        help="The run that the others are measured against.",
        key=f"baseline-{'-'.join(by_id)}",
    )
    quantities = compare_view.QUANTITIES
    figure = middle.segmented_control(
        "Compare by",
        list(quantities),
        default="rmse_eV",
        format_func=lambda name: quantities[name].label,
        help=" ".join(f"{q.label}: {q.help}" for q in quantities.values()),
        key="compare-figure",
    )
    level = right.slider("Level", 50, 99, 95, format="%d %%", help="Probability that the intervals state.") / 100
    return by_id[picked], figure or "rmse_eV", level


frame.show(page)
