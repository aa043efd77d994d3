"""Crystals of other elements on the pages: their own source, what is said where there is none, and who is left out."""

import io
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from ase import Atoms
from streamlit.testing.v1 import AppTest

from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.housekeeping import delete_dataset
from bandgap.jobs.worker import work_all
from bandgap.transfer import METHODS
from tests.app.conftest import MAIN, Workspace, empty_workspace, texts
from tests.app.test_actions import click
from tests.app.test_finished_run import train_source
from tests.app.test_predict_and_posterior import alts
from tests.unit.jobs.payloads import source_payload

Visit = Callable[..., AppTest]
SHORT = {"warmup": 20, "draws": 40, "keep": 40, "chains": 2}
N = 60
RUNS: dict[str, dict[str, Any]] = {
    "btl_pcp_pe": {"sampler": SHORT},
    "last_layer_ridge": {},
    "fine_tune": {},
    "target_only": {},
}
PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py"))


def perovskite(edge: float, cation: str = "Cs") -> Atoms:
    """Return cubic CsPbI3, or that of another cation, with this edge of the cell in angstrom."""
    sites = [(0.5, 0.5, 0.5), (0, 0, 0), (0.5, 0, 0), (0, 0.5, 0), (0, 0, 0.5)]
    return Atoms([cation, "Pb", "I", "I", "I"], scaled_positions=sites, cell=[edge] * 3, pbc=True)


def perovskites(n: int, cation: str = "Cs", *, step: float = 0.01) -> bytes:
    """Return crystals of different sizes as one extXYZ file."""
    text = io.StringIO()
    for k in range(n):
        atoms = perovskite(6.1 + step * k, cation)
        atoms.info["id"] = f"{cation}_{k:02d}"
        ase.io.write(text, atoms, format="extxyz")
    return text.getvalue().encode()


def add_perovskites(workspace: Workspace, others: int = 0) -> str:
    """Store a checked and labelled data set of lead iodides of cesium, and of so many of rubidium; return its id."""
    text = perovskites(N) + perovskites(others, "Rb")
    dataset = workspace.add_checked([("perovskites.extxyz", text)], name="perovskites")
    gaps = np.linspace(1.2, 2.4, N + others)
    workspace.library.save_gaps(
        dataset, gaps, labels={"matched": N + others}, level_of_theory="HSE06"
    )
    return dataset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A source that the worker trained on crystals, runs of several kinds from it, and a prediction by the first."""
    made = empty_workspace(tmp_path_factory.mktemp("home"))
    register_methods(made.library)
    made.library.register_sources({"demo": SourceEntry("the shipped one", os.devnull)})
    dataset = add_perovskites(made)
    source = str(uuid.uuid4())
    numbers = {"hidden": [6, 4], "max_epochs": 4, "seed": 0, "device": "cpu", "licence": ""}
    payload = source_payload(source=source, name="iodides", dataset=dataset, **numbers)
    made.jobs.submit(made.id, "train_source", title="t", payload=payload, subject=source)
    for method, settings in RUNS.items():
        made.add_run(dataset, method=method, settings=settings, source=source, conformal_share=0.5)
    work_all(made.home)
    new = made.library.add_dataset(
        made.id, "new", purpose="prediction", files=[("new.extxyz", perovskites(3))]
    )
    run = made.library.runs(made.id)[-1].id
    facts = {"run": run, "dataset": new.id, "name": new.name}
    made.jobs.submit(made.id, "predict", title="Predicting", payload=facts, subject=new.id)
    subject = f"domain-{dataset}-{source}"
    facts = {"dataset": dataset, "source": source}
    made.jobs.submit(made.id, "domain", title="Comparing", payload=facts, subject=subject)
    work_all(made.home)
    assert {job.state for job in made.jobs.jobs(made.id)} == {"finished"}
    return made


@pytest.fixture
def workspace(trained: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(trained.home.folder))
    return trained


def everything(at: AppTest) -> Iterator[str]:
    """Give all that a page sends to the browser, help texts, headers and figures included, piece by piece."""
    blocks = [at.main, at.sidebar]
    while blocks:
        block = blocks.pop()
        for child in block.children.values():
            if hasattr(child, "children"):
                blocks.append(child)
            yield str(child.proto)


def said_of_molecules(at: AppTest) -> list[str]:
    """Return what speaks of molecules, but for the table that counts those of one structure: none, in these."""
    said = [text for text in everything(at) if "molecul" in text.lower()]
    return [text for text in said if 'alt: "Numbers of this structure"' not in text]


@pytest.mark.parametrize("name", PAGES)
def test_no_page_of_a_source_of_crystals_speaks_of_molecules(
    visit: Visit, workspace: Workspace, name: str
) -> None:
    runs = {run.method: run.id for run in workspace.library.runs(workspace.id)}
    source = workspace.library.runs(workspace.id)[0].source
    assert set(runs) == set(RUNS)
    shown = (
        RUNS if name == "posterior" else ["btl_pcp_pe"]
    )  # what a run has there is another page for every kind
    for method in shown:
        at = visit(name, run=runs[method], source=source)
        assert len(list(everything(at))) > 10
        assert said_of_molecules(at) == []


def test_comparison_with_a_source_of_crystals_speaks_of_structures(
    visit: Visit, workspace: Workspace
) -> None:
    source = workspace.library.runs(workspace.id)[0].source
    at = visit("data")
    at.segmented_control(key="data-view").set_value("Applicability").run()
    next(box for box in at.selectbox if box.label == "Source model").set_value(source).run()
    assert any("every element is known to the source" in text for text in everything(at))
    assert said_of_molecules(at) == []


def test_what_is_known_to_be_a_molecule_is_called_so(visit: Visit, workspace: Workspace) -> None:
    """The scan finds the word where it stands: in the summary of a data set of molecules."""
    other = Workspace(str(uuid.uuid4()), workspace.home)
    other.add_labelled(3)
    at = visit("data", ws=other.id)
    at.segmented_control(key="data-view").set_value("Distributions").run()
    assert any("3 molecules" in text for text in said_of_molecules(at))


def test_source_of_crystals_shows_its_error_on_structures(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("sources", source=workspace.library.runs(workspace.id)[0].source)
    card = [str(element.value) for element in at.markdown if "held-out" in str(element.value)]
    assert len(card) == 1 and card[0].startswith("**Error on held-out structures**")
    assert json.loads(at.get("plotly_chart")[0].proto.spec)["data"]


def test_many_rows_of_crystals_are_not_told_of_molecules(
    visit: Visit, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, many = workspace.library.runs(workspace.id)[0].source, 60
    monkeypatch.setattr("app.components.train.many_rows.MANY_ROWS", many)
    n = many + 20
    files = [("many.extxyz", perovskites(n, step=0.0005))]
    dataset = workspace.add_checked(files, name="many perovskites")
    workspace.library.save_gaps(
        dataset, np.linspace(1.2, 2.4, n), labels={"matched": n}, level_of_theory="HSE06"
    )
    at = visit("train", source=source, dataset=dataset)
    next(box for box in at.number_input if box.label == "Labelled structures").set_value(
        many + 1
    ).run()
    assert f"With more than {many} structures to learn from" in texts(at)
    assert said_of_molecules(at) == []
    delete_dataset(
        workspace.library, workspace.id, dataset
    )  # the other tests have this workspace too


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace of lead iodides whose only source model knows hydrogen and oxygen."""
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    made = empty_workspace(tmp_path)
    register_methods(made.library)
    made.library.register_sources(
        {"demo": SourceEntry("demo", str(train_source(tmp_path / "source")))}
    )
    add_perovskites(made)
    return made


def choose_method(at: AppTest, name: str, *, title: str) -> AppTest:
    at.checkbox(key="method-feature_gp").uncheck().run()
    box = at.checkbox(key=f"method-{name}").check()
    assert box.label == title
    return box.run()


def choose_ridge(at: AppTest) -> AppTest:
    return choose_method(at, "last_layer_ridge", title="Ridge output layer")


def test_method_without_transfer_learns_of_elements_that_the_chosen_source_lacks(
    visit: Visit, foreign: Workspace
) -> None:
    at = choose_method(
        visit("train", ws=foreign.id, source="demo"),
        "kernel_ridge",
        title="Kernel ridge, no transfer",
    )
    assert next(box for box in at.selectbox if box.label == "Source model").value == "demo"
    click(at, "Start the transfer")
    work_all(foreign.home)
    (job,) = foreign.jobs.jobs(foreign.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    at = visit("posterior", ws=foreign.id, run=job.subject)
    assert any(
        "The source model has no Cs, I, Pb. This method does without one" in box.value
        for box in at.warning
    )
    assert "none; the run learned from its labelled structures alone" in texts(at).replace("\\", "")
    assert "left out" not in texts(at)


def test_elements_that_no_source_has_are_cured_on_the_page_that_the_error_names(
    visit: Visit, foreign: Workspace
) -> None:
    click(choose_ridge(visit("train", ws=foreign.id, source="demo")), "Start the transfer")
    work_all(foreign.home)
    (error,) = visit("train", ws=foreign.id).error
    assert (
        "contains I, Cs, Pb, which the descriptor was not set up for; accepted: H O." in error.value
    )
    assert '"No source model"' in error.value and "page Source models" in error.value

    at = visit("sources", ws=foreign.id)
    box = at.selectbox(key="preset-own")
    assert (
        f'"{box.options[0]}"' in error.value and box.value == ""
    )  # what it names is what the form begins with
    at.number_input(key="epochs-own").set_value(5).run()
    click(at, "Train the source model")
    work_all(foreign.home)
    at = visit("train", ws=foreign.id, source=at.query_params["source"])
    assert at.selectbox[1].options[1] == "trained on perovskites"
    click(choose_ridge(at), "Start the transfer")
    work_all(foreign.home)
    assert [job.state for job in foreign.jobs.jobs(foreign.id, kinds=["transfer"])] == [
        "finished",
        "failed",
    ]


def test_crystals_of_any_elements_are_learned_from_without_a_source(
    visit: Visit, foreign: Workspace
) -> None:
    at = visit("train", ws=foreign.id)
    box = at.selectbox[1]
    assert box.label == "Source model" and box.options[-1] == "No source model"
    assert box.value == "none"
    ticked = {b.label: b.value for b in at.checkbox if str(b.key).startswith("method-")}
    assert [name for name, value in ticked.items() if value] == [
        "Three methods without transfer, weighed"
    ]
    open_ = [b.label for b in at.checkbox if str(b.key).startswith("method-") and not b.disabled]
    assert set(open_) == {method.title for method in METHODS.values() if not method.transfers}
    assert "Kernel ridge, no transfer" in open_ and "Fine-tuning" not in open_
    assert texts(at).count("Needs a source model.") == len(METHODS) - len(open_)
    click(at, "Start the transfer")
    work_all(foreign.home)
    (job,) = foreign.jobs.jobs(foreign.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    at = visit("posterior", ws=foreign.id, run=job.subject)
    assert "none; the run learned from its labelled structures alone" in texts(at).replace("\\", "")
    assert "Which method carries the answer" in texts(
        at
    ) and "Weights of the methods, largest first" in alts(at)
    assert said_of_molecules(at) == []
    assert not visit("train", ws=foreign.id, run=job.subject).exception
    at = visit("about", ws=foreign.id, run=job.subject)
    assert any("--source none" in block.value for block in at.code)


def test_structures_of_foreign_elements_are_counted_and_named(
    visit: Visit, workspace: Workspace
) -> None:
    source = workspace.library.runs(workspace.id)[0].source
    dataset = add_perovskites(workspace, others=6)
    run, _ = workspace.add_run(dataset, method="last_layer_ridge", source=source)
    work_all(workspace.home)
    said = (
        "6 of 66 labelled structures were left out: Rb_00, Rb_01, Rb_02, Rb_03 and 2 more. The "
        "source model has no Rb (in 6)."
    )
    for page in ("train", "posterior"):
        (shown,) = (
            box.value.replace("\\", "")
            for box in visit(page, run=run).warning
            if "left out" in box.value
        )
        assert shown.startswith(said) and "page Source models" in shown
    whole = workspace.library.runs(workspace.id)[-1].id
    assert "left out" not in texts(visit("posterior", run=whole))
