"""The page Result of vecchia_gp and ulisse_gp: scales of the process and its chains."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, empty_workspace, texts
from tests.app.small_runs import train_source

Visit = Callable[..., AppTest]


@dataclass(frozen=True)
class Example:
    """A workspace with two runs: on similar waters, and on waters of which every tenth differs."""

    workspace: Workspace
    run: str
    scattered: str


SETTINGS: dict[str, dict[str, Any]] = {
    "vecchia_gp": {"process": {"metropolis": {"chains": 2, "warmup": 25, "draws": 50}}},
    "ulisse_gp": {"solves": {"warmup": 20, "draws": 40}},
}


@pytest.fixture(
    scope="module", params=["vecchia_gp", pytest.param("ulisse_gp", marks=pytest.mark.slow)]
)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    method = request.param
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    folder = train_source(tmp_path_factory.mktemp("source"))
    about = MethodEntry(method, family="output layer alone")
    workspace.library.register_methods(workspace.library.methods() | {method: about})
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(folder))})
    dataset = workspace.add_labelled()
    run = workspace.add_run(dataset, method=method, settings=SETTINGS[method])[0]
    scattered = workspace.add_run(
        add_scattered(workspace), method=method, settings=SETTINGS[method]
    )[0]
    work_all(workspace.home)
    return Example(workspace, run, scattered)


def add_scattered(workspace: Workspace, n: int = 60) -> str:
    """Store waters with independent gaps; every tenth has its hydrogens far away."""
    widths = [0.70 + 0.002 * k if k % 10 else 1.5 + 0.1 * k for k in range(n)]
    text = b"".join(WATER.replace(b"0.763", f"{width:.3f}".encode()) for width in widths)
    dataset = workspace.add_checked([("scattered.extxyz", text)], name="scattered")
    gaps = np.random.default_rng(0).uniform(2.0, 8.0, n)
    workspace.library.save_gaps(
        dataset, gaps, labels={"source": "gaps.csv", "matched": n}, level_of_theory="PBE"
    )
    return dataset


@pytest.fixture
def workspace(example: Example, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(example.workspace.home.folder))
    return example.workspace


def test_result_counts_held_out_structures_far_from_the_data(
    visit: Visit, example: Example
) -> None:
    folder = example.workspace.home.run_folder(example.scattered)
    share = json.loads((folder / "manifest.json").read_text())["diagnostics"]["far_share"]
    count = round(10 * share)
    assert 0 < count < 10
    at = visit("result", run=example.scattered, tab="layers")
    assert not at.exception
    assert f"At **{count} of 10** held-out structures the labels say next to nothing" in texts(at)
    assert "next to nothing" not in texts(visit("result", run=example.run, tab="layers"))
    scales = next(d.value for d in at.dataframe if "R-hat" in d.value)
    assert {"length", "spread"} <= set(scales.dropna(subset="median")["quantity"])
