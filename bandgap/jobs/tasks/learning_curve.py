"""The job that measures the learning curve of a finished run."""

from typing import Any

from bandgap.jobs.learning_curves import curve_path
from bandgap.jobs.sources import source_path
from bandgap.jobs.tasks.records import Work, labelled_set
from bandgap.sources.cards import NO_SOURCE


def learning_curve(work: Work) -> dict[str, Any]:
    """Measure the error of a run's method with fewer labels; write the curve to its folder.

    A cancelled job writes nothing. Returns the sentence on further labels.
    """
    from bandgap.evaluation.learning_curve import save_curve
    from bandgap.runs.learning_curve import measure_learning_curve

    run = work.run
    data = labelled_set(work.library, work.dataset, run.request, progress=work.progress)
    has_source = run.source != NO_SOURCE
    curve = measure_learning_curve(
        work.home.run_folder(run.id),
        source_path(work.library, work.job.workspace, run.source) if has_source else None,
        data,
        n_seeds=int(work.job.payload["n_seeds"]),
        cache=work.cache,
        progress=work.progress,
    )
    save_curve(curve_path(work.home, run.id), curve)
    return {"sentence": curve.sentence()}
