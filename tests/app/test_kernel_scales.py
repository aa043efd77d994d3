"""The page Posterior of vecchia_gp and ulisse_gp: scales of the process and its chains."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from app.components.posterior.kernel_view import far_words, length_words, smoothness_words
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.worker import work_all
from bandgap.research.vecchia.correlation import half_integer
from tests.app.conftest import WATER, Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

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


@pytest.mark.slow
def test_posterior_page_shows_the_scales_of_the_process(visit: Visit, example: Example) -> None:
    at = visit("posterior", run=example.run)
    text = texts(at)
    assert not at.exception
    assert "How far one crystal tells of another" in text
    assert "has no output weights: it compares crystals by their last hidden features" in text
    assert "feature by feature" not in text
    assert (
        "**length**: Median" in text
        and "in units of the largest spread of the source model's features" in text
    )
    assert "Scales, R-hat and effective draws as a table" in [panel.label for panel in at.expander]
    assert "**spread of the process**: Median" in text
    assert "**smoothness** " in text and "taken as known" in text
    assert "Do the chains agree?" in text
    assert set(at.selectbox(key="trace-quantity").options) >= {"length", "spread", "noise"}


def test_sampled_smoothness_is_not_described_as_known() -> None:
    fixed, sampled = (
        smoothness_words(1.5, draws=draws)
        for draws in (None, np.linspace(0.5, 2.5, 40).reshape(2, 20))
    )
    assert fixed.startswith("**smoothness** 1.5, taken as known: 0.5 lets the gap change abruptly")
    assert sampled.startswith(
        "**smoothness**: Median 1.5 (95 %: 0.55 to 2.5), sampled too: 0.5 lets the gap"
    )


def test_posterior_page_counts_held_out_structures_far_from_the_data(
    visit: Visit, example: Example
) -> None:
    folder = example.workspace.home.run_folder(example.scattered)
    share = json.loads((folder / "manifest.json").read_text())["diagnostics"]["far_share"]
    count = round(10 * share)
    assert 0 < count < 10
    at = visit("posterior", run=example.scattered)
    assert not at.exception
    assert (
        f"At **{count} of 10** held-out structures the crystals that the run learned from say next "
        "to" in texts(at)
    )


def test_posterior_page_has_no_such_note_when_all_structures_have_neighbours(
    visit: Visit, example: Example
) -> None:
    text = texts(visit("posterior", run=example.run))
    assert "**spread of the process**" in text and "next to nothing" not in text


def test_share_is_shown_as_a_count_of_held_out_structures() -> None:
    assert far_words(0.25, n=12).startswith("At **3 of 12** held-out structures the crystals")
    assert far_words(1.0, n=1200).startswith("At **all 1,200** held-out structures")
    assert (
        "what is predicted there is the line alone, with an interval for the whole spread"
        in far_words(1.0, n=4)
    )
    assert far_words(0.0, n=12) == far_words(0.0, n=0) == ""


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_length_is_explained_by_the_correlation_of_its_smoothness(nu: float) -> None:
    words = length_words(nu)
    at_one_length = float(half_integer(torch.tensor([1.0]), 1.0, nu)[0][0])
    assert f"a correlation of {at_one_length:.2f}." in words
    assert "correlation" not in length_words(0.8)
