"""Start the prediction of a data set by a run."""

from collections.abc import Mapping
from typing import Any

from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.store import Job, JobStore

BASELINE_FIELDS = ("ids", "files", "gaps_eV")


def start_prediction(
    jobs: JobStore,
    run: RunRow,
    dataset: Dataset,
    *,
    key: str,
    baselines: Mapping[str, Any] | None = None,
    features: str = "",
) -> Job:
    """Queue the prediction of a data set; the same `key` for run and data set gives the same job.

    `baselines` are the rows of a table of the run's baseline, by the fields of its labels.
    `features` is the place of an uploaded table of own features.
    """
    payload: dict[str, Any] = {"run": run.id, "dataset": dataset.id, "name": dataset.name}
    if baselines is not None:
        payload["baselines"] = {name: baselines[name] for name in BASELINE_FIELDS}
    if features:
        payload["features"] = features
    return jobs.submit(
        run.workspace,
        "predict",
        title=f"Predicting {dataset.name}",
        payload=payload,
        subject=dataset.id,
        submit_key=f"predict-{run.id}-{dataset.id}-{key}",
    )
