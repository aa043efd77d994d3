"""Uploaded files become a data set in the store and a job for the worker; the page keeps nothing of them."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import session
from app.components.shared import stores, words
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.rows import Dataset, Origin, Purpose
from bandgap.jobs.store import Job
from bandgap.sources.cards import NO_SOURCE
from bandgap.structures.formats import NAMES

ACCEPTED = f"{NAMES}, or a zip of these"


def store_files(
    files: Sequence[Any],
    *,
    form: str,
    purpose: Purpose,
    then: Callable[[Dataset], Job],
    name: str = "",
) -> Dataset:
    """Store the files of a form as a data set named after them; the same life of the form gives the same data set.

    `then` asks for the job of the data set. Raises InputError over the limits.
    """
    contents = [(file.name, file.getvalue()) for file in files]
    return stores.library().add_dataset(
        session.workspace(),
        name.strip() or default_name([text for text, _ in contents]),
        purpose=purpose,
        dataset_id=str(uuid.UUID(session.form_key(form))),
        files=contents,
        then=then,
    )


def release(*files: UploadedFile | None) -> None:
    """Free the memory of uploads that the store has now; Streamlit would keep them as long as the session.

    Give the form a new life afterwards, as its widgets still refer to them.
    """
    context = get_script_run_ctx()
    if context is None:
        return
    manager = context.uploaded_file_mgr
    assert isinstance(manager, MemoryUploadedFileManager)  # as Streamlit makes it
    for file in files:
        if file is not None:
            manager.remove_file(context.session_id, file.file_id)


def submit_check(dataset: Dataset) -> Job:
    """Ask the worker for the verdicts of a data set."""
    title, key = f"Checking {dataset.name}", f"check-{dataset.id}"
    return stores.ask("check", title, subject=dataset.id, key=key, dataset=dataset.id)


def check_again(job: Job) -> Job:
    """Ask the worker once more for what a job that has ended too early was to do; asked twice, it is one job."""
    return stores.ask(
        job.kind, job.title, subject=job.subject, key=f"again-{job.id}", **job.payload
    )


def add_demo(origin: Origin = "demo") -> None:
    """Make a data set of a demo's crystals, once per workspace, and choose it.

    Where a shipped source was chosen for other data, the one that is proposed for these is taken in its place.
    """
    demo = DEMOS[origin]

    def ask(dataset: Dataset) -> Job:
        title, key = f"Reading the {demo.dataset}", f"demo-{dataset.id}"
        return stores.ask("import_demo", title, subject=dataset.id, key=key, dataset=dataset.id)

    library, workspace = stores.library(), session.workspace()
    existing = [d for d in library.datasets(workspace) if d.origin == origin]
    dataset = (
        existing[0]
        if existing
        else library.add_dataset(workspace, demo.dataset, origin=origin, then=ask)
    )
    ask(dataset)
    session.choose("data", dataset.id)
    if session.chosen("source") in {NO_SOURCE, *(other.source for other in DEMOS.values())}:
        session.choose("source", "")


def default_name(names: Sequence[str]) -> str:
    """Return a name for a data set: that of its only file, else of its first file and the number of the others."""
    return (
        names[0]
        if len(names) == 1
        else f"{names[0]} and {words.count(len(names) - 1, 'more file')}"
    )
