"""Pages before the worker has registered: they say what they wait for, then continue."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.lock import acquire
from tests.app.conftest import Workspace, texts

Visit = Callable[..., AppTest]
WAITS = "The worker has not yet registered its source models and methods."
METHODS = {"fine_tune": MethodEntry("Fine-tuning", "Trains all layers.", duration="seconds")}


@pytest.fixture
def unregistered(workspace: Workspace) -> Workspace:
    """A labelled data set, and a worker that has not yet written down what there is."""
    workspace.add_labelled()
    workspace.library.register_sources({})
    workspace.library.register_methods({})
    return workspace


def register(workspace: Workspace) -> None:
    workspace.library.register_sources({"demo": SourceEntry("the demo", "")})
    workspace.library.register_methods(METHODS)


@pytest.mark.parametrize(
    ("name", "form_content"),
    [
        (
            "train",
            lambda at: [box.label for box in at.checkbox if str(box.key).startswith("method-")],
        ),
        ("sources", lambda at: [list(frame.value["source model"]) for frame in at.dataframe]),
    ],
)
def test_page_waits_for_the_worker_and_shows_its_form_afterwards(
    visit: Visit,
    unregistered: Workspace,
    name: str,
    form_content: Callable[[AppTest], list[object]],
) -> None:
    at = visit(name)
    assert form_content(at) == []
    assert (
        WAITS in texts(at)
        and "this page then continues by itself" in texts(at)
        and "reload" not in texts(at)
    )
    register(unregistered)
    at.run()
    assert len(form_content(at)) == 1 and WAITS not in texts(at)


def page() -> None:
    """A page that was drawn before the worker had registered, and that runs again by itself."""
    import streamlit as st

    from app.components.shared import stores, waiting

    if st.session_state.pop("as drawn before", False):
        waiting.rerun_when(
            lambda: bool(stores.library().methods()), lambda: st.write("still waiting")
        )
    else:
        st.write("drawn anew")


@pytest.mark.parametrize(("registers", "text"), [(False, "still waiting"), (True, "drawn anew")])
def test_waiting_ends_in_one_run_of_the_whole_page(
    unregistered: Workspace, registers: bool, text: str
) -> None:
    if registers:
        register(unregistered)
    at = AppTest.from_function(page)
    at.session_state["as drawn before"] = True
    at.run()
    assert not at.exception and [element.value for element in at.markdown] == [text]


def test_sidebar_shows_that_the_worker_runs_after_its_first_answer(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("data")
    assert [warning.value[:33] for warning in at.sidebar.warning] == [
        "The worker has not been started: "
    ]
    assert acquire(workspace.jobs.database, "a worker")
    at.run()
    assert not at.sidebar.warning
