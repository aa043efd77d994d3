"""The report of the browser's workspaces, which may come in the same request as a click."""

from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.app.conftest import Workspace

Visit = Callable[..., AppTest]


def test_click_that_comes_with_the_first_report_of_the_browser_is_carried_out(
    visit: Visit, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.add_labelled()
    at = visit("home")
    (name,) = [field for field in at.text_input if field.label == "Name"]

    def reporting(*_: Any, **__: Any) -> Any:
        return lambda **_: {"workspaces": [workspace.id]}

    monkeypatch.setattr(st.components.v2, "component", reporting)
    name.set_value("Perovskites").run()
    assert at.expander[0].label.startswith("This workspace: Perovskites")
