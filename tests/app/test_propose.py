"""Propose: the form, the job, the list with formulas and a molecule in 3D, and damaged files."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from ase.io import write
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

from app.components.shared.stores import is_organic
from bandgap.datasets.demo import demo_source_folder
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.proposals import TABLE, load_proposals, proposal_folder
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, texts
from tests.app.test_method_choice import frame

Visit = Callable[..., AppTest]


def test_workspace_without_a_run_is_sent_to_train(visit: Visit, workspace: Workspace) -> None:
    assert "This page needs a finished run." in texts(visit("propose"))


def finished_run(workspace: Workspace, *, metal: str = "C") -> str:
    """Store a run without results on labelled molecules, and return its id."""
    molecules = "".join(frame(metal=metal, spacing=1.0 + 0.01 * k) for k in range(20)).encode()
    dataset = workspace.add_checked([("molecules.extxyz", molecules)], name="molecules")
    workspace.give_gaps(dataset, np.linspace(1.0, 3.0, 20))
    run, job = workspace.add_run(dataset, method="last_layer_ridge")
    workspace.jobs.claim("a worker", lanes=["long"])
    workspace.jobs.end(job.id, "finished")
    return run


def propose_button(at: AppTest) -> Button:
    (button,) = [button for button in at.button if button.label == "Propose"]
    return button


def test_run_on_structures_that_are_not_organic_proposes_no_molecules(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("propose", run=finished_run(workspace, metal="Pb"))
    assert "not organic" in at.info[0].value
    assert "Propose" not in [button.label for button in at.button]
    assert not any(map(is_organic, workspace.library.datasets(workspace.id)))
    finished_run(workspace)
    assert any(map(is_organic, workspace.library.datasets(workspace.id)))


def test_grey_button_says_that_the_window_is_missing(visit: Visit, workspace: Workspace) -> None:
    at = visit("propose", run=finished_run(workspace))
    reason = "Fill in both ends of the target window first"
    assert propose_button(at).disabled
    assert reason in texts(at)
    at.number_input(key="window-from").set_value(2.0).run()
    at.number_input(key="window-to").set_value(1.5).run()
    assert propose_button(at).disabled
    assert reason in texts(at)
    at.number_input(key="window-from").set_value(1.0).run()
    assert not propose_button(at).disabled
    assert reason not in texts(at)


def test_missing_list_is_an_error_with_what_to_do(workspace: Workspace) -> None:
    run = job = "0" * 8
    with pytest.raises(ArtifactError, match="Propose again"):
        load_proposals(workspace.home, run, job)
    assert proposal_folder(workspace.home, run, job).parts[-4:] == ("runs", run, "proposals", job)


@pytest.mark.slow
def test_molecules_are_proposed_listed_and_drawn(visit: Visit, workspace: Workspace) -> None:
    from bandgap.proposals.chemistry import embedded_atoms

    text = io.StringIO()
    frames = []
    for ring in ("c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "c1cc[nH]c1", "c1cnccn1"):
        for end in ("C", "O", "F", "N#C", "CC", "CO"):
            atoms = embedded_atoms(f"{end}{ring}", seed=1)
            assert atoms is not None
            atoms.info = {"gap_eV": 5.0 - 0.1 * len(atoms)}
            frames.append(atoms)
    write(text, frames, format="extxyz")
    workspace.library.register_sources(
        {"demo": SourceEntry("demo molecules", str(demo_source_folder()))}
    )
    dataset = workspace.add_checked([("rings.extxyz", text.getvalue().encode())], name="rings")
    workspace.give_gaps(dataset, [atoms.info["gap_eV"] for atoms in frames])
    run, _ = workspace.add_run(dataset, method="last_layer_ridge", n=25, n_test=10)
    work_all(workspace.home)
    at = visit("propose", run=run)
    assert propose_button(at).disabled
    at.number_input(key="window-from").set_value(3.4).run()
    at.number_input(key="window-to").set_value(3.8).run()
    at.selectbox(key=f"propose-data-{run}").set_value(dataset).run()
    for box in at.number_input:
        if box.label == "Molecules to generate":
            box.set_value(60).run()
    propose_button(at).click().run()
    assert not at.exception
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["propose"])
    assert job.payload["window"] == "3.4:3.8"
    assert job.payload["generated"] == 60
    work_all(workspace.home)
    job = workspace.jobs.job(workspace.id, job.id) or job
    assert job.state == "finished", job.error
    at = visit("propose", run=run)
    page_text = texts(at)
    assert "new molecules** and" in page_text
    assert "The crystal packing is unknown" in page_text
    table = at.dataframe[0].value
    assert len(table) == job.result["n"]
    assert table["picture"].str.startswith("data:image/svg+xml;base64,").all()
    path = proposal_folder(workspace.home, run, job.id) / TABLE
    path.write_text(path.read_text(encoding="utf-8").rsplit("\n", 2)[0], encoding="utf-8")
    assert "cannot be read" in texts(visit("propose", run=run))
