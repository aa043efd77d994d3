"""The kinds of jobs, each thin over functions of the library; heavy imports happen inside, in the job's own process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.errors import Cancelled, InputError
from bandgap.jobs import data_tasks, resuming
from bandgap.jobs.data_tasks import write_shapes
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, Verdict
from bandgap.jobs.sources import source_path
from bandgap.jobs.store import Job
from bandgap.progress import Progress, Update

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord

Result = dict[str, Any]
Task = Callable[[Job, Home, Progress], Result]

DEMO_TARGET: Literal["crystals"] = "crystals"


def check(job: Job, home: Home, progress: Progress) -> Result:
    """Read the files of a data set and store a verdict for every structure."""
    library = Library(home)
    dataset = library.dataset(job.workspace, job.payload["dataset"])
    records = read_records(library, dataset, progress=progress)
    library.save_verdicts(dataset.id, [verdict(record) for record in records])
    write_shapes(home, dataset.id, records, progress=progress)
    return {"n": len(records), "refused": sum(record.status == "refused" for record in records)}


def import_demo(job: Job, home: Home, progress: Progress) -> Result:
    """Store the demo crystals and their gaps as a data set."""
    from bandgap.datasets.demo import load_demo

    progress(Update("reading the demo crystals"))
    library = Library(home)
    dataset = library.dataset(job.workspace, job.payload["dataset"])
    demo = load_demo(DEMO_TARGET)
    gaps = np.asarray(demo.gaps_eV, dtype=np.float64)
    verdicts = [verdict(record, gap=float(gap)) for record, gap in zip(demo.records, gaps, strict=True)]
    library.save_verdicts(dataset.id, verdicts)
    labels = {"source": f"demo data ({demo.licence})", "matched": int(np.isfinite(gaps).sum())}
    library.save_gaps(dataset.id, gaps, labels=labels, level_of_theory=demo.level_of_theory)
    write_shapes(home, dataset.id, demo.records, progress=progress)
    return {"n": len(verdicts)}


def transfer(job: Job, home: Home, progress: Progress) -> Result:
    """Transfer a source model to the labelled structures of a data set and write the run's folder.

    A job that does the same as one that was interrupted goes on from where that one was; a cancelled one leaves
    nothing behind.
    """
    from bandgap.cache import DescriptorCache
    from bandgap.devices import set_threads
    from bandgap.inference.checkpoints import ForeignCheckpointError
    from bandgap.runs import transfer_run

    set_threads()
    library, payload = Library(home), job.payload
    dataset = library.dataset(job.workspace, payload["dataset"])
    records, gaps = labelled_records(library, dataset, progress=progress)
    checkpoints = resuming.checkpoints_of(home, payload)
    resumed = checkpoints.exists()

    def run() -> Path:
        return transfer_run(
            source_path(library, job.workspace, payload["source"]),
            records,
            gaps,
            method=payload["method"],
            n=payload["n"],
            n_test=payload["n_test"],
            seed=payload["seed"],
            conformal_share=payload.get("conformal_share", 0.0),
            by_formula=payload.get("by_formula", False),
            out=home.run_folder(payload["run"]),
            level_of_theory=dataset.level_of_theory,
            levels=payload.get("levels", "none"),
            settings=payload.get("settings", {}),
            device=payload.get("device", "auto"),
            cache=DescriptorCache(home.cache),
            progress=progress,
            checkpoints=checkpoints,
        )

    try:
        folder = run()
    except Cancelled:
        shutil.rmtree(checkpoints, ignore_errors=True)
        raise
    except ForeignCheckpointError:  # the data set's gaps or the program have changed since
        shutil.rmtree(checkpoints, ignore_errors=True)
        folder = run()
    return {"folder": folder.name, "resumed": resumed}


def predict(job: Job, home: Home, progress: Progress) -> Result:
    """Predict the gaps of every structure of a data set with a finished run."""
    from bandgap.cache import DescriptorCache
    from bandgap.devices import set_threads
    from bandgap.jobs.prediction_files import write_prediction
    from bandgap.runs import predict_in_detail

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


def train_source(job: Job, home: Home, progress: Progress) -> Result:
    """Train a source model of this workspace."""
    from bandgap.jobs.source_tasks import train_source as train

    return train(job, home, progress)


TASKS: Mapping[str, Task] = {
    "check": check,
    "import_demo": import_demo,
    "import_folder": data_tasks.import_folder,
    "shapes": data_tasks.shapes,
    "domain": data_tasks.domain,
    "transfer": transfer,
    "predict": predict,
    "train_source": train_source,
}


def read_records(library: Library, dataset: Dataset, *, progress: Progress) -> list[StructureRecord]:
    """Return every record of a data set, at least one for every file, always in the same order."""
    if dataset.origin == "demo":
        from bandgap.datasets.demo import load_demo

        progress(Update("reading structures"))
        return list(load_demo(DEMO_TARGET).records)
    from bandgap.structures import read_structures
    from bandgap.structures.reading import with_unique_ids

    files = library.files(dataset.id)
    records: list[StructureRecord] = []
    for done, file in enumerate(files):
        progress(Update("reading structures", done, len(files), message=file.name))
        records += read_structures(library.home.read_upload(file.content), file.name)
    progress(Update("reading structures", len(files), len(files)))
    return with_unique_ids(records)


def labelled_records(
    library: Library, dataset: Dataset, *, progress: Progress
) -> tuple[list[StructureRecord], NDArray[np.float64]]:
    """Return the records that can be learned from (not refused, with a gap) and their gaps (n,) in eV.

    Raises InputError when what is read now is not what was checked.
    """
    records, verdicts = read_records(library, dataset, progress=progress), library.verdicts(dataset.id)
    if [record.id for record in records] != [v.id for v in verdicts]:
        raise InputError(
            f"{dataset.name}: the files give other structures than when they were checked. Upload them again."
        )
    chosen = [k for k, v in enumerate(verdicts) if v.gap_eV is not None and records[k].status != "refused"]
    gaps = np.array([verdicts[k].gap_eV for k in chosen], dtype=np.float64)
    return [records[k] for k in chosen], gaps


def verdict(record: StructureRecord, *, gap: float | None = None) -> Verdict:
    """Return what the store keeps of a record: its verdict and the numbers in its file."""
    numbers = {
        key: float(value)
        for key, value in record.info.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
    }
    known = gap is not None and np.isfinite(gap)
    return Verdict(
        id=record.id,
        file=record.file,
        status=record.status,
        problem=record.problem,
        formula=record.formula,
        n_atoms=record.n_atoms,
        periodic=record.periodic,
        gap_eV=gap if known else None,
        info=numbers,
    )
