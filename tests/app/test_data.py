"""The page Data: verdicts, structures, gaps, deletion and imports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.shared.tables import verdict_frame
from bandgap.foundation.csv_tables import csv_text
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import numbers_of
from bandgap.jobs.rows import Verdict
from bandgap.jobs.worker import work_all
from tests.app.conftest import (
    BROKEN,
    WATER,
    Workspace,
    drawn_structures,
    labelled,
    mark,
    primary,
    texts,
    waters,
)
from tests.app.test_actions import click, open_gaps, upload

Visit = Callable[..., AppTest]


def visit_gaps(visit: Visit) -> AppTest:
    """Visit the page with its section Known gaps open."""
    return open_gaps(visit("data"))


def use_number(visit: Visit, name: str) -> AppTest:
    """Use a number of the structures' files as their gaps."""
    at = visit_gaps(visit)
    labelled(at.selectbox, "New gaps from").set_value(name).run()
    return click(at, "Use as gaps")


def figures(at: AppTest) -> list[dict[str, Any]]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def labels(at: AppTest) -> list[str]:
    return [button.label for button in at.button]


def test_marked_row_shows_its_structure(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_labelled(3)
    at = visit("data")
    (structure,) = drawn_structures(at)
    assert [element["symbol"] for element in structure["elements"]] == ["H", "O"]
    assert structure["element"].count(0) == 2 and structure["element"].count(1) == 1
    numbers = dict(at.dataframe[1].value.itertuples(index=False))
    assert (
        numbers["formula"] == "H2O"
        and numbers["band gap"] == "5.00 eV"
        and numbers["kind"] == "molecule"
    )
    assert numbers["shortest distance"].endswith("Å (O1 to H2)") and "density" not in numbers
    mark(at, f"verdicts-{dataset}-1", 2)
    assert dict(at.dataframe[1].value.itertuples(index=False))["band gap"] == "8.00 eV"


def test_refused_structure_shows_its_reason_instead(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_checked([("broken.cif", BROKEN), ("water.xyz", WATER)])
    at = visit("data")
    assert drawn_structures(at)
    mark(at, f"verdicts-{dataset}-1", 0)
    assert "Refused: " in texts(at) and not drawn_structures(at)


def test_refused_file_has_no_formula_atoms_or_kind_in_the_csv(workspace: Workspace) -> None:
    dataset = workspace.add_checked([("broken.cif", BROKEN), ("water.xyz", WATER)])
    rows = csv_text(verdict_frame(workspace.library.verdicts(dataset))).splitlines()
    assert rows[0] == "id,file,status,gap_eV,problem,formula,n_atoms,periodic"
    assert rows[1].startswith("broken,broken.cif,refused,") and rows[1].endswith(",,")
    assert rows[2] == "water,water.xyz,ready,,,H2O,3,molecule"


def test_files_of_the_same_name_in_two_folders_give_two_ids(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_checked([("a/water.xyz", WATER), ("b/water.xyz", WATER)])
    table = visit("data").dataframe[0].value
    assert sorted(table["id"]) == ["water", "water-2"]
    assert "this structure is called water-2" in table.set_index("id").loc["water-2", "problem"]


def test_filter_and_search_choose_rows(visit: Visit, workspace: Workspace) -> None:
    workspace.add_checked([("broken.cif", BROKEN), ("water.xyz", WATER)])
    at = visit("data")
    at.segmented_control[0].set_value("refused").run()
    assert list(at.dataframe[0].value["file"]) == ["broken.cif"]
    at.text_input(key="verdict-search").set_value("water").run()
    assert "No structure fits." in texts(at)


def test_large_data_set_is_shown_in_pages(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.library.add_dataset(workspace.id, "many")
    ready = [Verdict(f"s{k}", "f.xyz", "ready", "", "CH4", 5, False, None, {}) for k in range(450)]
    workspace.library.save_verdicts(dataset.id, ready)
    at = visit("data")
    assert len(at.dataframe[0].value) == 200
    at.session_state[f"page-{dataset.id}"] = 3
    at.run()
    assert at.dataframe[0].value["id"].iloc[0] == "s400" and len(at.dataframe[0].value) == 50
    at.text_input(key="verdict-search").set_value("s").run()  # a filter starts on its first page
    assert at.dataframe[0].value["id"].iloc[0] == "s0"


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_viewer_without_its_file_shows_what_is_safe_and_rebuilds_it(
    visit: Visit, workspace: Workspace, damage: str
) -> None:
    dataset = workspace.add_labelled(2)
    path = shapes_path(workspace.home, dataset)
    path.unlink() if damage == "missing" else path.write_bytes(b"\x00 damaged")
    at = visit("data")
    assert "cannot be read. Verdicts and gaps are safe." in texts(at) and not drawn_structures(at)
    assert ("picture" in at.dataframe[0].value) == (damage == "corrupt")
    click(at, "Read the structures again")
    work_all(workspace.home)
    at.run()
    assert len(drawn_structures(at)) == 1 and workspace.library.counts(dataset)["labelled"] == 2


def test_second_table_may_keep_the_first_ones_gaps_and_mixed_levels_are_a_warning(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked(
        [("a.xyz", WATER), ("b.xyz", WATER.replace(b"0.763", b"0.770"))]
    )
    at = visit_gaps(visit)
    for table, level, keep in (
        (b"id,gap_eV\na,7.0\n", "PBE", False),
        (b"id,gap_eV\nb,9.0\nz,1.0\n", "HSE06", True),
    ):
        upload(at, "Table of gaps (CSV)", [("gaps.csv", table, "text/csv")])
        labelled(at.text_input, "Level of theory").set_value(level)
        if keep:
            next(
                box for box in at.checkbox if box.label.startswith("Keep the present gaps")
            ).set_value(True)
        click(at, "Match the gaps")
    assert [v.gap_eV for v in workspace.library.verdicts(dataset)] == [7.0, 9.0]
    assert workspace.library.dataset(workspace.id, dataset).level_of_theory == "PBE; HSE06"
    assert "Levels of theory are mixed" in texts(at)
    assert "**Rows of the table without a structure** (1): z" in texts(at)


def gaps_after_matching(
    visit: Visit, workspace: Workspace, table: bytes, *, texts_of: dict[str, str], unit: str = ""
) -> tuple[AppTest, list[float | None]]:
    """Upload a table of gaps for two structures, fill in the form and return their gaps."""
    dataset = workspace.add_checked(
        [("a.xyz", WATER), ("b.xyz", WATER.replace(b"0.763", b"0.770"))]
    )
    at = visit_gaps(visit)
    upload(at, "Table of gaps (CSV)", [("gaps.csv", table, "text/csv")])
    for label, text in texts_of.items():
        labelled(at.text_input, label).set_value(text)
    if unit:
        labelled(at.selectbox, "Unit of the gap column").set_value(unit)
    click(at, "Match the gaps")
    return at, [v.gap_eV for v in workspace.library.verdicts(dataset)]


def test_chosen_table_shows_what_would_be_matched_before_it_is(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked([("a.xyz", WATER), ("b.xyz", WATER), ("broken.cif", BROKEN)])
    at = visit_gaps(visit)
    upload(at, "Table of gaps (CSV)", [("gaps.csv", b"id,gap_eV\nb,9\na,7\nz,1\n", "text/csv")])
    at.run()
    assert "2 of 3 structures would get a gap from the column gap" in texts(at)
    assert [v.gap_eV for v in workspace.library.verdicts(dataset)] == [None, None, None]
    labelled(at.selectbox, "Unit of the gap column").set_value("meV")
    at.run()
    assert "states eV, but the unit was given as meV" in at.error[0].value


def test_table_of_other_names_shows_both_kinds_of_names(visit: Visit, workspace: Workspace) -> None:
    workspace.add_checked([("a.xyz", WATER), ("b.xyz", WATER)])
    at = visit_gaps(visit)
    upload(at, "Table of gaps (CSV)", [("gaps.csv", b"id,gap_eV\nx1,9\nx2,7\n", "text/csv")])
    at.run()
    (warning,) = [w.value for w in at.warning if "No name of" in w.value]
    assert "The table has x1, x2; the structures are a, b." in warning.replace("\\", "")


def test_after_the_match_the_next_step_is_the_training(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_checked([("w.xyz", waters(24, step=0.01))])
    at = visit_gaps(visit)
    assert "Train on these" not in [button.label for button in at.button]
    ids = [v.id for v in workspace.library.verdicts(dataset)]
    table = "id,gap_eV\n" + "".join(f"{id},{5 + 0.1 * k:.1f}\n" for k, id in enumerate(ids))
    upload(at, "Table of gaps (CSV)", [("gaps.csv", table.encode(), "text/csv")])
    click(at, "Match the gaps")
    assert primary(at) == ["Train on these"]
    click(at, "Train on these")
    assert at.title[0].value == "Train" and at.query_params["data"] == dataset


TWO_GAP_COLUMNS = b"id,gap_direct_eV,gap_indirect_eV\na,7.0,6.0\nb,9.0,8.0\n"


def test_table_with_two_gap_columns_asks_which_one(visit: Visit, workspace: Workspace) -> None:
    at, gaps = gaps_after_matching(visit, workspace, TWO_GAP_COLUMNS, texts_of={})
    assert "several gap columns ('gap_direct_eV', 'gap_indirect_eV')" in at.error[0].value
    assert "on the page Data under Known gaps, the field Gap column" in at.error[0].value
    assert "--column" not in at.error[0].value
    assert gaps == [None, None]


def test_columns_and_unit_of_the_form_are_used_and_the_other_gap_column_is_stored_too(
    visit: Visit, workspace: Workspace
) -> None:
    table = b"crystal,gap_direct_eV,gap_indirect\na,7.0,6000\nb,9.0,8000\n"
    names = {"Gap column": " gap_indirect ", "Id column": "crystal"}
    at, gaps = gaps_after_matching(visit, workspace, table, texts_of=names, unit="meV")
    assert gaps == pytest.approx([6.0, 8.0])
    assert "Also stored: gap\\_direct\\_eV of 2." in texts(at)


def test_table_with_an_unusual_id_column_is_refused_with_what_to_do(
    visit: Visit, workspace: Workspace
) -> None:
    table = b"crystal,gap_eV\na,7.0\nb,9.0\n"
    at, gaps = gaps_after_matching(visit, workspace, table, texts_of={})
    assert "no column names the structures. Found: 'crystal'" in at.error[0].value
    assert "on the page Data under Known gaps, the field Id column" in at.error[0].value
    assert gaps == [None, None]


def test_numbers_of_files_need_a_unit_in_their_name_or_a_chosen_one(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked([("water.extxyz", WATER)])
    at = use_number(visit, "gap")
    assert "the number 'gap' states no unit, and a unit is never guessed" in at.error[0].value
    assert workspace.library.verdicts(dataset)[0].gap_eV is None


def test_number_of_files_whose_name_states_hartree_is_converted(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_checked([("water.extxyz", WATER.replace(b"gap=7.1", b"gap_Ha=0.25"))])
    use_number(visit, "gap_Ha")
    assert workspace.library.verdicts(dataset)[0].gap_eV == pytest.approx(6.8028, abs=1e-4)


def test_number_of_files_has_the_level_of_theory_that_the_files_state(
    visit: Visit, workspace: Workspace
) -> None:
    content = WATER.replace(b"gap=7.1", b"level_of_theory=GFN1-xTB gap_eV=7.1")
    dataset = workspace.add_checked([("water.extxyz", content)])
    assert numbers_of(workspace.library, dataset) == {"gap_eV": 1}
    use_number(visit, "gap_eV")
    stored = workspace.library.dataset(workspace.id, dataset)
    assert (stored.level_of_theory, stored.labels["problems"]) == ("GFN1-xTB", [])


def test_metals_are_counted_and_left_out_of_the_histogram(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_labelled(8)
    gaps = np.array([0.0, 0.0, 0.0, 1.0, 1.5, 2.0, 2.5, 3.0])
    workspace.give_gaps(dataset, gaps)
    at = visit("data")
    text = texts(at)
    assert "8 have a gap and can be learned from; 3 of these are metals (gap 0)." in text
    assert "Known gaps; 3 metals left out." in text
    (histogram,) = figures(at)
    assert sum(histogram["data"][0]["y"]) == 5
    assert histogram["layout"]["xaxis"]["title"]["text"] == "band gap (eV)"


def test_delete_shows_what_is_removed_and_what_remains(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_labelled(8)
    _, job = workspace.add_run(dataset)
    at = visit("data")
    click(at, "Delete this data set")
    assert "is in use by a job (btl_pcp_pe, n = 40)" in at.error[0].value
    workspace.jobs.request_cancel(workspace.id, job.id)
    click(at, "Delete this data set")
    assert "waters is deleted." in texts(at) and "Start with the demo data" in texts(at)
    assert len(workspace.library.runs(workspace.id)) == 1


def test_renamed_data_set_has_its_new_name(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled(2)
    at = visit("data")
    labelled(at.text_input, "Name").set_value("wet set").run()
    assert at.selectbox[0].options == ["wet set"]


def test_upload_over_the_quota_shows_an_error(
    visit: Visit, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.00000001")
    at = visit("data")
    upload(at, "Structure files", [("water.xyz", WATER, "")])
    click(at, "Check the files")
    assert "BANDGAP_QUOTA_GB" in at.error[0].value and not workspace.library.datasets(workspace.id)


def test_server_folder_is_offered_where_there_is_one(
    visit: Visit, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Check what is there" not in labels(visit("data"))
    offered = tmp_path / "offered"
    offered.mkdir()
    (offered / "water.xyz").write_bytes(WATER)
    monkeypatch.setenv("BANDGAP_DATA_FOLDER", str(offered))
    at = visit("data")
    at.selectbox[0].set_value("water.xyz")
    click(at, "Check what is there")
    work_all(workspace.home)
    at.run()
    assert "**1 structure**: 1 ready" in texts(at)


def test_failed_check_shows_its_reason(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.library.add_dataset(workspace.id, "gone", files=[("a.xyz", WATER)])
    payload = {"dataset": dataset.id}
    job = workspace.jobs.submit(
        workspace.id, "check", title="Checking gone", payload=payload, subject=dataset.id
    )
    (workspace.home.folder / "uploads" / workspace.library.files(dataset.id)[0].content).unlink()
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, job.id)
    assert ended is not None and ended.state == "failed"
    at = visit("data")
    assert "Upload it again" in at.error[0].value and "Traceback" not in texts(at)
    assert not at.dataframe


def test_level_of_theory_is_named_after_the_gaps_were_matched(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.add_labelled(3)
    workspace.give_gaps(dataset, [5.0, 6.0, 7.0], level="")
    at = visit_gaps(visit)
    assert "no level of theory stated" in texts(at)
    field = labelled(at.text_input, "Level of theory of these gaps")
    field.set_value("  HSE06 ").run()
    assert "Known gaps: **3 gaps from gaps.csv**, HSE06." in texts(at)
    assert workspace.library.dataset(workspace.id, dataset).level_of_theory == "HSE06"
