"""Uploaded files: they become a data set in the store and a job for the worker."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import session
from app.components.shared import frame, stores, words
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.rows import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_UPLOAD_BYTES,
    Dataset,
    Origin,
    Purpose,
)
from bandgap.jobs.store import Job
from bandgap.jobs.uploaded_gaps import TABLE_SUFFIXES, is_gap_table
from bandgap.structures.formats import NAMES

ACCEPTED = f"{NAMES}, or a zip of these"
LIMITS = (
    f"At most {words.size(MAX_FILE_BYTES)} a file, {MAX_FILES:,} files and "
    f"{words.size(MAX_UPLOAD_BYTES)} together"
)
TABLE_TYPES = ("csv", "tsv", "txt")


def choose_files(
    label: str,
    accepted: str,
    *,
    form: str,
    link: str,
    types: Sequence[str] = (),
    several: bool = False,
) -> list[UploadedFile]:
    """Draw the field for the files of a form, and return the chosen ones.

    Parameters
    ----------
    label
        Label of the field.
    accepted
        What the files are, for the help text.
    form
        Name of the form; a new instance of it has an empty field.
    link
        Link to the Guide (`help_link`).
    types
        Endings that the browser offers, all by default.
    several
        Whether several files can be chosen.
    """
    files = st.file_uploader(
        label,
        type=list(types) or None,
        accept_multiple_files=several,
        key=f"{form}-{label}-{session.form_key(form)}",
        help=f"Accepted: {accepted}." + link,
    )
    if not isinstance(files, list):
        return [files] if files else []
    if files:
        st.caption(f"{words.count(len(files), 'file')} chosen.")
    return files


def choose_table(label: str, accepted: str, **options: Any) -> UploadedFile | None:
    """Draw the field for one table as `choose_files` does, and return it."""
    return next(iter(choose_files(label, accepted, **{"types": TABLE_TYPES} | options)), None)


def stored_files(
    files: Sequence[UploadedFile],
    accepted: str,
    *,
    form: str,
    purpose: Purpose,
    then: Callable[[Dataset], Job],
) -> Dataset | None:
    """Store the files of a form as a data set; the same form instance gives the same data set.

    It is named after them. Where there are none, or they exceed the limits, the page says so and
    None is returned.

    Parameters
    ----------
    files, accepted
        Uploaded files, and what is accepted.
    form
        Name of the form, whose key gives the id of the data set. It is renewed.
    purpose
        Purpose of the data set.
    then
        Submits the job of the data set.
    """
    if not files:
        st.error(f"No file was chosen. Accepted: {accepted}.")
        return None
    contents = [(file.name, file.getvalue()) for file in files]
    n_others = len(files) - 1
    try:
        dataset = stores.library().add_dataset(
            session.workspace(),
            f"{files[0].name} and {words.count(n_others, 'more file')}"
            if n_others
            else files[0].name,
            purpose=purpose,
            dataset_id=str(uuid.UUID(session.form_key(form))),
            files=contents,
            then=then,
        )
    except BandgapError as error:
        frame.problem(error)
        return None
    release(*files)
    session.renew(form)
    return dataset


def release(*files: UploadedFile | None) -> None:
    """Free the memory of uploads after they were stored.

    Streamlit would keep them until the end of the session. Call `session.renew` for the form
    afterwards, as its widgets still refer to the files.
    """
    context = get_script_run_ctx()
    if context is None:
        return
    manager = context.uploaded_file_mgr
    assert isinstance(manager, MemoryUploadedFileManager)  # the type that Streamlit creates
    for file in files:
        if file is not None:
            manager.remove_file(context.session_id, file.file_id)


def submit_check(dataset: Dataset, gaps: Mapping[str, Any] | None = None) -> Job:
    """Submit the check of a data set; `gaps` is the table of `uploaded_gaps.gaps_payload`."""
    payload: dict[str, Any] = {} if gaps is None else {"gaps": gaps}
    title = f"Checking {dataset.name}"
    return stores.start("check", title, subject=dataset.id, dataset=dataset.id, **payload)


def with_gap_table(files: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return the structure files of an upload, and its table of gaps or None.

    Raises InputError for several tables, and for a table without any file of structures.
    """
    tables = [
        file
        for file in files
        if file.name.lower().endswith(TABLE_SUFFIXES) and is_gap_table(file.name, file.getvalue())
    ]
    names = ", ".join(file.name for file in tables)
    if tables and len(tables) == len(files):
        raise InputError(
            f"{names}: no structures, and a table of gaps needs them. Choose the files of the "
            "structures together with one table. A CSV of structures has a column cif, poscar or "
            "optimade with their texts."
        )
    if len(tables) > 1:
        raise InputError(
            f"{len(tables)} tables of gaps ({names}). Accepted: one. Join them into one table, or "
            "add the second afterwards under Known gaps."
        )
    return [file for file in files if file not in tables], tables[0] if tables else None


def check_again(job: Job) -> Job:
    """Start the work of a job that did not finish again; two calls give one job."""
    return stores.start(job.kind, job.title, subject=job.subject, **job.payload)


def add_demo(origin: Origin = "demo") -> None:
    """Create and select a data set of a demo's crystals, once per workspace.

    The choice of a source model is removed, so that the one for these data is proposed.
    """
    demo = DEMOS[origin]

    def submit_import(dataset: Dataset) -> Job:
        title = f"Reading the {demo.dataset}"
        return stores.start("import_demo", title, subject=dataset.id, dataset=dataset.id)

    existing = [d for d in stores.datasets().values() if d.origin == origin]
    dataset = (
        existing[0]
        if existing
        else stores.library().add_dataset(
            session.workspace(), demo.dataset, origin=origin, then=submit_import
        )
    )
    submit_import(dataset)
    session.choose("data", dataset.id)
    session.choose("source", "")
