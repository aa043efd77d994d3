"""The job that explains predictions of a run."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bandgap.jobs.explanations import explanation_path
from bandgap.jobs.tasks.prediction import baseline_of
from bandgap.jobs.tasks.records import Work, labelled_set, spool_records, uploaded_features

if TYPE_CHECKING:
    from bandgap.datasets.table import Table
    from bandgap.runs.explanation import StoredLabels


def explain(work: Work) -> dict[str, Any]:
    """Explain one predicted structure, or all of a small prediction; store the explanations.

    Returns their number.
    """
    from bandgap.predictions.explanations import save_explanations
    from bandgap.runs.explanation import explain_records, stored_labels, training_table
    from bandgap.runs.stored import load_run

    library = work.library
    dataset = work.dataset
    run = work.run
    payload = work.job.payload
    folder = work.home.run_folder(run.id)
    stored = load_run(folder, verify=False)
    cache = work.cache
    training: Table | StoredLabels | None = stored_labels(folder)
    if training is None:
        learned_from = library.dataset(run.workspace, run.dataset)
        data = labelled_set(library, learned_from, run.request, progress=work.progress)
        training = training_table(stored, data, cache=cache, progress=work.progress)
    spool = spool_records(library, dataset, progress=work.progress)
    row = payload["row"]
    first, end = (0, len(spool)) if row is None else (int(row), int(row) + 1)
    records = list(islice(iter(spool), first, end))
    if table := uploaded_features(work.home, payload.get("features") or ""):
        records = table.matched(records)
    baseline = baseline_of(library, dataset, run, payload.get("baselines"))
    explanations = explain_records(
        stored,
        training,
        records,
        rows=range(first, end),
        baseline_eV=None if baseline is None else baseline[first:end],
        cache=cache,
        progress=work.progress,
    )
    path = explanation_path(
        work.home, run.id, str(payload["prediction"]), n=int(payload["n"]), row=first
    )
    save_explanations(path, explanations)
    return {"n": len(explanations.rows)}
