"""The job that measures the learning curve of a finished run."""

from typing import Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs.home import Home
from bandgap.jobs.learning_curves import curve_path
from bandgap.jobs.sources import source_path
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.records import dataset_of, labelled_set
from bandgap.sources.cards import NO_SOURCE


def learning_curve(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Measure the error of a run's method with fewer labels; write the curve to its folder.

    A cancelled job writes nothing. Returns the sentence on further labels.
    """
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.evaluation.learning_curve import save_curve
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.learning_curve import measure_learning_curve

    set_threads()
    library, dataset = dataset_of(job, home)
    run = library.run(job.workspace, str(job.payload["run"]))
    if run is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    data = labelled_set(library, dataset, run.request, progress=progress)
    has_source = run.source != NO_SOURCE
    curve = measure_learning_curve(
        home.run_folder(run.id),
        source_path(library, job.workspace, run.source) if has_source else None,
        data,
        n_seeds=int(job.payload["n_seeds"]),
        cache=DescriptorCache(home.cache),
        progress=progress,
    )
    save_curve(curve_path(home, run.id), curve)
    return {"sentence": curve.sentence()}
