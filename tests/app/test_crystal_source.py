"""Source models of crystals on the pages, and target crystals with other elements."""

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
from bandgap.jobs.worker import work_all
from bandgap.transfer import METHODS
from tests.app.conftest import MAIN, Workspace, empty_workspace, labelled, texts
from tests.app.small_runs import train_source
from tests.app.test_actions import click
from tests.unit.jobs.payloads import source_payload

Visit = Callable[..., AppTest]
SHORT = {"warmup": 20, "draws": 40, "keep": 40, "chains": 2}
N = 60
RUNS: dict[str, dict[str, Any]] = {
    "btl_pcp_pe": {"sampler": SHORT},
    "last_layer_ridge": {},
    "fine_tune": {"training": {"max_epochs": 5}},
    "target_only": {"training": {"max_epochs": 5}},
}
# A table of the numbers of a structure, and settings for the molecules inside hybrid crystals.
OF_ANY_STRUCTURE = (
    'alt: "Numbers of this structure"',
    'label: "Electron levels"',
    "research%2Fmolecules",  # a document of the Guide
)
# The page Propose is about molecules, whatever the source.
PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py") if path.stem != "propose")


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


def add_perovskites(workspace: Workspace, n_rubidium: int = 0) -> str:
    """Store a labelled data set of cesium lead iodides and some of rubidium; return its id."""
    text = perovskites(N) + perovskites(n_rubidium, "Rb")
    dataset = workspace.add_checked([("perovskites.extxyz", text)], name="perovskites")
    workspace.give_gaps(dataset, np.linspace(1.2, 2.4, N + n_rubidium), level="HSE06")
    return dataset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A source model of crystals, runs of several methods from it, and a prediction."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    register_methods(example.library)
    example.library.register_sources({"demo": SourceEntry("the shipped one", os.devnull)})
    dataset = add_perovskites(example)
    source = str(uuid.uuid4())
    numbers = {"hidden": [6, 4], "max_epochs": 4, "seed": 0, "device": "cpu", "licence": ""}
    payload = source_payload(source=source, name="iodides", dataset=dataset, **numbers)
    example.jobs.submit(example.id, "train_source", title="t", payload=payload, subject=source)
    for method, settings in RUNS.items():
        example.add_run(
            dataset, method=method, settings=settings, source=source, conformal_share=0.5
        )
    work_all(example.home)
    run = example.library.runs(example.id)[-1].id
    example.ask_prediction(run, [("new.extxyz", perovskites(3))])
    work_all(example.home)
    assert {job.state for job in example.jobs.jobs(example.id)} == {"finished"}
    return example


@pytest.fixture
def workspace(trained: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(trained.home.folder))
    return trained


def everything(at: AppTest) -> Iterator[str]:
    """Yield every text that a page sends to the browser, with help texts, headers and figures."""
    blocks = [at.main, at.sidebar]
    while blocks:
        block = blocks.pop()
        for child in block.children.values():
            if hasattr(child, "children"):
                blocks.append(child)
            yield str(child.proto)


def texts_on_molecules(at: AppTest) -> list[str]:
    """Return the texts that mention molecules, except those on the molecules in a crystal."""
    mentions = [text for text in everything(at) if "molecul" in text.lower()]
    return [text for text in mentions if not any(name in text for name in OF_ANY_STRUCTURE)]


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_a_source_of_crystals_do_not_mention_molecules(
    visit: Visit, workspace: Workspace, name: str
) -> None:
    runs = {run.method: run.id for run in workspace.library.runs(workspace.id)}
    source = workspace.library.runs(workspace.id)[0].source
    assert set(runs) == set(RUNS)
    # What the page Result shows differs between the kinds of methods.
    page_texts = RUNS if name == "result" else ["btl_pcp_pe"]
    for method in page_texts:
        at = visit(name, run=runs[method], source=source)
        assert len(list(everything(at))) > 10
        assert texts_on_molecules(at) == []


def test_molecules_are_called_molecules(visit: Visit, workspace: Workspace) -> None:
    """The scan finds the word in the numbers of a molecule."""
    other = Workspace(str(uuid.uuid4()), workspace.home)
    other.add_labelled(3)
    assert texts_on_molecules(visit("data", ws=other.id))


def test_source_of_crystals_shows_its_error_on_structures(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("sources", source=workspace.library.runs(workspace.id)[0].source)
    card = [str(element.value) for element in at.markdown if "held-out" in str(element.value)]
    assert len(card) == 1 and card[0].startswith("**Error on held-out structures**")
    assert json.loads(at.get("plotly_chart")[0].proto.spec)["data"]


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace of lead iodides whose only source model knows hydrogen and oxygen."""
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    example = empty_workspace(tmp_path)
    register_methods(example.library)
    example.library.register_sources(
        {"demo": SourceEntry("demo", str(train_source(tmp_path / "source")))}
    )
    add_perovskites(example)
    return example


def choose_method(at: AppTest, name: str, *, title: str) -> AppTest:
    at.checkbox(key="method-feature_gp").uncheck().run()
    assert title in at.multiselect[0].options
    return at.multiselect[0].set_value([name]).run()


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
    assert labelled(at.selectbox, "Source model").value == "demo"
    click(at, "Start training")
    work_all(foreign.home)
    (job,) = foreign.jobs.jobs(foreign.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    at = visit("result", ws=foreign.id, run=job.subject, tab="details")
    assert any(
        "The source model has no Cs, I, Pb. This method does without one" in box.value
        for box in at.warning
    )
    assert "The source model" not in [fold.label for fold in at.expander]
    assert "left out" not in texts(at)


def test_elements_that_no_source_has_are_cured_on_the_page_that_the_error_names(
    visit: Visit, foreign: Workspace
) -> None:
    click(choose_ridge(visit("train", ws=foreign.id, source="demo")), "Start training")
    work_all(foreign.home)
    (error,) = visit("train", ws=foreign.id).error
    assert (
        "contains I, Cs, Pb, which the descriptor was not set up for; accepted: H O." in error.value
    )
    assert '"No source model"' in error.value and "page Source models" in error.value

    at = visit("sources", ws=foreign.id)
    box = at.selectbox(key="source-preset")
    # The initial selection of the form is the proposed one.
    assert f'"{box.options[0]}"' in error.value and box.value == ""
    labelled(at.number_input, "Epochs at most").set_value(5).run()
    click(at, "Train the source model")
    work_all(foreign.home)
    at = visit("train", ws=foreign.id, source=at.query_params["source"])
    assert at.selectbox[1].options[1] == "trained on perovskites"
    click(choose_ridge(at), "Start training")
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
        "Three methods without transfer, weighted"
    ]
    offered = {name.removesuffix(" (research)") for name in at.multiselect[0].options} | {*ticked}
    assert offered == {method.title for method in METHODS.values() if not method.transfers}
    click(at, "Start training")
    work_all(foreign.home)
    (job,) = foreign.jobs.jobs(foreign.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    at = visit("result", ws=foreign.id, run=job.subject, tab="details")
    assert "The source model" not in [fold.label for fold in at.expander]
    at = visit("result", ws=foreign.id, run=job.subject, tab="layers")
    assert "Who carries the answer: " in texts(at)
    assert texts_on_molecules(at) == []
    assert not visit("train", ws=foreign.id, run=job.subject).exception
    at = visit("result", ws=foreign.id, run=job.subject, tab="details")
    assert any("--source none" in block.value for block in at.code)


def test_structures_of_foreign_elements_are_counted_and_named(
    visit: Visit, workspace: Workspace
) -> None:
    source = workspace.library.runs(workspace.id)[0].source
    dataset = add_perovskites(workspace, n_rubidium=6)
    run, _ = workspace.add_run(dataset, method="last_layer_ridge", source=source)
    work_all(workspace.home)
    sentence = (
        "6 of 66 labelled structures were left out: Rb_00, Rb_01, Rb_02, Rb_03 and 2 more. The "
        "source model has no Rb (in 6)."
    )
    (warning,) = (
        box.value.replace("\\", "")
        for box in visit("result", run=run).warning
        if "left out" in box.value
    )
    assert warning.startswith(sentence) and "page Source models" in warning
    run_on_all = workspace.library.runs(workspace.id)[-1].id
    assert "left out" not in texts(visit("result", run=run_on_all))
