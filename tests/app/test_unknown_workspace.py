"""An address without a known workspace: the page shows a message and creates nothing."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.workspaces import has_workspace
from tests.app.conftest import MAIN, Workspace, labelled, texts

Visit = Callable[..., AppTest]


def opened(ws: str) -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=30)
    if ws:
        at.query_params["ws"] = ws
    at.run()
    assert not at.exception
    return at


def count(workspace: Workspace) -> int:
    tables = ("workspace", "opened_workspace")
    return sum(len(workspace.library.database.rows(f"SELECT id FROM {table}")) for table in tables)


@pytest.mark.parametrize(
    "workspace_id",
    ["6eef62f7-6519-4825-b94a-02d130ac8c99", "3f2b", "../../etc", "<b>x</b>", "a" * 500],
)
def test_unknown_address_is_reported_on_every_page(workspace: Workspace, workspace_id: str) -> None:
    at = opened(workspace_id)
    assert at.title[0].value == "No such workspace" and "none of that name is open to you" in texts(
        at
    )
    at.switch_page("views/data.py").run()
    assert at.title[0].value == "No such workspace" and count(workspace) == 0
    labelled(at.button, "Start a new workspace").click().run()
    assert at.title[0].value == "Data" and count(workspace) == 1
    assert has_workspace(workspace.library, at.session_state["workspace"])


def test_new_visitor_gets_a_workspace_whose_address_is_known_afterwards(
    workspace: Workspace,
) -> None:
    at = opened("")
    at.run()
    parameter = at.query_params["ws"]
    workspace_id = parameter if isinstance(parameter, str) else parameter[0]
    again = opened(workspace_id)
    assert again.title[0].value == "Home" and again.session_state["workspace"] == workspace_id


def test_switch_to_another_workspace_keeps_nothing_of_the_one_before(
    workspace: Workspace, visit: Visit
) -> None:
    dataset = workspace.add_labelled()
    at = visit("data", data=dataset)
    assert at.session_state["chosen_data"] == dataset
    at.switch_page("views/home.py").run()
    labelled(at.button, "Start a new workspace").click().run()
    assert at.session_state["workspace"] != workspace.id and at.session_state["chosen_data"] == ""
    assert "waters" not in str(at.main)
