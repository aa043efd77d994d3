"""A workspace of any size for measurements of the pages: many structures, many finished runs.

Two runs are really trained and one prediction is really made, on crystals of the demo; the other runs are copies of
their folders, and the structures of the large data set repeat those that were checked.
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
from bandgap.jobs.library import Library
from bandgap.jobs.rows import StoredFile
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from bandgap.structures.shapes import load_shape, save_shapes

CHECKED = 120  # crystals of the demo that are really checked and learned from
NAME = "demo crystals"
BRIEF: Mapping[str, object] = {"warmup": 30, "draws": 60, "keep": 60, "chains": 2}
SPLIT = TransferRequest(n=60, n_test=50, device="cpu")
METHODS = ("btl_pcp_pe", "last_layer_ridge")


@dataclass(frozen=True)
class SampleWorkspace:
    """Ids: the workspace, its data set of many structures, its runs (the trained ones first), and a prediction."""

    id: str
    dataset: str
    runs: tuple[str, ...]
    prediction: str


def build_workspace(
    home: Home,
    *,
    structures: int,
    runs: int,
    sampler: Mapping[str, object] = BRIEF,
    progress: Progress,
) -> SampleWorkspace:
    """Fill a new workspace; `sampler` are the settings of the Bayesian run, whose chains the default is too short for.

    Raises InputError on fewer runs or structures than are really made.
    """
    if runs < len(METHODS) or structures < CHECKED:
        raise InputError(
            f"{structures} structures and {runs} runs. Accepted: at least {CHECKED} structures and {len(METHODS)} runs."
        )
    library, store, workspace = Library(home), JobStore(home), str(uuid.uuid4())
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
    prediction = _do(store, workspace, "predict", dataset, payload)
    copies = []
    for number in range(runs - len(trained)):
        progress(Update("copying runs", number, runs - len(trained)))
        copies.append(_copy(library, store, workspace, trained[number % len(trained)], number))
    large = _repeat(library, workspace, dataset, structures, progress=progress)
    return SampleWorkspace(workspace, large, (*trained, *copies), prediction)


def add_trained(home: Home) -> tuple[str, str]:
    """Return the ids of a new workspace and of a run in it that was really trained, on crystals of the demo."""
    library, store, workspace = Library(home), JobStore(home), str(uuid.uuid4())
    register_all(str(home.folder))
    dataset = add_crystals(home, workspace)
    return workspace, _train(library, store, workspace, dataset, METHODS[1], {})


def add_predicted(home: Home, workspace: str, run: str, file: Path) -> tuple[str, str]:
    """Return the ids of a data set of the file's structures and of their prediction, both made by the jobs."""
    library, store = Library(home), JobStore(home)
    data = file.read_bytes()
    stored = [StoredFile(file.name, home.save_upload(data), len(data))]
    dataset = library.add_dataset(workspace, file.name, purpose="prediction", stored=stored)
    del data
    _do(store, workspace, "check", dataset.id, {"dataset": dataset.id})
    payload = {"run": run, "dataset": dataset.id, "name": file.name}
    return dataset.id, _do(store, workspace, "predict", dataset.id, payload)


def add_crystals(home: Home, workspace: str) -> str:
    """Give a workspace the first crystals of the demo, checked here and with their gaps; return the data set's id."""
    library, store = Library(home), JobStore(home)
    dataset = library.add_dataset(workspace, NAME, files=[("crystals.extxyz", _first_crystals())])
    _do(store, workspace, "check", dataset.id, {"dataset": dataset.id})
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


def _do(store: JobStore, workspace: str, kind: str, subject: str, payload: dict[str, str]) -> str:
    """Do one job here and return its id; raises BandgapError where it fails."""
    job = store.submit(workspace, kind, title=kind, payload=payload, subject=subject)
    _work(store, job)
    return job.id


def _work(store: JobStore, job: Job) -> None:
    """Do the queued jobs, this one the last; raises BandgapError where it fails."""
    work_all(store.home)
    ended = store.job(job.workspace, job.id)
    if ended is None or ended.state != "finished":
        raise BandgapError(
            f"The job {job.title} of the sample workspace did not finish: {ended and ended.error}"
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
    """Return the id of a finished run whose folder is a copy of another one's."""
    run = library.run(workspace, original)
    assert run is not None
    request, title = run.request.changed(seed=number + 1), f"{run.title}, copy {number + 1}"
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
    """Return the id of a data set of that many structures, which repeat those of another one."""
    progress(Update("repeating structures", 0, 1))
    verdicts = library.verdicts(dataset)
    large = library.add_dataset(workspace, f"{structures:,} structures")
    library.save_verdicts(
        large.id,
        (replace(verdicts[k % CHECKED], id=f"structure-{k + 1:06d}") for k in range(structures)),
        level_of_theory="GFN1-xTB",
    )
    source = shapes_path(library.home, dataset)
    shapes = [load_shape(source, k) for k in range(CHECKED)]
    save_shapes(
        shapes_path(library.home, large.id), [shapes[k % CHECKED] for k in range(structures)]
    )
    return large.id
