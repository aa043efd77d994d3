"""A source network of toy size, predictions of the worker, and figures of a page."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.descriptors import config_for
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.worker import work_all
from bandgap.networks.training import TrainingConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from bandgap.structures import read_structures
from tests.app.conftest import BROKEN, WATER, Workspace, empty_workspace

SHORT = {"warmup": 20, "draws": 40, "keep": 40, "chains": 2}


@cache
def source_files() -> dict[str, bytes]:
    """Return the files of a source network of toy size, trained once in a process."""
    text = b"".join(WATER.replace(b"0.119", f"{0.05 + 0.002 * k:.3f}".encode()) for k in range(80))
    records = read_structures(text, "molecules.extxyz")
    config = SourceConfig(hidden=(8, 4), training=TrainingConfig(max_epochs=5))
    descriptor = config_for(species=("H", "O"))
    gaps = np.linspace(6.0, 9.0, 80)
    with TemporaryDirectory() as folder:
        out = train_source_folder(
            records,
            gaps,
            descriptor=descriptor,
            config=config,
            out=Path(folder) / "source",
            seed=0,
            device="cpu",
        )
        return {path.name: path.read_bytes() for path in out.iterdir()}


def train_source(out: Path) -> Path:
    """Write a source network of toy size to a folder and return it."""
    out.mkdir(exist_ok=True)
    for name, content in source_files().items():
        (out / name).write_bytes(content)
    return out


def workspace_with_source(folders: pytest.TempPathFactory) -> Workspace:
    """Return an empty workspace whose source model is the one of toy size."""
    workspace = empty_workspace(folders.mktemp("home"))
    source = train_source(folders.mktemp("source"))
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    return workspace


def predict(workspace: Workspace, run: str) -> str:
    """Predict a good and a broken file with a run as the worker would and return the job's id."""
    files = [("new.xyz", WATER), ("broken.cif", BROKEN)]
    job = workspace.ask_prediction(run, files, name="new.xyz and 1 more file")
    work_all(workspace.home)
    return job.id


def figure(at: AppTest, index: int) -> dict[str, Any]:
    """Return a Plotly figure of the page as plain values."""
    return json.loads(at.get("plotly_chart")[index].proto.spec)  # type: ignore[no-any-return]
