"""The page Data: read calculations, see their gaps, and make a labelled data set of them."""

import io
import zipfile
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.home import calculation_paths
from bandgap.jobs.rows import Verdict
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, labelled, texts
from tests.app.test_actions import click, open_gaps, upload
from tests.unit.calculations.espresso_text import espresso
from tests.unit.calculations.vasprun_text import vasprun

Visit = Callable[..., AppTest]


def zipped(**texts_by_name: str) -> bytes:
    """Return a zip archive of a `vasprun.xml` in a folder of each name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in texts_by_name.items():
            archive.writestr(f"{name}/vasprun.xml", text)
    return content.getvalue()


METAL = vasprun([[[-1.0, 0.0, -0.5, 2.0]] * 2], settings={"NELECT": 3, "METAGGA": "SCAN"})
ARCHIVE = zipped(salt=vasprun(), metal=METAL, broken=vasprun()[:900])


def open_form(at: AppTest) -> AppTest:
    """Open the expander of the form."""
    at.session_state["read-calculations"] = True
    return at.run()


def read(at: AppTest, workspace: Workspace, files: list[tuple[str, bytes, str]]) -> AppTest:
    """Upload outputs, let a worker read them, and draw the page again."""
    if not any(uploader.label == "Outputs of calculations" for uploader in at.file_uploader):
        open_form(at)
    upload(at, "Outputs of calculations", files)
    click(at, "Read calculations")
    work_all(workspace.home)
    at.run()
    assert not at.exception
    return at


def test_calculations_become_a_labelled_data_set_with_their_level(
    visit: Visit, workspace: Workspace
) -> None:
    files = [("runs.zip", ARCHIVE, ""), ("pw.xml", espresso().encode(), "")]
    at = read(visit("data"), workspace, files)
    table = at.dataframe[0].value.set_index("id")
    assert list(table.index) == ["salt", "metal", "broken", "pw"]
    assert table["gap_eV"].round(4).tolist()[:2] == [1.5, 0.0]
    assert table["gap_eV"].isna().tolist() == [False, False, True, False]
    assert table.loc["salt", "kind"] == "direct"
    assert "ends early" in table.loc["broken", "problem"]
    assert "4 calculations: 2 direct gaps, 0 indirect gaps, 1 metal, 1 without" in texts(at)
    assert "Levels of theory are mixed (PBE, SCAN)" in texts(at)
    click(at, "Make a data set of 3 gaps")
    work_all(workspace.home)
    at.run()
    (dataset,) = workspace.library.datasets(workspace.id)
    assert (dataset.name, dataset.level_of_theory) == ("runs.zip and 1 more file", "PBE; SCAN")
    verdicts = {v.id: v.gap_eV for v in workspace.library.verdicts(dataset.id)}
    assert verdicts == {"salt": 1.5, "metal": 0.0, "pw": pytest.approx(1.5, abs=1e-6)}
    assert workspace.library.datasets(workspace.id, purpose="calculations") == []
    open_gaps(at)
    assert "3 gaps from calculations" in texts(at)
    assert "Calculations with a remark" in texts(at)


def test_gap_of_an_unconverged_calculation_is_kept_on_request(
    visit: Visit, workspace: Workspace
) -> None:
    files = [("vasprun.xml", vasprun(n_steps=60, last_change=0.01).encode(), "")]
    at = read(visit("data"), workspace, files)
    assert "did not converge" in at.dataframe[0].value["problem"].iloc[0]
    assert labelled(at.button, "Make a data set of 0 gaps").disabled
    click(at, "Discard")
    open_form(at).checkbox[0].set_value(True)
    read(at, workspace, files)
    assert at.dataframe[0].value["gap_eV"].tolist() == [1.5]


def test_reading_can_be_discarded_and_data_sets_stay(visit: Visit, workspace: Workspace) -> None:
    workspace.add_checked([("water.xyz", WATER)])
    at = read(visit("data"), workspace, [("runs.zip", ARCHIVE, "")])
    (calculations,) = workspace.library.datasets(workspace.id, purpose="calculations")
    assert calculation_paths(workspace.home, calculations.id)[1].is_file()
    click(at, "Discard")
    assert workspace.library.datasets(workspace.id, purpose="calculations") == []
    assert not calculation_paths(workspace.home, calculations.id)[1].exists()
    assert [d.name for d in workspace.library.datasets(workspace.id)] == ["my set"]


def test_missing_table_of_a_reading_is_named(visit: Visit, workspace: Workspace) -> None:
    at = read(visit("data"), workspace, [("runs.zip", ARCHIVE, "")])
    (calculations,) = workspace.library.datasets(workspace.id, purpose="calculations")
    calculation_paths(workspace.home, calculations.id)[0].write_text("{")
    at.run()
    assert "table of these calculations is missing or damaged" in texts(at)


def test_upload_without_files_says_what_is_accepted(visit: Visit, workspace: Workspace) -> None:
    at = visit("data")
    assert [uploader.label for uploader in at.file_uploader] == ["Structure files"]
    click(open_form(at), "Read calculations")
    assert at.error[0].value.startswith("No file was chosen. Accepted: vasprun.xml of VASP")


def test_data_set_whose_labelling_was_stopped_can_be_checked_again(
    visit: Visit, workspace: Workspace
) -> None:
    content = WATER.replace(b"gap=", b"gap_eV=")
    dataset = workspace.library.add_dataset(workspace.id, "batch", files=[("c.extxyz", content)])
    job = workspace.jobs.submit(
        workspace.id,
        "label_calculations",
        title="Checking batch",
        payload={"dataset": dataset.id, "level_of_theory": "PBE"},
        subject=dataset.id,
    )
    workspace.jobs.request_cancel(workspace.id, job.id)
    verdict = Verdict("c", "c.extxyz", "ready", "", "H2O", 3, False, None, {"gap_eV": 7.1})
    workspace.library.save_verdicts(dataset.id, [verdict])  # written before it was stopped
    click(visit("data"), "Check the files again")
    work_all(workspace.home)
    assert workspace.library.counts(dataset.id)["labelled"] == 1
