"""Access of the pages to the job store and the library in the data directory of this server."""

import json
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app import session, visitors
from app.components.shared import words
from bandgap.evaluation.run_tables import distinct_labels
from bandgap.foundation.errors import InputError
from bandgap.jobs import people, shipped_runs, workspaces
from bandgap.jobs.added_runs import RUNS, data_names
from bandgap.jobs.database import StoreError
from bandgap.jobs.entries import SystemEntry
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.library import Library
from bandgap.jobs.listing import element_sets, has_metals, other_numbers
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.sources import JOB_ORIGINS, Source, sources_of
from bandgap.jobs.store import Job, JobStore
from bandgap.sources.proposed import Proposal, Target, propose

Value = TypeVar("Value")

log = logging.getLogger(__name__)


def home() -> Home:
    """Return the data directory."""
    return jobs().home


def stored_table(upload: Any) -> str:
    """Store an uploaded table of own features; return its place, digest/name."""
    library().database.check_writable()
    return f"{home().save_upload(upload.getvalue())}/{upload.name}"


def jobs() -> JobStore:
    """Return the table of jobs, which a visitor who may only read cannot change."""
    return _stores(os.environ.get("BANDGAP_HOME", ""), not may_write())[0]


def library() -> Library:
    """Return the store of data sets, runs and the catalogue of methods and sources.

    A visitor who may only read cannot change it.
    """
    return _stores(os.environ.get("BANDGAP_HOME", ""), not may_write())[1]


def whole_library() -> Library:
    """Return the library without regard to what the visitor may open, for what decides that."""
    return _stores(os.environ.get("BANDGAP_HOME", ""), False)[1]


def access(workspace: str, person: str | None) -> bool | None:
    """Return whether a visitor may change a workspace, None where it is not theirs to see."""
    if person is None:
        return None
    return people.may_write(whole_library().database, workspace, person)


def may_open(workspace: str) -> bool:
    """Return whether the visitor may open a workspace, if there is one of this id."""
    return access(workspace, visitors.person()) is not None


def may_write() -> bool:
    """Return whether the visitor may change the open workspace; true before one is open.

    Where the visitor may no longer open it, a fragment runs the whole page again, which says so,
    and everything else raises InputError.
    """
    context = get_script_run_ctx()
    # a thread that makes a download has no session: `file_button` checks there
    workspace = session.workspace_or_none() if context is not None else None
    try:
        return workspace is None or checked_access(workspace, visitors.person())
    except InputError:
        if context is not None and context.fragment_ids_this_run:
            st.rerun()
        raise


def checked_access(workspace: str, person: str | None) -> bool:
    """Return whether a visitor may change a workspace; raises InputError if it is not theirs."""
    is_writable = access(workspace, person)
    if is_writable is None:
        raise InputError("This workspace is no longer open to you. Open another one on Home.")
    return is_writable


def datasets() -> dict[str, Dataset]:
    """Return the data sets of the visitor's workspace by id, newest first."""
    return {dataset.id: dataset for dataset in library().datasets(session.workspace())}


def open_workspace(workspace: str) -> None:
    """Store a new workspace of the visitor, so that its address opens it later.

    A failure to write is only logged, as the local user can still read the pages.
    """
    library = whole_library()
    try:
        with library.database.writing():
            workspaces.open_workspace(library, workspace)
            if person := visitors.person():
                people.claim(library.database, workspace, person)
    except StoreError:
        log.warning("the new workspace could not be stored", exc_info=True)


def shipped_run() -> RunRow:
    """Return the run of the shipped model in the visitor's workspace, stored or not."""
    return shipped_runs.shipped_run(library(), session.workspace())


def start(kind: str, title: str, *, subject: str, again: bool = False, **payload: Any) -> Job:
    """Start a job of the visitor's workspace about a subject, as `JobStore.start` does."""
    return jobs().start(
        session.workspace(), kind, title=title, payload=payload, subject=subject, again=again
    )


def latest(subject: str, *kinds: str) -> Job | None:
    """Return the newest job of the visitor's workspace about a subject, of these kinds if any."""
    return jobs().latest(session.workspace(), subject, *kinds)


def jobs_of(kind: str) -> dict[str, Job]:
    """Return the jobs of this kind of the visitor's workspace by id, newest first."""
    return {job.id: job for job in jobs().jobs(session.workspace(), kinds=[kind], limit=500)}


def run_jobs() -> dict[str, Job]:
    """Return the jobs that made or added a run of the visitor's workspace by id, newest first."""
    jobs_by_time = jobs().jobs(session.workspace(), kinds=["transfer", RUNS.kind], limit=500)
    return {job.id: job for job in jobs_by_time}


def source_jobs() -> list[Job]:
    """Return the jobs of the visitor's workspace that train or add a source model."""
    return [job for kind in JOB_ORIGINS for job in jobs_of(kind).values()]


def sources() -> dict[str, Source]:
    """Return the source models of the visitor's workspace by id."""
    return sources_of(jobs(), library(), session.workspace())


def dataset_names(workspace: str) -> dict[str, str]:
    """Return distinct names of a workspace's data sets by id.

    Also of those that were deleted, and of those that an added run learned from elsewhere.
    """
    deleted = {i: f"{name} (deleted)" for i, name in library().deleted_datasets(workspace).items()}
    elsewhere = data_names(jobs().jobs(workspace, kinds=[RUNS.kind]))
    return elsewhere | deleted | dataset_labels(library().datasets(workspace))


def dataset_labels(datasets: Iterable[Dataset]) -> dict[str, str]:
    """Return a distinct name of each data set by id; those of one name get the time of upload."""
    rows = list(datasets)
    details = [{"uploaded": f"added {words.moment(row.created)}"} for row in rows]
    names = distinct_labels([row.name for row in rows], details)
    return {row.id: name for row, name in zip(rows, names, strict=True)}


def system() -> SystemEntry:
    """Return the machine of the worker; one without any extra before a worker has registered it."""
    return library().system() or SystemEntry()


@st.cache_resource(max_entries=4, show_spinner=False)
def _stores(folder: str, read_only: bool) -> tuple[JobStore, Library]:
    home = open_home(folder or None)
    stores = JobStore(home), Library(home)
    for store in stores:
        store.database.read_only = read_only
    return stores


def numbers(dataset: Dataset) -> dict[str, int]:
    """Return how many structures of a data set have each number, by its name.

    The known gaps themselves are left out.
    """
    return _of_dataset(other_numbers, dataset)


def elements(dataset: Dataset) -> dict[tuple[str, ...], int]:
    """Return the number of labelled structures of a data set by their set of elements."""
    return _of_dataset(element_sets, dataset)


def target(dataset: Dataset, n: int | None) -> Target:
    """Return what a proposal for a data set depends on; `n` structures are to be learned from."""
    return Target(
        elements(dataset), dataset.level_of_theory, n, has_metals=_of_dataset(has_metals, dataset)
    )


def proposal(target: Target, *, transfers: bool) -> Proposal:
    """Return the proposed method and levels of those that the worker can compute."""
    machine = system()
    return propose(
        target,
        transfers=transfers,
        levels_installed=machine.levels,
        bonds_installed=True,
        potentials=machine.potentials,
    )


def is_organic(dataset: Dataset) -> bool:
    """Return whether most labelled structures are organic molecules or crystals of them."""
    return Target(elements(dataset)).is_organic


def learned_from_organic(workspace: str) -> bool:
    """Return whether a run of a workspace learned from organic molecules or crystals of them."""
    learned = {run.dataset for run in library().runs(workspace)}
    datasets = [dataset for dataset in library().datasets(workspace) if dataset.id in learned]
    return any(map(is_organic, datasets))


def _of_dataset(read: Callable[[Library, str], Value], dataset: Dataset) -> Value:
    """Return what a function reads of a data set, from the cache until its labels change."""
    state = (read.__name__, os.environ.get("BANDGAP_HOME", ""), json.dumps(dataset.labels))
    value: Value = _cached(state, dataset.id, read)
    return value


@st.cache_data(max_entries=96, show_spinner=False)
def _cached(state: tuple[str, ...], dataset: str, _read: Callable[[Library, str], Any]) -> Any:
    return _read(library(), dataset)
