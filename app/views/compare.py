"""Compare: finished runs in one table, and whether their differences are more than chance."""

import streamlit as st

from app import session
from app.components.compare.compare_view import cached_differences, difference_view, settings
from app.components.compare.run_table import run_table
from app.components.shared import frame, stores, words
from app.components.shared.advice import advice
from app.components.shared.run_choice import DELETED_DATA, choose, run_labels
from app.components.shared.run_files import finished_runs, stored_run
from bandgap.evaluation.run_tables import FEWEST_RUNS, StoredRun, split_flags
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.refitting import parent_of
from bandgap.jobs.rows import RunRow


def page() -> None:
    frame.heading("Compare", "Finished runs, and whether a difference is more than chance.")
    jobs = stores.jobs_of("transfer")
    # without the shipped model, and refits, whose error is that of their parent
    finished = {
        id: run
        for id, run in finished_runs().items()
        if id != stores.shipped_run().id and not parent_of(jobs.get(run.job))
    }
    if not finished:
        _too_few()
        return
    names = stores.dataset_names(session.workspace())
    labels = run_labels(finished, names, stores.sources())
    newest = next(iter(finished.values())).dataset
    oldest = [id for id, run in finished.items() if run.dataset == newest][-1]
    picked = choose("runs", "Compared with", labels, key="baseline", proposed=oldest, width=520)
    session.choose("runs", picked)
    rows = {id: run for id, run in finished.items() if run.dataset == finished[picked].dataset}
    data = names.get(finished[picked].dataset, DELETED_DATA)
    runs = _read(rows, labels, data)
    baseline = next((run for run in runs if run.id == picked), None)
    text = f"Runs on {words.escaped(data)}."
    if mean_gap := baseline and baseline.manifest.get("tested", {}).get("mean_gap_rmse_eV"):
        text += f" Always guessing the mean gap has an RMSE of {mean_gap:.2f} eV."
    st.caption(text)
    pairs = []
    if baseline is not None:
        frame.warn(t for run in runs if run.id != picked for t in split_flags(run, baseline))
        pairs = cached_differences((picked, *(run.id + run.label for run in runs)), runs, baseline)
    run_table(rows, labels=labels, data=data, runs=runs, pairs=pairs)
    if len(rows) < FEWEST_RUNS:
        _too_few(finished[picked].dataset)
    elif baseline is not None:
        difference_view(pairs, baseline=baseline.label)
        settings(runs)


def _read(rows: dict[str, RunRow], labels: dict[str, str], data: str) -> list[StoredRun]:
    """Return the runs that can be read; say why another one cannot."""
    runs = []
    for row in rows.values():
        try:
            runs.append(stored_run(row, labels[row.id], data=data))
        except BandgapError as error:
            frame.problem(error, about=labels[row.id])
    return runs


def _too_few(dataset: str | None = None) -> None:
    st.info(
        f"Comparing needs at least {FEWEST_RUNS} finished runs on the same data, such as two "
        "methods of one start."
    )
    if dataset is None:
        advice("compare")
    else:
        st.page_link("views/train.py", label="Train again", icon=":material/model_training:")


page()
