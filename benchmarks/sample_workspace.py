"""A workspace with many structures and finished runs, for the benchmark of the pages.

Two runs are trained and one prediction is computed, on crystals of the demo. The other runs are
copies of their folders. The structures of the large data set repeat those that were checked.
"""

import gzip
import io
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from bandgap.datasets.demo import data_folder
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.catalogue import register_all
from bandgap.jobs.home import Home, shapes_path
from bandgap.jobs.housekeeping import set_level_of_theory
from bandgap.jobs.library import Library
from bandgap.jobs.rows import StoredFile
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from bandgap.structures.shapes import load_shape, save_shapes

CHECKED = 120  # Crystals of the demo that are checked and learned from.
NAME = "demo crystals"
SHORT_CHAINS: Mapping[str, object] = {"warmup": 30, "draws": 60, "keep": 60, "chains": 2}
SPLIT = TransferRequest(n=60, n_test=50, device="cpu")
METHODS = ("btl_pcp_pe", "last_layer_ridge")


@dataclass(frozen=True)
class SampleWorkspace:
    """Ids of a workspace, its large data set, its runs (trained ones first) and a prediction."""

    id: str
    dataset: str
    runs: tuple[str, ...]
    prediction: str


def build_workspace(
    home: Home,
    *,
    structures: int,
    runs: int,
    sampler: Mapping[str, object] = SHORT_CHAINS,
    progress: Progress,
) -> SampleWorkspace:
    """Create and fill a workspace.

    Parameters
    ----------
    structures, runs
        Numbers of structures of the large data set and of finished runs.
    sampler
        Settings of the sampler of the Bayesian run.

    Raises
    ------
    InputError
        If `structures` or `runs` is below the number of those that are computed.
    """
    if runs < len(METHODS) or structures < CHECKED:
        raise InputError(
            f"{structures} structures and {runs} runs. "
            f"Accepted: at least {CHECKED} structures and {len(METHODS)} runs."
        )
    library = Library(home)
    store = JobStore(home)
    workspace = str(uuid.uuid4())
    register_all(str(home.folder))
    progress(Update("checking crystals", 0, 1))
    dataset = add_crystals(home, workspace)
    trained = []
    for number, method in enumerate(METHODS):
        progress(Update("training", number, len(METHODS)))
        settings = {"sampler": dict(sampler)} if method == METHODS[0] else {}
        trained.append(_train(library, store, workspace, dataset, method, settings))
    progress(Update("predicting", 0, 1))
    payload = {"run": trained[0], "dataset": dataset, "name": NAME}
    prediction = _run_job(store, workspace, "predict", dataset, payload)
    copies = []
    for number in range(runs - len(trained)):
        progress(Update("copying runs", number, runs - len(trained)))
        copies.append(_copy(library, store, workspace, trained[number % len(trained)], number))
    large = _repeat(library, workspace, dataset, structures, progress=progress)
    return SampleWorkspace(workspace, large, (*trained, *copies), prediction)


def checked_crystals(home: Home) -> tuple[str, str]:
    """Create a workspace with crystals of the demo, and return the ids of both."""
    workspace = str(uuid.uuid4())
    register_all(str(home.folder))
    return workspace, add_crystals(home, workspace)


def add_trained(home: Home) -> tuple[str, str]:
    """Create a workspace, train a run on crystals of the demo, and return the ids of both."""
    library = Library(home)
    store = JobStore(home)
    workspace, dataset = checked_crystals(home)
    return workspace, _train(library, store, workspace, dataset, METHODS[1], {})


def add_predicted(home: Home, workspace: str, run: str, file: Path) -> tuple[str, str]:
    """Add a data set of the file's structures, predict them, and return the ids of both."""
    library = Library(home)
    store = JobStore(home)
    data = file.read_bytes()
    stored = [StoredFile(file.name, home.save_upload(data), len(data))]
    dataset = library.add_dataset(workspace, file.name, purpose="prediction", stored=stored)
    del data
    _run_job(store, workspace, "check", dataset.id, {"dataset": dataset.id})
    payload = {"run": run, "dataset": dataset.id, "name": file.name}
    return dataset.id, _run_job(store, workspace, "predict", dataset.id, payload)


def add_crystals(home: Home, workspace: str) -> str:
    """Add the first crystals of the demo, checked and with gaps; return the data set's id."""
    library = Library(home)
    store = JobStore(home)
    dataset = library.add_dataset(workspace, NAME, files=[("crystals.extxyz", _first_crystals())])
    _run_job(store, workspace, "check", dataset.id, {"dataset": dataset.id})
    gaps = pd.read_csv(data_folder() / "crystals.csv", nrows=CHECKED)["gap_eV"].to_numpy(
        dtype=np.float64
    )
    labels = {"source": "demo", "matched": CHECKED}
    library.save_gaps(dataset.id, gaps, labels=labels, level_of_theory="GFN1-xTB")
    return dataset.id


def _first_crystals() -> bytes:
    """Return the first frames of the demo's extXYZ."""

    def lines() -> Iterator[bytes]:
        with gzip.open(data_folder() / "crystals.extxyz.gz") as file:
            for _ in range(CHECKED):
                count = file.readline()
                yield count
                for _ in range(int(count) + 1):
                    yield file.readline()

    text = io.BytesIO()
    text.writelines(lines())
    return text.getvalue()


def _run_job(
    store: JobStore, workspace: str, kind: str, subject: str, payload: dict[str, str]
) -> str:
    """Run a job in this process and return its id; raise BandgapError if it fails."""
    job = store.submit(workspace, kind, title=kind, payload=payload, subject=subject)
    _work(store, job)
    return job.id


def _work(store: JobStore, job: Job) -> None:
    """Run the queued jobs, of which `job` is the last; raise BandgapError if it fails."""
    work_all(store.home)
    ended = store.job(job.workspace, job.id)
    if ended is None or ended.state != "finished":
        raise BandgapError(
            f"The job {job.title} of the sample workspace did not finish: "
            f"{ended.error if ended else 'it was deleted'}"
        )


def _train(
    library: Library,
    store: JobStore,
    workspace: str,
    dataset: str,
    method: str,
    settings: Mapping[str, object],
) -> str:
    request = SPLIT.changed(method=method, settings=settings)
    title = f"{library.methods()[method].title}, n = {request.n}"
    target = library.dataset(workspace, dataset)
    started = start_transfer(store, library, target, source="demo", request=request, title=title)
    _work(store, started.job)
    return started.run


def _copy(library: Library, store: JobStore, workspace: str, original: str, number: int) -> str:
    """Copy the folder of a run into a new finished run, and return its id."""
    run = library.run(workspace, original)
    assert run is not None
    request = run.request.changed(seed=number + 1)
    title = f"{run.title}, copy {number + 1}"
    target = library.dataset(workspace, run.dataset)
    started = start_transfer(
        store, library, target, source=run.source, request=request, title=title
    )
    shutil.copytree(store.home.run_folder(original), store.home.run_folder(started.run))
    store.claim("sample")
    store.end(started.job.id, "finished")
    return started.run


def _repeat(
    library: Library, workspace: str, dataset: str, structures: int, *, progress: Progress
) -> str:
    """Add a data set that repeats the structures of another one, and return its id."""
    progress(Update("repeating structures", 0, 1))
    verdicts = library.verdicts(dataset)
    large = library.add_dataset(workspace, f"{structures:,} structures")
    library.save_verdicts(
        large.id,
        (replace(verdicts[k % CHECKED], id=f"structure-{k + 1:06d}") for k in range(structures)),
    )
    set_level_of_theory(library, workspace, large.id, "GFN1-xTB")
    source = shapes_path(library.home, dataset)
    shapes = [load_shape(source, k) for k in range(CHECKED)]
    save_shapes(
        shapes_path(library.home, large.id), [shapes[k % CHECKED] for k in range(structures)]
    )
    return large.id
