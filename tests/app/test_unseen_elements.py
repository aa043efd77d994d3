"""Train and Compare with elements that the source model lacks: message and common test set."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from app.components.train import unseen_elements
from app.components.train.unseen_elements import Unseen, unseen, unseen_sentence
from bandgap.descriptors import PRESETS, DescriptorConfig
from bandgap.descriptors.block_settings import GraphBody
from bandgap.foundation.config import to_dict
from bandgap.jobs.catalogue import register_all
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.worker import work_all
from bandgap.networks.graph_config import GraphConfig
from bandgap.runs.requests import TransferRequest
from bandgap.transfer import METHODS
from tests.app.conftest import WATER, Workspace, texts, waters
from tests.app.test_actions import click
from tests.app.test_train import choose_only, transfers

Visit = Callable[..., AppTest]

SELENIDE = WATER.replace(b"O 0", b"Se 0").replace(b"0.763", b"1.04").replace(b"-0.477", b"-0.9")
SAID = (
    "New to the source model: Se (in 12 structures). Such structures are left out by Ridge output "
    "layer. All runs are tested on the same structures, without new elements."
)


def mixed_waters(workspace: Workspace, *, n: int = 40, n_selenide: int = 12) -> str:
    """Store labelled water and hydrogen selenide molecules; return the data set's id."""
    text = waters(n)
    text += b"".join(
        SELENIDE.replace(b"1.04", f"{1.00 + 0.004 * k:.3f}".encode()) for k in range(n_selenide)
    )
    dataset = workspace.add_checked([("mixed.extxyz", text)], name="mixed")
    gaps = np.concatenate([np.linspace(5.0, 8.0, n), np.linspace(3.0, 4.0, n_selenide)])
    workspace.give_gaps(dataset, gaps, level="")
    return dataset


def open_form(visit: Visit, *titles: str, **more: str) -> AppTest:
    return choose_only(visit("train", **more), *titles)


def test_runs_of_one_press_have_a_common_test_set_and_can_be_compared(
    visit: Visit, workspace: Workspace
) -> None:
    register_all(str(workspace.home.folder))
    titles = {name: m.title for name, m in workspace.library.methods().items()}
    mixed_waters(workspace)
    at = open_form(visit, titles["feature_gp"], titles["last_layer_ridge"], source="demo")
    assert SAID in texts(at)
    assert not at.error and "19 are learned from, 21 held out" in texts(at)
    at.number_input[0].set_value(18).run()
    assert not at.error
    click(at, "Start 2 trainings")
    payloads = {job.payload["request"]["method"]: job.payload for job in transfers(workspace)}
    assert [
        payloads[name]["request"]["test_known"] for name in ("feature_gp", "last_layer_ridge")
    ] == [True, False]
    work_all(workspace.home)
    runs = {name: workspace.home.run_folder(payload["run"]) for name, payload in payloads.items()}
    splits = {name: json.loads((run / "manifest.json").read_text()) for name, run in runs.items()}
    assert splits["feature_gp"]["split"]["test"] == splits["last_layer_ridge"]["split"]["test"]
    assert (
        len(splits["last_layer_ridge"]["left_out"]) == 12 and splits["feature_gp"]["left_out"] == []
    )
    compared = visit("compare")
    text = texts(compared)
    assert "tested on different crystals" not in text and "got other structures or gaps" not in text
    (flag,) = [w.value for w in compared.warning if "left out" in w.value]
    assert "Ridge output layer, 18 of mixed" in flag
    learner = titles["feature_gp"]
    assert f"left out 12 of 52 labelled structures of mixed, {learner}, " in flag
    assert "not every method takes elements that the source model lacks." in flag
    assert "no difference can be taken" not in text
    (settings,) = [table.value for table in compared.dataframe if "setting" in table.value]
    assert "tested on" not in settings["setting"].tolist()


def test_methods_that_take_every_structure_are_tested_on_all(
    visit: Visit, workspace: Workspace
) -> None:
    register_all(str(workspace.home.folder))
    titles = {name: m.title for name, m in workspace.library.methods().items()}
    mixed_waters(workspace)
    at = open_form(visit, titles["fine_tune"], titles["gaussian_process"], source="demo")
    assert "Such structures are left out by no chosen method." in texts(at)
    assert "All runs are tested on the same structures" not in texts(at)
    click(at, "Start 2 trainings")
    assert not any(job.payload["request"]["test_known"] for job in transfers(workspace))


def test_source_that_knows_no_structure_does_not_prevent_the_start(
    visit: Visit, workspace: Workspace
) -> None:
    """Both runs start; the error of the one without usable structures says what to do."""
    register_all(str(workspace.home.folder))
    titles = {name: m.title for name, m in workspace.library.methods().items()}
    mixed_waters(workspace, n=0, n_selenide=30)
    at = open_form(visit, titles["fine_tune"], titles["last_layer_ridge"], source="demo")
    assert "New to the source model: Se (in 30 structures)." in texts(at) and not at.error
    assert "All runs are tested on the same structures" not in texts(at)
    click(at, "Start 2 trainings")
    assert not any(job.payload["request"]["test_known"] for job in transfers(workspace))


def without_hydrogen_selenide(entry: dict[str, Any]) -> tuple[Unseen, dict[str, Any]]:
    """Return what this descriptor lacks for 40 waters and 12 selenides, and three methods."""
    lacking = unseen({("H", "O"): 40, ("H", "Se"): 12}, entry)
    names = ("fine_tune", "last_layer_ridge", "gaussian_process", "bnn")
    entries = {
        name: MethodEntry(
            name, family=METHODS[name].family, new_elements=METHODS[name].new_elements
        )
        for name in names
    }
    return lacking, entries


def test_source_of_a_graph_network_leaves_out_structures_with_new_elements() -> None:
    """Its descriptor cannot be extended, so only methods without transfer take the structures."""
    body = GraphBody(GraphConfig(("H", "O")), "0" * 16)
    lacking, methods = without_hydrogen_selenide(to_dict(DescriptorConfig(graph=body)))
    assert (dict(lacking.elements), lacking.structures, lacking.n_known) == ({"Se": 12}, 12, 40)
    assert unseen_sentence(lacking, methods, methods) == (
        "New to the source model: Se (in 12 structures). Such structures are left out by "
        "fine_tune, last_layer_ridge. All runs are tested on the same structures, without new "
        "elements."
    )
    runs = [TransferRequest(method=name, n=36, n_test=16) for name in methods]
    assert [run.test_known for run in unseen_elements.tested_alike(runs, lacking, methods)] == [
        False,
        False,
        True,
        True,
    ]


def test_descriptor_without_terms_lacks_what_its_parts_do_not_know() -> None:
    light, _ = without_hydrogen_selenide(to_dict(PRESETS["any-elements"]))
    assert light.structures == 0 and light.n_known == 52
    heavy = unseen({("Og",): 2, ("Pb", "I"): 3}, to_dict(PRESETS["chgnet"]))
    assert (dict(heavy.elements), heavy.n_known, heavy.grows) == ({"Og": 2}, 3, False)


def test_message_is_absent_when_the_source_model_has_every_element(
    visit: Visit, workspace: Workspace
) -> None:
    register_all(str(workspace.home.folder))
    workspace.add_labelled()
    at = visit("train", source="demo")
    assert "New to the source model" not in texts(at)
    at = visit("train", source="none")
    assert "New to the source model" not in texts(at)
