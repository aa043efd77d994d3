"""Compare: finished runs next to each other, and whether their differences exceed the noise."""

import streamlit as st

from app import session
from app.components.compare import compare_view
from app.components.compare.run_table import run_table
from app.components.shared import frame, stores, words
from app.components.shared.run_choice import DELETED_DATA, choose_level, run_labels
from app.components.shared.run_files import finished_runs, stored_run
from bandgap.evaluation.paired import Figure
from bandgap.evaluation.run_tables import (
    FEWEST_RUNS,
    StoredRun,
    figures_table,
)
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.refitting import parent_of
from bandgap.jobs.rows import RunRow

_DEFAULT = 4  # number of runs that are selected initially


def page() -> None:
    frame.heading(
        "Compare",
        "Finished runs next to each other, and whether a difference is more than chance.",
    )
    finished, runs = choose_runs()
    if not runs:
        return
    baseline, figure, level = controls(runs)
    compare_view.flags(runs, baseline)
    key = (baseline.id, *(run.id for run in runs))
    differences = compare_view.cached_differences(key, figure, runs, baseline)
    table = figures_table(runs, level)
    compare_view.figures(table, differences, level=level, baseline=baseline.label)
    tabs = st.tabs(
        ["Differences", "Settings", "More labels", "Predicted and known"],
        on_change="rerun",
        key="compare-part",
    )
    difference_tab, settings_tab, learning_tab, parity_tab = tabs
    # Only the open part is drawn: its figures take longer than the rest of the page.
    if difference_tab.open:
        with difference_tab:
            compare_view.difference_view(differences, figure=figure, baseline=baseline.label)
    if settings_tab.open:
        with settings_tab:
            compare_view.settings_view(runs)
    if learning_tab.open:
        with learning_tab:
            compare_view.learning_view(finished, baseline, figure=figure)
    if parity_tab.open:
        with parity_tab:
            compare_view.parity_view(runs, level)


def controls(runs: list[StoredRun]) -> tuple[StoredRun, Figure, float]:
    """Draw the controls; return the baseline, the figure to compare, and the level."""
    left_column, middle_column, right_column = st.columns(
        [2, 2, 2], gap="large", vertical_alignment="bottom"
    )
    by_id = {run.id: run for run in runs}
    picked = left_column.selectbox(
        "Baseline",
        list(by_id),
        index=len(runs) - 1,  # the oldest one of the initial selection
        format_func=lambda i: by_id[i].label,
        help="The run that the others are measured against.",
        key=f"baseline-{'-'.join(by_id)}",
    )
    quantities = compare_view.QUANTITIES
    figure = middle_column.segmented_control(
        "Compare by",
        list(quantities),
        default="rmse_eV",
        format_func=lambda name: quantities[name].label,
        help=" ".join(f"{q.label}: {q.help}" for q in quantities.values()),
        key="compare-figure",
    )
    return by_id[picked], figure or "rmse_eV", choose_level(right_column)


def choose_runs() -> tuple[dict[str, RunRow], list[StoredRun]]:
    """Draw the table of runs; return those that can be compared, and the ticked ones that are read.

    The second list has the order of the ticks, and is empty where there are too few.
    """
    finished = finished_runs()
    jobs = stores.jobs_of("transfer")
    # the error of a refit is that of its parent
    refits = {run.id for run in finished.values() if parent_of(jobs.get(run.job))}
    runs = {run_id: run for run_id, run in finished.items() if run_id not in refits}
    names = stores.dataset_names(session.workspace())
    labels = run_labels(finished, names, stores.sources())
    ticked = (
        run_table(
            finished,
            labels=labels,
            datasets=names,
            proposed=_same_data(runs),
            refits=refits,
        )
        if finished
        else []
    )
    if len(runs) < FEWEST_RUNS:
        _too_few(len(runs))
        return runs, []
    if len(ticked) < FEWEST_RUNS:
        st.info(f"Tick at least {FEWEST_RUNS} runs.", icon=":material/compare_arrows:")
        return runs, []
    return runs, _read([runs[run] for run in ticked], labels)


def _read(rows: list[RunRow], labels: dict[str, str]) -> list[StoredRun]:
    names = stores.dataset_names(session.workspace())
    runs = []
    for row in rows:
        try:
            data = names.get(row.dataset, DELETED_DATA)
            runs.append(stored_run(row, labels[row.id], data=data))
        except BandgapError as error:
            frame.problem(error, about=labels[row.id])
    if len(runs) < FEWEST_RUNS:
        st.info(
            "Fewer than two of the chosen runs can be read. Choose others.",
            icon=":material/compare_arrows:",
        )
        return []
    return runs


def _same_data(runs: dict[str, RunRow]) -> list[str]:
    """Return the initial selection: runs on the newest run's data set, else the newest runs."""
    if not runs:
        return []
    newest = next(iter(runs.values())).dataset
    same = [run.id for run in runs.values() if run.dataset == newest]
    return (same if len(same) >= FEWEST_RUNS else list(runs))[:_DEFAULT]


def _too_few(count: int) -> None:
    present = (
        "There is no finished run yet."
        if not count
        else f"There is {words.count(count, 'finished run')} so far."
    )
    frame.send_on(
        f"{present} Comparing needs at least {FEWEST_RUNS}: train with another method, or another "
        "number of labelled structures, on the same data and with the same seed.",
        to="train",
    )


frame.show(page)
