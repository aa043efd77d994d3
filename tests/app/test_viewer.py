"""The viewer and the small pictures on the pages, and the route that draws pictures."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from streamlit.testing.v1 import AppTest

from app.components.structures.picture_route import ROUTE
from app.components.structures.viewer import ASSETS, SCRIPT, STYLE
from tests.app.conftest import BROKEN, WATER, Workspace, drawn_structures, labelled

ROCK_SALT = b"""data_salt
_cell_length_a 5.64
_cell_length_b 5.64
_cell_length_c 5.64
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_space_group_name_H-M_alt 'F m -3 m'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Na1 Na 0 0 0
Cl1 Cl 0.5 0.5 0.5
"""
Visit = Callable[..., AppTest]


def answer_to(path: str) -> httpx.Response:
    """Return the answer of the route of pictures."""

    async def requested() -> httpx.Response:
        transport = httpx.ASGITransport(app=Starlette(routes=[ROUTE]))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    # Browser tests before this one in the same process may have left an event loop that runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, requested()).result()


def viewer_data(at: AppTest) -> dict[str, Any]:
    """Return the data that the viewer of a page gets."""
    (viewer,) = drawn_structures(at)
    return viewer


def test_number_of_cells_that_was_chosen_in_the_viewer_is_drawn(
    workspace: Workspace, visit: Visit
) -> None:
    at = visit("data", data=workspace.add_checked([("salt.cif", ROCK_SALT)]))
    one = viewer_data(at)
    assert one["most_cells"] == 3
    at.session_state["viewer-structure"] = {"cells": 2}
    at.run()
    eight = viewer_data(at)
    assert eight["repeats"] == [2, 2, 2] and eight["structure"] == one["structure"]
    assert len(eight["element"]) > 3 * len(one["element"])


def test_viewer_follows_the_search_of_the_table(workspace: Workspace, visit: Visit) -> None:
    at = visit("data", data=workspace.add_checked([("a.xyz", WATER), ("salt.cif", ROCK_SALT)]))
    labelled(at.text_input, "Find").set_value("salt").run()
    assert [element["symbol"] for element in viewer_data(at)["elements"]] == ["Na", "Cl"]


def test_files_of_the_viewer_name_each_other() -> None:
    script = (ASSETS / SCRIPT).read_text(encoding="utf-8")
    imported = script.split("from './")[1].split("'")[0]
    assert (ASSETS / imported).stat().st_size > 500_000
    assert (ASSETS / STYLE).is_file()
    assert "University of Pittsburgh" in (ASSETS / "3Dmol-LICENSE.txt").read_text(encoding="utf-8")
    assert "innerHTML" not in script  # names of files are texts


def test_verdicts_have_pictures_except_for_refused_structures(
    workspace: Workspace, visit: Visit
) -> None:
    dataset = workspace.add_checked([("a.xyz", WATER), ("broken.cif", BROKEN)])
    at = visit("data", data=dataset)
    table = at.dataframe[0].value
    addresses = dict(zip(table["status"], table["picture"], strict=True))
    assert addresses["ready"].startswith(f"pictures/{dataset}/")
    assert addresses["refused"] is None or addresses["refused"] != addresses["refused"]
    answer = answer_to(f"/{addresses['ready']}")
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/svg+xml"
    assert answer.text.count("<use") == 3


@pytest.mark.parametrize(
    "place", ["0.svg", "..%2f..%2fbandgap.sqlite3/0.svg", "nothing/0.svg"], ids=str
)
def test_address_without_a_structure_is_not_found(workspace: Workspace, place: str) -> None:
    assert answer_to(f"/pictures/{place}").status_code == 404
    dataset = workspace.add_checked([("broken.cif", BROKEN)])
    assert answer_to(f"/pictures/{dataset}/0.svg").status_code == 404  # refused
    assert answer_to(f"/pictures/{dataset}/99.svg").status_code == 404
