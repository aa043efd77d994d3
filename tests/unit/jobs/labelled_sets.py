"""A workspace with a source and a data set of labelled molecules, for tests of jobs."""

import io
from pathlib import Path

import numpy as np
from ase.io import write

from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from tests.unit.conftest import World


def add_labelled_set(
    home: Home,
    workspace: str,
    world: World,
    source_folder: Path,
    *,
    gaps_eV: np.ndarray | None = None,
) -> Dataset:
    """Register the source "toy", upload and check records, and store their gaps or these (n,)."""
    library = Library(home)
    jobs = JobStore(home)
    library.register_sources({"toy": SourceEntry("toy", str(source_folder))})
    text = io.StringIO()
    write(text, [record.atoms for record in world.records], format="extxyz")
    dataset = library.add_dataset(
        workspace, "set", files=[("set.extxyz", text.getvalue().encode())]
    )
    jobs.submit(
        workspace, "check", title="check", payload={"dataset": dataset.id}, subject=dataset.id
    )
    assert work_all(home) == 1
    stored_gaps_eV = world.gaps_eV if gaps_eV is None else gaps_eV
    library.save_gaps(dataset.id, stored_gaps_eV, labels={"source": "made"}, level_of_theory="PBE")
    return dataset
