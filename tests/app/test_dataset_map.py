"""The map on the page Data: computed without a run, a click and a lasso select structures."""

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.home import shapes_path
from bandgap.jobs.worker import work_all
from bandgap.structures.shapes import load_densities, load_shape
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_structure_map import button, map_figure, rows_drawn, select

Visit = Callable[..., AppTest]


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Workspace:
    """An empty workspace."""
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    return empty_workspace(tmp_path)


@pytest.fixture
def dataset(workspace: Workspace) -> str:
    """A labelled data set without runs."""
    return workspace.add_labelled()


def on_map(visit: Visit, dataset: str) -> AppTest:
    at = visit("data", data=dataset)
    at.session_state["data-view"] = "Map"
    return at.run()


def test_map_of_a_data_set_needs_no_run_and_a_lasso_lists_its_structures(
    visit: Visit, workspace: Workspace, dataset: str
) -> None:
    at = on_map(visit, dataset)
    button(at, "Compute the map").click().run()
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["structure_map"])
    assert (job.state, job.error, job.result) == ("finished", "", {"n": 60})
    at.run()
    assert not at.exception
    assert rows_drawn(at) == set(range(60))
    key = f"map-data-{dataset}-first component-gap"
    select(at, key, [3, 7, 9])
    table = next(f.value for f in at.dataframe if "formula" in f.value)
    assert table["gap_eV"].tolist() == pytest.approx([5 + 3 * k / 59 for k in (3, 7, 9)])
    assert "3 structures selected." in texts(at)
    select(at, key, [7])
    assert f"Known gap: {5 + 3 * 7 / 59:.2f} eV" in texts(at)
    assert "Most alike: " in texts(at)


def test_structures_without_a_gap_are_another_set(
    visit: Visit, workspace: Workspace, dataset: str
) -> None:
    gaps = np.full(60, np.nan)
    gaps[:20] = 2.0
    workspace.library.save_gaps(dataset, gaps, labels={}, level_of_theory="")
    at = on_map(visit, dataset)
    button(at, "Compute the map").click().run()
    work_all(workspace.home)
    at.run()
    names = {trace["name"] for trace in map_figure(at)["data"]}
    assert names == {"with a gap (20)", "without a gap (40)"}


def test_densities_are_those_of_the_shapes(workspace: Workspace, dataset: str) -> None:
    path = shapes_path(workspace.home, dataset)
    densities = load_densities(path)
    assert densities.shape == (60,)
    shape = load_shape(path, 5)
    assert shape is not None
    assert np.isnan(shape.density_g_cm3) == np.isnan(densities[5])
