"""Names from users are shown unchanged: HTML, Markdown and LaTeX in them have no effect."""

import importlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from streamlit.testing.v1 import AppTest

from tests.app.conftest import MAIN, Workspace, mark, texts
from tests.app.test_actions import click, open_gaps
from tests.app.worlds import NAMED, SECRET, Owned, all_of, nodes

Visit = Callable[..., AppTest]

PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py"))
MARKED = (
    "**b**",
    "$x^2$",
    "[l](",
    ":material/home:",
    ":red[",
    "<b>",
    "<i>",
    "<script>",
    "`c`",
    "_i_",
    "~~d~~",
)
# Markup that is not escaped.
TAKES_EFFECT = re.compile("|".join(rf"(?<!\\){re.escape(mark)}" for mark in MARKED))
HTML = ("<b>", "<i>", "<script>")  # what Plotly would take for markup
# Parts that the browser shows unchanged: values of fields, options, cells, code, accessible names.
PLAIN = {
    "options",
    "default",
    "value",
    "rawValues",
    "data",
    "alt",
    "altText",
    "codeText",
    "placeholder",
    "fileName",
}
NAMES = {
    "id",
    "formId",
    "key",
    "userKey",
    "elementId",
    "fragmentId",
    "url",
    "setFragmentId",
    "styledId",
}


@pytest.fixture
def alice(worlds: tuple[Owned, Owned]) -> Owned:
    return worlds[0]


@pytest.fixture
def workspace(alice: Owned) -> Workspace:
    return alice.workspace


def texts_of(value: Any, *, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of an element that are not plain, with the name of their field."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in PLAIN | NAMES:
                yield from texts_of(inner, name=key)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner, name=name)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def marked_up(at: AppTest) -> list[str]:
    """Return the texts of a page in which markup of a name takes effect."""
    problems = []
    for node in nodes(at):
        if node.type == "plotly_chart":
            problems += [
                f"figure: {t}"
                for t in strings(json.loads(node.proto.spec))
                if any(mark in t for mark in HTML)
            ]
            continue
        for name, text in texts_of(MessageToDict(node.proto)):
            if TAKES_EFFECT.search(text):
                problems.append(f"{node.type}.{name}: {text}")
    return problems


def sees_names_alone(at: AppTest) -> None:
    """Demand that the page shows a name, and none of its markup takes effect."""
    assert not at.exception
    assert marked_up(at) == []


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_names_as_they_are(name: str, visit: Visit, alice: Owned) -> None:
    at = visit(name, **alice.choices)
    if name not in ("home", "guide", "about"):  # pages without names of the workspace
        assert SECRET in all_of(at), "else this test sees nothing"
    sees_names_alone(at)


def test_known_gaps_of_a_data_set_show_names_as_they_are(visit: Visit, alice: Owned) -> None:
    sees_names_alone(open_gaps(visit("data", **alice.choices)))


def test_row_of_a_prediction_and_the_next_list_show_names_as_they_are(
    visit: Visit, alice: Owned
) -> None:
    at = visit("predict", **alice.choices)
    for row in (0, 1):
        at.session_state[f"next-{alice.prediction}"] = True
        mark(at, f"predicted-{alice.prediction}-all-", row)
        assert SECRET in texts(at)
        sees_names_alone(at)


def test_baseline_of_a_stored_run_is_shown_as_it_is(visit: Visit, alice: Owned) -> None:
    with alice.workspace.library.database.writing() as connection:
        connection.execute(
            "UPDATE run SET request = json_set(request, '$.baseline', ?) WHERE id = ?",
            (NAMED, alice.choices["run"]),
        )
    for page in ("predict", "result", "train", "propose"):
        sees_names_alone(visit(page, **alice.choices))


def test_error_with_a_name_shows_the_name_unchanged(visit: Visit, alice: Owned) -> None:
    at = visit("data", **alice.choices)
    click(at, "Delete this data set")
    assert SECRET in at.error[0].value and "is in use by a job" in at.error[0].value
    sees_names_alone(at)


def test_failed_job_with_a_name_in_its_error_shows_the_name_unchanged(
    visit: Visit, alice: Owned
) -> None:
    run, job = alice.workspace.add_run(alice.dataset, seed=8)
    alice.workspace.jobs.end(
        job.id, "failed", error=f"{NAMED}: the files give other structures than when they were."
    )
    at = visit("train", **{**alice.choices, "run": run})
    assert SECRET in at.error[0].value
    sees_names_alone(at)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (
            "a.cif: btl_pcp_pe, n = 40 (see block x-1). 12 of 40.",
            "a.cif: btl_pcp_pe, n = 40 (see block x-1). 12 of 40.",
        ),
        (
            "Use `bandgap train-source --oe62` in a shell.",
            "Use `bandgap train-source --oe62` in a shell.",
        ),
        ("Test with `--by-formula`, or *so*.", r"Test with `--by-formula`, or \*so\*."),
        ("**b** _i_ `c` ~~d~~", r"\*\*b\*\* \_i\_ \`c\` \~\~d\~\~"),
        ("$x$ [l](http://x.org) <b>", r"\$x\$ \[l\](http\://x.org) \<b>"),
        (":material/home: :red[x]", r"\:material/home: \:red\[x\]"),
        ("# a: 1\n1. b", "\\# a: 1\n1\\. b"),
    ],
)
def test_sentence_is_marked_only_where_markup_would_take_effect(text: str, escaped: str) -> None:
    words = importlib.import_module("app.components.shared.words")
    assert words.escaped_sentence(text) == escaped


def test_error_does_not_show_where_the_server_has_its_data(visit: Visit, alice: Owned) -> None:
    run, job = alice.workspace.add_run(alice.dataset, seed=9)
    folder = alice.workspace.home.folder
    alice.workspace.jobs.end(job.id, "failed", error=f"The store {folder}/bandgap.sqlite3 is busy.")
    at = visit("train", **{**alice.choices, "run": run})
    assert "bandgap.sqlite3" in at.error[0].value and str(folder) not in all_of(at)
