"""Which method the page Train proposes."""

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from bandgap.benchmarks.crystal_criteria import PROPOSED
from bandgap.jobs.catalogue import register_all
from bandgap.transfer import METHODS
from tests.app.conftest import Workspace

Visit = Callable[..., AppTest]


def test_method_that_is_ticked_without_a_source_is_the_one_that_the_benchmark_judges(
    visit: Visit, workspace: Workspace
) -> None:
    register_all(str(workspace.home.folder))
    workspace.add_labelled()
    at = visit("train", source="none")
    assert [box.label for box in at.checkbox if str(box.key).startswith("method-") and box.value] == [
        METHODS[PROPOSED].title
    ]
