"""The table of runs on the page Compare: figures, differences, names and notes."""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.components.compare.run_table import comparison
from app.components.shared.run_files import stored_run
from bandgap.evaluation.run_tables import differences
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.refitting import start_refit
from bandgap.jobs.run_notes import run_notes, set_run_note
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_workspace
from tests.app.small_runs import workspace_with_source

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, list[str]]:
    """A workspace with three runs, and their ids, the newest first."""
    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled(60)
    runs = [
        example.add_run(dataset, method="last_layer_ridge", n=n, n_test=20)[0] for n in (20, 30, 40)
    ]
    work_all(example.home)
    return example, runs[::-1]


@pytest.fixture
def workspace(
    trained: tuple[Workspace, list[str]], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace that a test may change."""
    return copied_workspace(trained[0], tmp_path, monkeypatch)


@pytest.fixture
def runs(trained: tuple[Workspace, list[str]]) -> list[str]:
    return trained[1]


def edit(at: AppTest, cells: dict[int, dict[str, Any]]) -> AppTest:
    """Run the page after the browser sent all edits of the table since it was drawn."""
    (editor,) = at.data_editor
    at.session_state[editor.key] = {"edited_rows": cells, "added_rows": [], "deleted_rows": []}
    return at.run()


def test_table_has_the_figures_of_every_finished_run_and_its_difference_to_the_oldest(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = visit("compare")
    table = at.data_editor[0].value
    assert table.index.tolist() == runs
    assert table["n"].tolist() == [40, 30, 20]
    assert table["run"].tolist() == [f"last_layer_ridge, n = {n}" for n in (40, 30, 20)]
    assert table[["rmse_eV", "coverage"]].notna().all(axis=None)
    assert (table["coverage"] > 1.5).any()  # in percent
    assert table["difference"].str.contains(" to ").tolist() == [True, True, False]
    at.selectbox[0].set_value(runs[1]).run()
    differences = at.data_editor[0].value["difference"]
    assert differences.str.contains(" to ").tolist() == [True, False, True]
    assert at.query_params["runs"] == runs[1]


def test_csv_has_ids_seeds_and_all_figures_of_the_runs_that_can_be_read(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    table = visit("compare").data_editor[0].value
    rows = {run.id: run for run in workspace.library.runs(workspace.id)}
    read = [stored_run(rows[i], table.loc[i, "run"], data="waters") for i in (runs[0], runs[2])]
    csv = comparison(table, rows, read, differences(read, read[1])).set_index("id")
    assert csv.index.tolist() == runs and csv["seed"].tolist() == [0] * 3
    assert csv["method"].eq("last_layer_ridge").all() and csv["n"].tolist() == [40, 30, 20]
    names = ["rmse_eV", "mae_eV", "r2", "crps_eV", "coverage_95", "width_95_eV", "time_s"]
    assert csv.loc[[runs[0], runs[2]], names].notna().all(axis=None)
    assert csv.loc[runs[1], names].isna().all()
    difference = csv["difference_to_baseline_difference_eV"]
    assert difference.notna().tolist() == [True, False, False]


def test_name_and_note_of_the_table_are_stored_with_the_run(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {2: {"note": "for  the paper", "run": "smallest"}})
    assert run_notes(workspace.library, workspace.id) == {runs[2]: "for the paper"}
    assert "smallest" in at.selectbox[0].options
    row = visit("compare").data_editor[0].value.loc[runs[2]]  # a new session
    assert (row["run"], row["note"]) == ("smallest", "for the paper")
    at = edit(visit("compare"), {2: {"note": None}})  # cleared
    assert not at.exception and run_notes(workspace.library, workspace.id)[runs[2]] == ""


def test_edit_is_stored_once_and_does_not_undo_what_another_window_wrote(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"note": "mine"}})
    set_run_note(workspace.library, workspace.id, runs[0], "theirs")
    edit(at, {1: {"note": "second"}})
    notes = run_notes(workspace.library, workspace.id)
    assert (notes[runs[0]], notes[runs[1]]) == ("theirs", "second")


def test_note_over_the_limit_says_so_and_the_page_goes_on(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"note": "x" * 501}})
    assert "has 501 characters. Accepted: at most 500." in at.error[0].value
    assert run_notes(workspace.library, workspace.id) == {} and at.data_editor


def test_refit_is_left_out_as_its_error_is_that_of_its_parent(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    run = workspace.library.run(workspace.id, runs[0])
    assert run is not None
    start_refit(workspace.jobs, workspace.library, run)
    work_all(workspace.home)
    assert len(workspace.library.runs(workspace.id)) == 4
    assert visit("compare").data_editor[0].value.index.tolist() == runs


def test_note_is_deleted_with_its_run_and_is_of_its_workspace_alone(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    set_run_note(workspace.library, workspace.id, runs[0], "mine")
    run = workspace.library.run(workspace.id, runs[0])
    assert run is not None
    delete_run(workspace.jobs, workspace.library, run)
    assert run_notes(workspace.library, workspace.id) == {}
    stranger = "00000000-0000-4000-8000-000000000000"
    assert not visit("compare", ws=stranger, runs=",".join(runs)).data_editor
