"""Stored lists of proposed molecules: their files, and the job that makes one. Loads no torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.home import Home
from bandgap.jobs.store import Job, JobStore
from bandgap.predictions.window import Window

KIND: Final = "propose"
TABLE: Final = "proposed.csv"
MOLECULES: Final = "proposed.extxyz"
DRAWINGS: Final = "drawings.json"  # structural formulas as SVG, one for each row
SHAPES: Final = "shapes.safetensors"
DESCRIPTION: Final = "description.json"


@dataclass(frozen=True, eq=False)
class StoredProposals:
    """A list of proposed molecules: table, drawings of its rows (SVG), description and folder."""

    table: pd.DataFrame
    drawings: tuple[str, ...]
    description: dict[str, Any]
    folder: Path


def proposal_folder(home: Home, run_id: str, job_id: str) -> Path:
    """Return the folder of one list that was made with a run; it need not exist yet."""
    predictions = home.prediction_folder(run_id, job_id)  # checks the form of both ids
    return predictions.parent.parent / "proposals" / job_id


def submit_proposals(
    jobs: JobStore,
    workspace: str,
    *,
    run: str,
    dataset: str,
    window: Window,
    count: int,
    generated: int,
    seed: int,
    key: str,
) -> Job:
    """Submit the job; `dataset` is "" for the demo molecules. The same key gives the same job."""
    payload = {
        "run": run,
        "dataset": dataset,
        "window": str(window),
        "count": count,
        "generated": generated,
        "seed": seed,
    }
    title = f"Proposing molecules of {window.label}"
    return jobs.submit(workspace, KIND, title=title, payload=payload, subject=run, submit_key=key)


def load_proposals(home: Home, run_id: str, job_id: str) -> StoredProposals:
    """Return a stored list; raise ArtifactError if its files are missing or damaged."""
    folder = proposal_folder(home, run_id, job_id)
    try:
        table = pd.read_csv(
            folder / TABLE, keep_default_na=False, na_values=[""], dtype={"alerts": "str"}
        )
        drawings = tuple(json.loads((folder / DRAWINGS).read_text(encoding="utf-8")))
        description = read_json(folder / DESCRIPTION)
        if len(drawings) != len(table) or not isinstance(description, dict):
            raise ValueError(f"{len(drawings)} drawings of {len(table)} molecules")
    except DAMAGE as error:
        raise ArtifactError(
            f"The list of proposed molecules cannot be read ({type(error).__name__}: {error}). "
            "Propose again."
        ) from error
    return StoredProposals(table, drawings, description, folder)
