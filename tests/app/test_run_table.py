"""The table of runs on the page Compare: figures, ticks, notes, tags and what is found."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.refitting import start_refit
from bandgap.jobs.run_notes import RunNote, run_notes, set_run_note
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, list[str]]:
    """A workspace with three runs, and their ids, the newest first."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    source = train_source(tmp_path_factory.mktemp("source"))
    example.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
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
    shutil.copytree(trained[0].home.folder, tmp_path / "home")
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "home"))
    return Workspace(trained[0].id, Home(tmp_path / "home"))


@pytest.fixture
def runs(trained: tuple[Workspace, list[str]]) -> list[str]:
    return trained[1]


def edit(at: AppTest, cells: dict[int, dict[str, Any]]) -> AppTest:
    """Run the page after the browser sent all edits of the table since it was drawn."""
    (editor,) = at.data_editor
    at.session_state[editor.key] = {"edited_rows": cells, "added_rows": [], "deleted_rows": []}
    return at.run()


def compared(at: AppTest) -> set[str]:
    """Return the runs in the table of the comparison."""
    tables = [frame.value for frame in at.dataframe if "crps_eV" in frame.value]
    return set(tables[0]["run"]) if tables else set()


def test_table_has_the_figures_of_every_finished_run(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = visit("compare")
    table = at.data_editor[0].value
    assert table.index.tolist() == runs
    assert table["n"].tolist() == [40, 30, 20]
    assert table["run"].tolist() == ["last_layer_ridge"] * 3  # n has a column
    assert table["data"].tolist() == ["waters"] * 3
    assert table[["rmse_eV", "coverage", "width_eV"]].notna().all(axis=None)
    assert (table["coverage"] > 1.5).any()  # in percent
    assert table["time"].str.endswith(" s").all()
    assert table["compare"].all()  # of one data set
    assert len(compared(at)) == 3


def test_csv_of_the_runs_has_ids_seeds_and_tags(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    from app.components.compare.run_table import run_rows

    table = visit("compare").data_editor[0].value
    # A note that is stored after the table was drawn, as that of the last edit.
    set_run_note(workspace.library, workspace.id, runs[0], RunNote("a note", ("final", "waters")))
    run_of_id = {run.id: run for run in workspace.library.runs(workspace.id)}
    rows = run_rows(table, run_of_id, workspace=workspace.id)
    assert rows["id"].tolist() == runs
    assert rows["n_test"].tolist() == [20] * 3 and rows["seed"].tolist() == [0] * 3
    assert rows["coverage_95"].between(0, 1).all() and rows["rmse_eV"].notna().all()
    assert rows["time_s"].between(0, 600).all()
    assert rows["tags"].tolist() == ["final; waters", "", ""]
    assert rows["note"].tolist() == ["a note", "", ""]


def test_ticks_choose_what_is_compared_and_stay_in_the_address(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {1: {"compare": False}})
    assert at.query_params["runs"] == f"{runs[0]},{runs[2]}"
    assert len(compared(at)) == 2
    at = visit("compare", runs=at.query_params["runs"])
    assert at.data_editor[0].value["compare"].tolist() == [True, False, True]


def test_ticks_belong_to_runs_where_the_rows_change(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"compare": False}})
    set_run_note(workspace.library, workspace.id, runs[2], RunNote("smallest"))
    at.text_input(key="runs-find").set_value("small").run()
    assert at.data_editor[0].value.index.tolist() == [runs[2]]
    assert at.query_params["runs"] == f"{runs[1]},{runs[2]}"
    at.text_input(key="runs-find").set_value("").run()
    assert at.data_editor[0].value["compare"].tolist() == [False, True, True]


def test_one_tick_asks_for_another_and_none_stays_none(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"compare": False}, 1: {"compare": False}})
    assert "Tick at least 2 runs." in texts(at)
    at = edit(at, {row: {"compare": False} for row in range(3)})
    at.run()
    assert not at.data_editor[0].value["compare"].any() and not compared(at)


def test_note_and_tags_of_the_table_are_stored_with_the_run(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    edit(visit("compare"), {2: {"note": "for  the paper", "tags": ["paper", "small"]}})
    assert run_notes(workspace.library, workspace.id) == {
        runs[2]: RunNote("for the paper", ("paper", "small"))
    }
    at = visit("compare")  # a new session
    row = at.data_editor[0].value.loc[runs[2]]
    assert row["note"] == "for the paper" and list(row["tags"]) == ["paper", "small"]
    at.text_input(key="runs-find").set_value("PAPER small").run()
    assert at.data_editor[0].value.index.tolist() == [runs[2]]
    at.text_input(key="runs-find").set_value("nothing like it").run()
    assert "No run has all of these words." in texts(at) and not at.data_editor


def test_edit_is_stored_once_and_does_not_undo_what_another_window_wrote(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"note": "mine"}})
    set_run_note(workspace.library, workspace.id, runs[0], RunNote("theirs"))
    edit(at, {0: {"note": "mine"}, 1: {"note": "second"}})
    notes = run_notes(workspace.library, workspace.id)
    assert notes[runs[0]].text == "theirs" and notes[runs[1]].text == "second"


def test_note_over_the_limit_says_so_and_the_page_goes_on(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    at = edit(visit("compare"), {0: {"tags": ["x" * 31]}})
    assert "has 31 characters. Accepted: at most 30." in at.error[0].value
    assert run_notes(workspace.library, workspace.id) == {} and compared(at)


def test_refit_is_listed_without_figures_and_cannot_be_ticked(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    run = workspace.library.run(workspace.id, runs[0])
    assert run is not None
    start_refit(workspace.jobs, workspace.library, run)
    work_all(workspace.home)
    at = visit("compare")
    table = at.data_editor[0].value
    assert table["n"].tolist() == [60, 40, 30, 20] and table["rmse_eV"].isna().tolist()[0]
    key = at.data_editor[0].key
    at = edit(at, {0: {"compare": True}})
    assert "is a refit. Its error is that of its parent" in at.warning[0].value
    assert at.data_editor[0].key != key  # without the tick
    assert not at.data_editor[0].value["compare"].iloc[0] and len(compared(at)) == 3


def test_note_is_deleted_with_its_run_and_is_of_its_workspace_alone(
    visit: Visit, workspace: Workspace, runs: list[str]
) -> None:
    set_run_note(workspace.library, workspace.id, runs[0], RunNote("mine", ("a",)))
    run = workspace.library.run(workspace.id, runs[0])
    assert run is not None
    delete_run(workspace.jobs, workspace.library, run)
    assert run_notes(workspace.library, workspace.id) == {}
    stranger = "00000000-0000-4000-8000-000000000000"
    assert not visit("compare", ws=stranger, runs=",".join(runs)).data_editor


def test_columns_up_to_the_time_fit_beside_the_navigation_at_1280_pixels() -> None:
    from app.components.compare.run_table import _columns

    columns = _columns([])
    names = list(columns)
    widths = [columns[name]["width"] for name in names[: names.index("time") + 1]]
    assert names[:2] == ["compare", "run"] and sum(widths) <= 848 and min(widths) >= 50
