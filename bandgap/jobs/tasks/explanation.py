"""The job that explains predictions of a run."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs.explanations import explanation_path
from bandgap.jobs.home import Home
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.prediction import baseline_of
from bandgap.jobs.tasks.records import dataset_of, labelled_set, spool_records, uploaded_features

if TYPE_CHECKING:
    from bandgap.datasets.table import Table
    from bandgap.runs.explanation import StoredLabels


def explain(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Explain one predicted structure, or all of a small prediction; store the explanations.

    Returns their number.
    """
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.machine import set_threads
    from bandgap.predictions.explanations import save_explanations
    from bandgap.runs.explanation import explain_records, stored_labels, training_table
    from bandgap.runs.stored import load_run

    set_threads()
    library, dataset = dataset_of(job, home)
    run = library.run(job.workspace, str(job.payload["run"]))
    if run is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    folder = home.run_folder(run.id)
    stored = load_run(folder, verify=False)
    cache = DescriptorCache(home.cache)
    training: Table | StoredLabels | None = stored_labels(folder)
    if training is None:
        learned_from = library.dataset(run.workspace, run.dataset)
        data = labelled_set(library, learned_from, run.request, progress=progress)
        training = training_table(stored, data, cache=cache, progress=progress)
    spool = spool_records(library, dataset, progress=progress)
    row = job.payload["row"]
    first, end = (0, len(spool)) if row is None else (int(row), int(row) + 1)
    records = list(islice(iter(spool), first, end))
    if table := uploaded_features(home, job.payload.get("features") or ""):
        records = table.matched(records)
    baseline = baseline_of(library, dataset, run, job.payload.get("baselines"))
    explanations = explain_records(
        stored,
        training,
        records,
        rows=range(first, end),
        baseline_eV=None if baseline is None else baseline[first:end],
        cache=cache,
        progress=progress,
    )
    path = explanation_path(
        home, run.id, str(job.payload["prediction"]), n=int(job.payload["n"]), row=first
    )
    save_explanations(path, explanations)
    return {"n": len(explanations.rows)}
