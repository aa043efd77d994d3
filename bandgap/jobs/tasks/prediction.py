"""The job that predicts the gaps of a data set with a finished run."""

from typing import Any

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.data import write_shapes
from bandgap.jobs.tasks.records import read_records, verdict


def predict(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Predict the gaps of every structure of a data set with a finished run."""
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.machine import set_threads
    from bandgap.predictions.store import write_prediction
    from bandgap.runs.prediction import predict_in_detail

    set_threads()
    library, run_id = Library(home), job.payload["run"]
    if library.run(job.workspace, run_id) is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    dataset = library.dataset(job.workspace, job.payload["dataset"])
    records = read_records(library, dataset, progress=progress)
    if dataset.purpose == "prediction":
        library.save_verdicts(dataset.id, [verdict(record) for record in records])
        write_shapes(home, dataset.id, records, progress=progress)
    known = np.array([v.gap_eV is not None for v in library.verdicts(dataset.id)], dtype=bool)
    labelled = known if known.size == len(records) else np.zeros(len(records), dtype=bool)
    predictions, details = predict_in_detail(  # as trained: pages apply a stored calibrator
        home.run_folder(run_id), records, labelled=labelled, cache=DescriptorCache(home.cache), progress=progress
    )
    write_prediction(home.prediction_folder(run_id, job.id), predictions, details, records)
    return {"n": len(predictions), "refused": sum(status == "refused" for status in predictions.status)}
