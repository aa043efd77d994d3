"""Actions of a visitor: demo data, upload, labels, start, cancel; other workspaces stay empty."""

import uuid
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import BROKEN, WATER, Workspace, labelled, texts

Visit = Callable[..., AppTest]


def click(at: AppTest, label: str) -> AppTest:
    return labelled(at.button, label).click().run()


def open_gaps(at: AppTest) -> AppTest:
    """Open the section Known gaps of the page Data, as a click on it does."""
    at.session_state[f"gaps-{at.session_state['chosen_data']}"] = True
    at.run()
    assert not at.exception
    return at


def upload(at: AppTest, label: str, files: list[tuple[str, bytes, str]]) -> None:
    labelled(at.file_uploader, label).set_value(files)


def test_table_of_gaps_that_is_uploaded_with_the_structures_gives_them_their_gaps(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("data")
    table = b"file,gap_eV,level_of_theory\nwater.xyz,7.1,PBE\nice.xyz,6.2,PBE\n"
    upload(at, "Structure files", [("water.xyz", WATER, ""), ("gaps.csv", table, "")])
    click(at, "Check the files")
    work_all(workspace.home)
    at.run()
    assert "**1 structure**: 1 ready; 1 have a gap and can be learned from." in texts(at)
    (dataset,) = workspace.library.datasets(workspace.id)
    assert [file.name for file in workspace.library.files(dataset.id)] == ["water.xyz"]
    open_gaps(at)
    assert "Known gaps: **1 gap from gaps.csv**, PBE." in texts(at)
    assert "**Rows of the table without a structure** (1)" in texts(at)


def test_table_of_gaps_that_cannot_be_read_is_refused_with_the_way_to_name_its_unit(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("data")
    files = [("water.xyz", WATER, ""), ("gaps.csv", b"file,gap\nwater.xyz,7.1\n", "")]
    upload(at, "Structure files", files)
    click(at, "Check the files")
    (problem,) = [error.value for error in at.error]
    assert "gaps.csv: the header 'gap' states no unit" in problem
    assert "add it afterwards under Known gaps" in problem
    assert workspace.jobs.jobs(workspace.id) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["water.xyz", "gaps.csv", "more.csv"], "2 tables of gaps (gaps.csv, more.csv)"),
        (["gaps.csv"], "gaps.csv: no structures, and a table of gaps needs them"),
    ],
    ids=["two tables", "no structures"],
)
def test_tables_of_gaps_are_refused_by_name(
    visit: Visit, workspace: Workspace, files: list[str], message: str
) -> None:
    at = visit("data")
    table = b"file,gap_eV\nwater.xyz,7.1\n"
    contents = [(name, WATER if name == "water.xyz" else table, "") for name in files]
    upload(at, "Structure files", contents)
    click(at, "Check the files")
    assert message in at.error[0].value
    assert workspace.jobs.jobs(workspace.id) == []


def test_upload_becomes_a_data_set_and_one_job(visit: Visit, workspace: Workspace) -> None:
    at = visit("data")
    upload(at, "Structure files", [("water.xyz", WATER, ""), ("../=broken.cif", BROKEN, "")])
    click(at, "Check the files")
    (job,) = workspace.jobs.jobs(workspace.id)
    assert (job.kind, job.state) == ("check", "queued")
    assert at.query_params["data"] == job.subject
    work_all(workspace.home)
    at.run()
    assert "**2 structures**: 1 ready, 1 refused" in texts(at)


def test_upload_without_files_lists_accepted_formats(visit: Visit, workspace: Workspace) -> None:
    at = click(visit("data"), "Check the files")
    assert at.error[0].value.startswith("No file was chosen. Accepted: CIF, POSCAR/CONTCAR")
    assert workspace.jobs.jobs(workspace.id) == []


def test_demo_data_requested_twice_are_imported_once(visit: Visit, workspace: Workspace) -> None:
    click(visit("data"), "Use the demo data")
    click(visit("data", ws=workspace.id), "Cancel")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]


def test_labels_from_a_table_are_matched_and_unmatched_rows_shown(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked([("water.xyz", WATER), ("broken.cif", BROKEN)])
    at = visit("data")
    open_gaps(at)
    upload(
        at,
        "Table of gaps (CSV)",
        [("gaps.csv", b"file,gap_Ha\nwater.xyz,0.25\nother.cif,0.1\n", "text/csv")],
    )
    click(at, "Match the gaps")
    assert [v.gap_eV for v in workspace.library.verdicts(dataset)] == [0.25 * 27.211386245988, None]
    assert "**Rows of the table without a structure** (1): other.cif" in texts(at)
    assert "**Structures without a row in the table** (1): broken" in texts(at)


def test_labels_without_a_unit_are_refused_with_a_message(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_checked([("water.xyz", WATER)])
    at = visit("data")
    open_gaps(at)
    upload(at, "Table of gaps (CSV)", [("gaps.csv", b"id,gap\nwater,7\n", "text/csv")])
    click(at, "Match the gaps")
    assert "states no unit, and a unit is never guessed" in at.error[0].value
    # outside the form, so that the choice of another file runs the page without the old error
    (chooser,) = [u for u in at.file_uploader if u.label == "Table of gaps (CSV)"]
    assert chooser.proto.form_id == ""
    chooser.set_value([("other.csv", b"id,gap_eV\nwater,7\n", "text/csv")]).run()
    assert not at.error
    click(at, "Match the gaps")
    assert "1 structure of 1 got a gap" in texts(at)


def test_labels_from_the_structure_files_take_the_chosen_unit(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked([("water.extxyz", WATER)])
    at = visit("data")
    open_gaps(at)
    labelled(at.selectbox, "New gaps from").set_value("gap").run()
    labelled(at.selectbox, "Unit of the gap column").set_value("eV")
    click(at, "Use as gaps")
    assert workspace.library.verdicts(dataset)[0].gap_eV == 7.1


def test_start_with_too_few_structures_shows_an_error(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    at = visit("train")
    at.number_input[0].set_value(42)
    labelled(at.slider, "Held out for the test").set_value(50).run()
    assert (
        at.error[0].value
        == "42 to learn from and 30 held out are more than the 60 labelled structures. Lower one "
        "of the two."
    )
    assert labelled(at.button, "Start training").disabled
    assert workspace.jobs.jobs(workspace.id, kinds=["transfer"]) == []


def test_address_of_another_workspaces_run_warns_once_and_is_cleared(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_labelled()
    run, _ = workspace.add_run(dataset)
    for page in ("home", "train", "result"):
        at = visit(page, ws=str(uuid.uuid4()), run=run, data=dataset)
        at.run()  # a session writes no address in its first run
        assert "run" not in at.query_params and "data" not in at.query_params
        assert "btl" not in texts(at) and "waters" not in texts(at)
    at = visit("home", ws=str(uuid.uuid4()), run=run, data=dataset)
    assert (
        "This workspace does not contain the run and the data set that the address names."
        in texts(at)
    )
    assert "that the address names" not in texts(at.run())
    assert "that the address names" not in texts(visit("train", run=run, data=dataset))
