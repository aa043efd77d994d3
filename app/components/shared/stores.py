"""The store as pages see it: one object each for the data directory of this server."""

import json
import logging
import os
from typing import Any, Literal

import streamlit as st

from app import session
from bandgap.jobs import workspaces
from bandgap.jobs.database import StoreError
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.library import Library
from bandgap.jobs.listing import element_sets, numbers_of
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source, sources_of
from bandgap.jobs.store import Job, JobStore

log = logging.getLogger(__name__)

MIN_LABELLED = 20  # labelled structures of a data set from which a transfer may start


def home() -> Home:
    """Return the data directory."""
    return jobs().home


def jobs() -> JobStore:
    """Return the table of jobs."""
    return _jobs(os.environ.get("BANDGAP_HOME", ""))


def library() -> Library:
    """Return data sets, runs and the catalogue."""
    return _library(os.environ.get("BANDGAP_HOME", ""))


def has_workspace(workspace: str) -> bool:
    """Return whether this server has a workspace of this id."""
    return workspaces.has_workspace(library(), workspace)


def open_workspace(workspace: str) -> None:
    """Note a new workspace, so that its address opens it later; a store that cannot be written is no obstacle here."""
    try:
        workspaces.open_workspace(library(), workspace)
    except StoreError:
        log.warning("the new workspace could not be noted", exc_info=True)


def ask(kind: str, title: str, *, subject: str, key: str = "", **payload: Any) -> Job:
    """Ask the worker for a job of the visitor's workspace; asked again with the same key, it is the same job."""
    return jobs().submit(
        session.workspace(), kind, title=title, payload=payload, subject=subject, submit_key=key
    )


def jobs_of(kind: str) -> dict[str, Job]:
    """Return the jobs of this kind of the visitor's workspace by id, newest first."""
    return {job.id: job for job in jobs().jobs(session.workspace(), kinds=[kind], limit=500)}


def sources() -> dict[str, Source]:
    """Return the source models of the visitor's workspace by id."""
    return sources_of(jobs(), library(), session.workspace())


def dataset_names(workspace: str) -> dict[str, str]:
    """Return the names of a workspace's data sets by id."""
    return {dataset.id: dataset.name for dataset in library().datasets(workspace)}


def device_of(asked: str) -> Literal["cpu", "cuda"]:
    """Return on what the worker computes a job that asks for auto, cpu or cuda."""
    system = library().system()
    own = system.device if system else "cpu"
    return "cuda" if asked == "cuda" or (asked == "auto" and own.startswith("cuda")) else "cpu"


def levels_installed() -> bool:
    """Return whether the worker can compute electron levels."""
    system = library().system()
    return system is not None and system.levels


def graph_installed() -> bool:
    """Return whether the worker can train a graph network."""
    system = library().system()
    return system is not None and system.graph


@st.cache_resource(max_entries=4, show_spinner=False)
def _jobs(folder: str) -> JobStore:
    return JobStore(open_home(folder or None))


@st.cache_resource(max_entries=4, show_spinner=False)
def _library(folder: str) -> Library:
    return Library(open_home(folder or None))


def numbers(dataset: Dataset) -> dict[str, int]:
    """Return the names of the numbers that a data set's structures have, and how many have each."""
    return _numbers(os.environ.get("BANDGAP_HOME", ""), dataset.id, json.dumps(dataset.labels))


@st.cache_data(max_entries=32, show_spinner=False)
def _numbers(folder: str, dataset: str, labels: str) -> dict[str, int]:
    return numbers_of(_library(folder), dataset)


def elements(dataset: Dataset) -> dict[tuple[str, ...], int]:
    """Return how many of a data set's structures with gaps have each set of elements."""
    return _elements(os.environ.get("BANDGAP_HOME", ""), dataset.id, json.dumps(dataset.labels))


@st.cache_data(max_entries=32, show_spinner=False)
def _elements(folder: str, dataset: str, labels: str) -> dict[tuple[str, ...], int]:
    return element_sets(_library(folder), dataset)
