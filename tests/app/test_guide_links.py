"""Links of help texts to the page Guide lead to documents and headings that exist."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Slider

from app.components.guide.documents import NAMES, read_document
from app.components.shared.guide_links import help_link, slug
from tests.app.conftest import Workspace, labelled

Visit = Callable[..., AppTest]

APP = Path(__file__).resolve().parents[2] / "app"


def help_links() -> Iterator[tuple[str, str, str]]:
    """Yield file and line, document and heading of every call of `help_link` in the app."""
    for path in sorted(APP.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == help_link.__name__
            ):
                document, heading = (ast.literal_eval(argument) for argument in node.args)
                yield f"{path.relative_to(APP)}:{node.lineno}", document, heading


def test_links_of_help_texts_lead_to_headings_of_the_guide() -> None:
    broken = [
        f"{place}: {document}, {heading}"
        for place, document, heading in help_links()
        if document not in NAMES
        or (heading, slug(heading))
        not in [(s.plain_title, s.anchor) for s in read_document(document).sections]
    ]
    assert broken == []


def test_help_text_links_to_the_guide_of_this_workspace(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_labelled()
    at = visit("train", data=dataset)
    help_text = next(s for s in at.slider if "conformal" in s.label).help
    text, _, address = help_text.partition("[Guide: Conformal intervals](")
    parts = urlsplit(address.removesuffix(")"))
    assert text.endswith("\n\n")
    assert (parts.path, parts.fragment) == ("guide", "conformal-intervals")
    assert parse_qs(parts.query) == {
        "ws": [workspace.id],
        "page": ["explanation/intervals"],
    }


def held_out(at: AppTest) -> Slider[int]:
    return labelled(at.slider, "Held out for the test")


def test_value_of_a_widget_stays_when_a_choice_of_the_session_changes(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("train")
    held_out(at).set_value(20)
    labelled(at.button, "Start training").click().run()
    assert at.query_params["run"]
    assert held_out(at).value == 20
