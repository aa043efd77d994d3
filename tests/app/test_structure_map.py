"""The map on Result and Predict: button, job, colours, a click and a lasso."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_home, drawn_structures, texts

Visit = Callable[..., AppTest]
Predicted = tuple[Workspace, str, str]


@pytest.fixture
def workspace(
    tmp_path: Path, predicted_waters: Predicted, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace, which a test may change."""
    example = predicted_waters[0]
    return Workspace(example.id, copied_home(example, tmp_path / "home", monkeypatch))


def button(at: AppTest, label: str):
    return next(b for b in at.button if b.label.startswith(label))


def map_figure(at: AppTest) -> dict[str, Any]:
    """Return the figure of the map."""
    figures = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    return next(f for f in figures if "clickmode" in f["layout"])


def rows_drawn(at: AppTest) -> set[int]:
    """Return the rows of all points of the map."""
    return {
        int(row) for trace in map_figure(at)["data"] for row in list_of(trace.get("customdata", []))
    }


def list_of(values: Any) -> list[int]:
    """Return an array of a figure as Streamlit sends it: a list, or bytes."""
    if not isinstance(values, dict):
        return list(values)
    import base64

    return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()


def select(at: AppTest, key: str, rows: list[int]) -> AppTest:
    """Select points of the map as a lasso does."""
    points = [{"customdata": row, "curve_number": 0, "point_index": 0} for row in rows]
    at.session_state[key] = {
        "selection": {"points": points, "point_indices": [], "box": [], "lasso": []}
    }
    return at.run()


def test_lasso_on_predict_filters_the_table_and_a_click_shows_the_structure(
    visit: Visit, workspace: Workspace, predicted_waters: Predicted
) -> None:
    _, run, prediction = predicted_waters
    at = visit("predict", run=run, prediction=prediction)
    assert len(at.dataframe[0].value) == 12
    at.toggle(key=f"show-map-{prediction}").set_value(True).run()
    button(at, "Compute the map").click().run()
    work_all(workspace.home)
    at.run()
    assert rows_drawn(at) == set(range(12))
    key = f"map-predict-{prediction}-first component-set"
    select(at, key, [2, 5, 6])
    assert list(at.dataframe[0].value.index) == [2, 5, 6]
    assert drawn_structures(at) == []
    select(at, key, [5])
    assert list(at.dataframe[0].value.index) == [5]
    assert len(drawn_structures(at)) == 1
    assert "interval" in texts(at) and "Nearest known" in texts(at)
