"""Start the explanation of predictions, and find its file."""

from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job, JobStore
from bandgap.storage.manifests import LABELS

KIND: Final = "explain"
ALL_UP_TO: Final = 200  # structures of a prediction that are explained together


def explanation_path(home: Home, run_id: str, prediction_id: str, *, n: int, row: int) -> Path:
    """Return the path of the explanation of a row of a prediction of n structures.

    Small predictions have one file for all rows, large ones a file for each row.
    """
    name = "explanations.json" if n <= ALL_UP_TO else f"explanation-{row}.json"
    return home.prediction_folder(run_id, prediction_id) / name


def no_labels_text(jobs: JobStore, library: Library, run: RunRow) -> str:
    """Return why the labels of a run cannot be compared with a prediction, "" if they can."""
    if run.dataset in {dataset.id for dataset in library.datasets(run.workspace)}:
        return ""
    if (library.home.run_folder(run.id) / LABELS).is_file():
        return ""
    job = jobs.job(run.workspace, run.job)
    if job is not None and job.kind == "add_run":
        return (
            "This run was made elsewhere and came without its labelled structures, so its labels "
            "cannot be compared with a prediction. Where they are, `bandgap explain` does it."
        )
    return (
        "The data set of this run was deleted, so its labels cannot be compared with a prediction. "
        "Restore it from the bin, or train a new run."
    )


def start_explanation(
    jobs: JobStore, library: Library, run: RunRow, *, prediction: str, n: int, row: int
) -> Job:
    """Queue the explanation of a row of a prediction, or of all rows where there are few.

    Raises InputError when the data set that the run learned from is not in the workspace.
    """
    problem = no_labels_text(jobs, library, run)
    if problem:
        raise InputError(problem)
    predicted = jobs.job(run.workspace, prediction)
    if predicted is None:
        raise InputError("This workspace has no such prediction. Choose one from the list.")
    return jobs.start(
        run.workspace,
        KIND,
        title=f"Explaining predictions of {run.title}",
        payload={
            "run": run.id,
            "dataset": predicted.payload["dataset"],
            "prediction": prediction,
            "baselines": predicted.payload.get("baselines"),
            "features": predicted.payload.get("features"),
            "row": None if n <= ALL_UP_TO else row,
            "n": n,
        },
        subject=_subject(prediction, n=n, row=row),
        again=True,
    )


def explanation_job(
    jobs: JobStore, run: RunRow, *, prediction: str, n: int, row: int
) -> Job | None:
    """Return the newest job that explains a row of a prediction of n structures."""
    return jobs.latest(run.workspace, _subject(prediction, n=n, row=row))


def _subject(prediction: str, *, n: int, row: int) -> str:
    return f"explain-{prediction}" if n <= ALL_UP_TO else f"explain-{prediction}-{row}"
