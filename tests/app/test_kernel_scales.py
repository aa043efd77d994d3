"""The page Result of vecchia_gp: scales of the process, and crystals far from the data."""

import json
from collections.abc import Callable

import numpy as np
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, texts
from tests.app.small_runs import train_source

BRIEF = {"process": {"metropolis": {"chains": 2, "warmup": 25, "draws": 50}}}


def add_scattered(workspace: Workspace, n: int = 60) -> str:
    """Store waters with independent gaps; every tenth has its hydrogens far away."""
    widths = [0.70 + 0.002 * k if k % 10 else 1.5 + 0.1 * k for k in range(n)]
    text = b"".join(WATER.replace(b"0.763", f"{width:.3f}".encode()) for width in widths)
    dataset = workspace.add_checked([("scattered.extxyz", text)], name="scattered")
    workspace.give_gaps(dataset, np.random.default_rng(0).uniform(2.0, 8.0, n))
    return dataset


def test_result_counts_held_out_structures_far_from_the_data(
    visit: Callable[..., AppTest], workspace: Workspace
) -> None:
    """On waters of which every tenth differs, but not on similar ones."""
    source = train_source(workspace.home.folder / "source")
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    entry = MethodEntry("vecchia_gp", family="output layer alone")
    workspace.library.register_methods({"vecchia_gp": entry})
    similar, scattered = (
        workspace.add_run(dataset, method="vecchia_gp", settings=BRIEF)[0]
        for dataset in (workspace.add_labelled(), add_scattered(workspace))
    )
    work_all(workspace.home)
    folder = workspace.home.run_folder(scattered)
    share = json.loads((folder / "manifest.json").read_text())["diagnostics"]["far_share"]
    count = round(10 * share)
    assert 0 < count < 10
    at = visit("result", run=scattered, tab="layers")
    assert f"At **{count} of 10** held-out structures the labels say next to nothing" in texts(at)
    assert "next to nothing" not in texts(visit("result", run=similar, tab="layers"))
    scales = next(d.value for d in at.dataframe if "R-hat" in d.value)
    assert {"length", "spread"} <= set(scales.dropna(subset="median")["quantity"])
