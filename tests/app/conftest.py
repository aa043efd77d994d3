"""Fixtures for tests of the pages: workspaces in every state, in a temporary data directory."""

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, app_test

from bandgap.foundation.progress import Update
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.library import Library
from bandgap.jobs.people import owner_of
from bandgap.jobs.queueing import estimate_waiting
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import work_all
from bandgap.jobs.workspaces import open_workspace
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Cost
from tests.app.number_formats import columns_without_format

if TYPE_CHECKING:
    from tests.app.worlds import Owned

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
WATER = (
    b"3\nProperties=species:S:1:pos:R:3 gap=7.1\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"
)
BROKEN = b"data_x\n_cell_length_a nonsense\n"


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """Cache what AppTest reads anew at every run of a page, as the server of the pages does.

    These are the metadata of installed packages and the compiled scripts of the pages.
    """
    scripts = ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner,
            "scan_component_manifests",
            cache(manifest_scanner.scan_component_manifests),
        )
        patch.setattr(app_test, "ScriptCache", lambda: scripts)
        yield


@pytest.fixture(autouse=True)
def _tables_have_number_formats(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Demand that every table that a test draws has a format for each column of floats."""
    names: list[str] = []

    def checked(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(data: Any = None, **settings: Any) -> Any:
            names.extend(columns_without_format(data, settings.get("column_config")))
            return draw(data, **settings)

        return drawn

    for function in ("dataframe", "data_editor"):
        monkeypatch.setattr(st, function, checked(getattr(st, function)))
    yield
    assert not names, f"columns of floats without a printf format: {sorted(set(names))}"


@dataclass(frozen=True)
class Workspace:
    """A visitor's workspace in the store of the test."""

    id: str
    home: Home

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.home)

    @property
    def library(self) -> Library:
        return Library(self.home)

    def add_checked(self, files: list[tuple[str, bytes]], *, name: str = "my set") -> str:
        """Store a data set, check it as the worker would, and return its id."""
        dataset = self.library.add_dataset(self.id, name, files=files)
        payload = {"dataset": dataset.id}
        self.jobs.submit(
            self.id, "check", title=f"Checking {name}", payload=payload, subject=dataset.id
        )
        work_all(self.home)
        return dataset.id

    def give_gaps(self, dataset: str, gaps: Any, *, level: str = "PBE") -> None:
        """Store gaps of a data set as if they came from a table."""
        labels = {"source": "gaps.csv", "matched": int(np.isfinite(gaps).sum())}
        self.library.save_gaps(dataset, np.asarray(gaps), labels=labels, level_of_theory=level)

    def add_labelled(self, n: int = 60) -> str:
        """Store a checked data set of `n` distorted water molecules with gaps and return its id."""
        dataset = self.add_checked([("waters.extxyz", waters(n))], name="waters")
        self.give_gaps(dataset, np.linspace(5.0, 8.0, n))
        return dataset

    def add_run(self, dataset: str, *, source: str = "demo", **fields: Any) -> tuple[str, Job]:
        """Queue a transfer as the page does and return the run's id and its job."""
        run = str(uuid.uuid4())
        usual = {"method": "btl_pcp_pe", "n": 40, "n_test": 10, "device": "cpu"}
        request = TransferRequest(**{**usual, **fields})
        title = f"{request.method}, n = {request.n}"
        payload = {"source": source, "dataset": dataset, "run": run, "request": request.to_values()}
        job = self.jobs.submit(self.id, "transfer", title=title, payload=payload, subject=run)
        names = {"job": job.id, "run_id": run, "dataset": dataset, "source": source}
        self.library.add_run(self.id, **names, title=title, request=request)
        return run, job

    def ask_prediction(
        self, run: str, files: list[tuple[str, bytes]] | str, *, name: str = "new"
    ) -> Job:
        """Queue the prediction of files, or of a stored data set, by a run."""
        if not isinstance(files, str):
            files = self.library.add_dataset(self.id, name, purpose="prediction", files=files).id
        payload = {"run": run, "dataset": files, "name": name}
        title = f"Predicting {name}"
        return self.jobs.submit(self.id, "predict", title=title, payload=payload, subject=files)

    def make_running(self, job: Job) -> None:
        """Start the job as a running worker would, and report progress."""
        estimate_waiting(self.jobs, self.library)
        claimed = self.jobs.claim("a worker", lanes=["long"])
        assert claimed is not None and claimed.id == job.id
        update = Update(
            "sampling", 30, 120, message="chain 2 of 4", values={"rhat": 1.08, "acceptance": 0.8}
        )
        self.jobs.add_event(job.id, "progress", update, since=time.time() - 30)


def waters(n: int, *, width: float = 0.70, step: float = 0.002) -> bytes:
    """Return water molecules of different widths as extXYZ."""
    return b"".join(WATER.replace(b"0.763", f"{width + step * k:.3f}".encode()) for k in range(n))


def empty_workspace(folder: Path) -> Workspace:
    """Return an empty workspace in a new data directory with a registered catalogue."""
    empty = Workspace(str(uuid.uuid4()), Home(folder))
    sampler = {"sampler": {"warmup": 400, "draws": 1000}}
    methods = {
        "btl_pcp_pe": MethodEntry(
            "BTL-PCP",
            "Samples all layers.",
            duration="a minute",
            cost=Cost(35, 60, "partially centred"),
            settings=sampler,
        ),
        "fine_tune": MethodEntry(
            "Fine-tuning", "Trains all layers.", duration="seconds", cost=Cost(0.5, 1.5)
        ),
    }
    empty.library.register_methods(methods)
    empty.library.register_sources({"demo": SourceEntry("demo molecules", os.devnull)})
    return empty


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace."""
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    return empty_workspace(tmp_path)


@pytest.fixture(scope="session")
def both_worlds(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Owned, Owned]":
    """Alice and Bob in one data directory, which is only copied."""
    from tests.app.worlds import two_worlds

    return two_worlds(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("source"))


@pytest.fixture
def worlds(
    both_worlds: "tuple[Owned, Owned]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "tuple[Owned, Owned]":
    """Alice and Bob in a data directory of the test."""
    home = copied_home(both_worlds[0].workspace, tmp_path / "home", monkeypatch)
    alice, bob = (owned.moved(home) for owned in both_worlds)
    return alice, bob


@pytest.fixture(scope="session")
def filled_world(tmp_path_factory: pytest.TempPathFactory) -> "Owned":
    """A workspace with a data set, a source model, two runs and a prediction; only copied."""
    from tests.app import worlds
    from tests.app.small_runs import train_source

    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    source = train_source(tmp_path_factory.mktemp("source"))
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    return worlds.with_source(worlds.filled(workspace, "waters"), "my source")


@pytest.fixture
def owned(filled_world: "Owned", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Owned":
    """The same in a data directory of the test."""
    return filled_world.moved(copied_home(filled_world.workspace, tmp_path / "home", monkeypatch))


@pytest.fixture(scope="session")
def predicted_waters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str, str]:
    """A workspace, its run on 40 waters, and its prediction of 12 others; only copied."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    dataset = example.add_labelled()
    run, _ = example.add_run(dataset, method="kernel_ridge", source="none", n=40, n_test=20)
    work_all(example.home)
    new = [("new.extxyz", waters(12, width=0.71, step=0.01))]
    job = example.ask_prediction(run, new)
    work_all(example.home)
    assert {job.state for job in example.jobs.jobs(example.id)} == {"finished"}
    return example, run, job.id


@pytest.fixture(scope="session")
def tested_waters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str]:
    """A workspace and its run of a ridge on 36 waters, 24 held out; only copied."""
    from tests.app.small_runs import workspace_with_source

    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled()
    run, _ = example.add_run(dataset, method="last_layer_ridge", n=36, n_test=24)
    work_all(example.home)
    return example, run


def copied_workspace(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """Copy a workspace for a test that may change it."""
    return Workspace(workspace.id, copied_home(workspace, folder / "copy", monkeypatch))


def copied_home(workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Copy the data directory of a workspace for a test that may change it."""
    shutil.copytree(workspace.home.folder, folder)
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    return Home(folder)


@pytest.fixture
def visit(workspace: Workspace) -> Callable[..., AppTest]:
    """Open a page of the workspace as its address would: `visit("train", run=...)`.

    The visitor is the owner of the workspace, if it has one.
    """

    def opened(page: str, /, *, ws: str = "", **choices: str) -> AppTest:
        at = AppTest.from_file(str(MAIN), default_timeout=30)
        library = Library(open_home())
        open_workspace(library, ws or workspace.id)
        if owner := owner_of(library.database, workspace.id):
            at.user = {"is_logged_in": True, "email": owner}
        at.query_params["ws"] = ws or workspace.id
        for key, value in choices.items():
            at.query_params[key] = value
        if page != "home":
            at.switch_page(f"views/{page}.py")
        at.run()
        assert not at.exception
        return at

    return opened


def texts(at: AppTest) -> str:
    """Return all texts of a page as one string."""
    kinds = (at.title, at.subheader, at.markdown, at.caption, at.info, at.warning, at.error)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def labelled(widgets: Iterable[Any], label: str) -> Any:
    """Return the first widget of this label."""
    return next(widget for widget in widgets if widget.label == label)


def primary(at: AppTest) -> list[str]:
    """Return the labels of the primary buttons of a page."""
    return [button.label for button in at.button if button.proto.type == "primary"]


def mark(at: AppTest, table: str, row: int) -> AppTest:
    """Mark a row of a table, as a click on it does."""
    at.session_state[table] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    return at.run()


def drawn_structures(at: AppTest) -> list[dict[str, Any]]:
    """Return the data of every viewer of structures on a page."""
    data = [json.loads(component.proto.json) for component in at.get("bidi_component")]
    return [values for values in data if "elements" in (values or {})]
