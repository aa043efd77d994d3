"""Held-out structures of finished runs, and runs as the comparison reads them, from the store; without torch."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import session
import streamlit as st

from bandgap.evaluation.heldout import HeldOut, Key, load_heldout
from bandgap.evaluation.run_tables import LearningPoint, StoredRun
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.rows import RunRow
from components.shared import stores
from components.shared.run_files import read_run


def finished_runs() -> dict[str, RunRow]:
    """Return the finished runs of the workspace by id, newest first."""
    jobs = {job.id: job for job in stores.jobs().jobs(session.workspace(), kinds=["transfer"], limit=500)}
    runs = stores.library().runs(session.workspace())
    return {run.id: run for run in runs if run.job in jobs and jobs[run.job].state == "finished"}


def read_heldout_run(run: RunRow) -> HeldOut:
    """Return the held-out structures of a run with their known gaps.

    Raises ArtifactError when its folder is damaged, InputError when nothing can be measured on it.
    """
    return _read(str(stores.home().run_folder(run.id)), run.id, run.dataset)


def heldout_frame(heldout: HeldOut, level: float = 0.95) -> pd.DataFrame:
    """Return the table of their predictions at a level with the known gaps, one row a structure."""
    return heldout.predictions.to_frame(level).assign(gap_eV=heldout.gaps_eV)


def stored_run(run: RunRow, label: str, *, data: str) -> StoredRun:
    """Return a run as tables and figures of the comparison read it; raises as `read_heldout_run`."""
    manifest = read_run(run.id).manifest
    device = str(run.config.get("device", ""))
    return StoredRun(run.id, label, manifest, read_heldout_run(run), data=data, source=run.source, device=device)


def learning_points(runs: Mapping[str, RunRow], baseline: StoredRun) -> list[LearningPoint]:
    """Return the errors of all runs that were made from the same data as the baseline; damaged ones are left out."""
    own, home = runs[baseline.id].dataset, stores.home()
    same = tuple(run.id for run in runs.values() if run.dataset == own)
    return [point for point, content in _points(str(home.folder), same) if content == baseline.data_fingerprint]


@st.cache_resource(max_entries=32, show_spinner=False)
def _read(folder: str, run_id: str, dataset: str) -> HeldOut:
    manifest = read_run(run_id).manifest
    known: dict[Key, float] = {}
    if "test_gaps_eV" not in manifest:  # a run of an earlier version
        verdicts = stores.library().verdicts(dataset)
        known = {(v.id, v.file): v.gap_eV for v in verdicts if v.gap_eV is not None}
    return load_heldout(Path(folder), manifest, known=known)


@st.cache_resource(max_entries=32, show_spinner=False)
def _points(home: str, run_ids: tuple[str, ...]) -> list[tuple[LearningPoint, str]]:
    return [point for run_id in run_ids if (point := _point(home, run_id))]


@st.cache_resource(max_entries=2000, show_spinner=False)
def _point(home: str, run_id: str) -> tuple[LearningPoint, str] | None:
    try:
        manifest = read_run(run_id).manifest
        figures = {name: float(value) for name, value in manifest["metrics"].items() if value is not None}
        point = LearningPoint(manifest["title"], int(manifest["n"]), int(manifest["seed"]), figures)
        return point, str(manifest["data"]["fingerprint"])
    except (BandgapError, KeyError, TypeError, ValueError):
        return None
