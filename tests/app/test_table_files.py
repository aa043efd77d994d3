"""Tables of the pages, each with a button for its CSV."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from app.components.shared import tables
from bandgap.jobs.entries import SystemEntry
from tests.app.conftest import Workspace
from tests.app.test_actions import open_gaps
from tests.app.worlds import Owned, nodes

Visit = Callable[..., AppTest]
PAGES = (
    "data",
    "sources",
    "train",
    "result?tab=errors",
    "compare",
    "predict",
)


@pytest.fixture
def workspace(owned: Owned) -> Workspace:
    owned.workspace.library.register_system(SystemEntry(python="3.11", versions={"numpy": "2.0"}))
    return owned.workspace


def tables_without_csv(at: AppTest) -> list[list[str]]:
    """Return the headers of the tables after which no button for a CSV is drawn.

    The button is after the table and before the next one.
    """
    headers: list[list[str]] = []
    for node in nodes(at):
        if node.type in ("arrow_data_frame", "dataframe"):
            headers.append([str(name) for name in node.value.columns])
        elif node.type == "download_button" and "(CSV)" in node.proto.label and headers:
            headers[-1] = []
    return [names for names in headers if names]


def n_tables(at: AppTest) -> int:
    return sum(node.type in ("arrow_data_frame", "dataframe") for node in nodes(at))


@pytest.mark.parametrize("name", PAGES)
def test_every_table_of_a_page_has_a_button_for_its_csv(
    name: str, visit: Visit, owned: Owned
) -> None:
    page, _, tab = name.partition("?tab=")
    at = visit(page, **owned.choices, tab=tab)
    assert n_tables(at)
    headers = tables_without_csv(at)
    labels = [button.proto.label for button in at.get("download_button")]
    if name == "result?tab=errors":  # its rows are in the CSV of the tab Details
        assert headers.pop(0)[-1] == "note"
    if name == "predict":  # the button is above the table, beside the number of predictions
        assert headers.pop(0)[0] == "id"
        assert labels[0] == "Predictions (CSV)"
    assert headers == []


def test_every_table_of_the_known_gaps_has_a_button_for_its_csv(visit: Visit, owned: Owned) -> None:
    at = open_gaps(visit("data", **owned.choices))
    assert tables_without_csv(at) == []


def test_table_has_a_button_for_its_csv_below_it_without_the_pictures() -> None:
    def page() -> None:
        import pandas

        from app.components.shared import downloads

        table = pandas.DataFrame({"layer": ["layer 1"], "tau": [0.25]})
        downloads.table_with_csv(
            table, "scales.csv", alt="Scales of the layers", pictures=["data:,"]
        )

    at = AppTest.from_function(page)
    at.session_state["workspace"] = "a workspace"
    at.run()
    assert not at.exception
    elements = [element.type for element in at.main]
    assert elements.index("dataframe") < elements.index("download_button")
    (button,) = at.get("download_button")
    assert button.proto.label == "Download the table (CSV)"
    assert list(at.dataframe[0].value.columns) == [tables.PICTURE, "layer", "tau"]
