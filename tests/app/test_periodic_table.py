"""The periodic table on the page Data: places, colours, and what a selection filters."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.shared.periodic_table import place_of, shares
from bandgap.structures.elements import ELEMENTS
from tests.app.conftest import Workspace, texts

Visit = Callable[..., AppTest]

PAIR = (
    "2\nLattice='9 0 0 0 9 0 0 0 9' Properties=species:S:1:pos:R:3 gap={gap}\n"
    "{a} 0 0 0\n{b} {d} 0 0\n"
)


def table_of(at: AppTest) -> dict[str, object]:
    (component,) = [
        element
        for element in at.get("bidi_component")
        if "periodic" in element.proto.component_name
    ]
    data: dict[str, object] = json.loads(component.proto.json)
    return data


@pytest.mark.parametrize(
    ("symbol", "place"),
    [
        *(("H", (1, 1)), ("He", (1, 18)), ("B", (2, 13)), ("Cl", (3, 17)), ("Sc", (4, 3))),
        *(("Xe", (5, 18)), ("Ba", (6, 2)), ("La", (9, 3)), ("Lu", (9, 17)), ("Hf", (6, 4))),
        *(("Rn", (6, 18)), ("U", (10, 6)), ("Og", (7, 18))),
    ],
)
def test_element_is_at_its_place(symbol: str, place: tuple[int, int]) -> None:
    assert place_of(ELEMENTS.index(symbol) + 1) == place


def test_no_two_elements_share_a_place() -> None:
    places = [place_of(number) for number in range(1, 119)]
    assert len(set(places)) == 118
    assert all(1 <= row <= 10 and 1 <= column <= 18 for row, column in places)


def test_colours_follow_the_logarithm_of_the_number() -> None:
    numbers = {"O": 100.0, "Pb": 10.0, "I": 1.0}
    assert shares(numbers) == pytest.approx({"O": 1.0, "Pb": 0.5, "I": 0.0})
    assert shares({"O": 3.0}) == {"O": 1.0}


def test_selected_elements_filter_the_table_and_the_histogram(
    visit: Visit, workspace: Workspace
) -> None:
    pairs = [("Mg", "O"), ("Ca", "O"), ("Ca", "S"), ("Zn", "S")]
    frames = [PAIR.format(a=a, b=b, gap=k + 1, d=2.0 + 0.05 * k) for k, (a, b) in enumerate(pairs)]
    dataset = workspace.add_checked([("pairs.extxyz", "".join(frames).encode())])
    gaps = np.arange(1.0, 5.0)
    workspace.give_gaps(dataset, gaps)
    at = visit("data")
    assert len(at.dataframe[0].value) == 4
    data = table_of(at)
    open_cells = {cell["symbol"] for cell in data["cells"] if cell["share"] is not None}
    assert open_cells == {"Mg", "Ca", "Zn", "O", "S"} and data["selected"] == []
    at.session_state[f"periodic-{dataset}"] = {"elements": ["Ca"]}
    at.run()
    assert list(at.dataframe[0].value["formula"]) == ["CaO", "CaS"]
    (histogram,) = at.get("plotly_chart")
    assert sum(json.loads(histogram.proto.spec)["data"][0]["y"]) == 2


def test_table_is_filtered_by_gap_and_size(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_labelled(20)  # gaps from 5 to 8 eV
    at = visit("data")
    at.number_input(key=f"gap-from-{dataset}").set_value(7.0).run()
    gaps = at.dataframe[0].value["gap_eV"]
    assert 0 < len(gaps) < 20 and (gaps >= 7.0).all()
    at.number_input(key=f"atoms-from-{dataset}").set_value(4).run()
    assert "No structure fits" in texts(at)
