"""The page Guide: its documents without MyST syntax, its links, the search, and the wheel."""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from app.components.guide import documents
from app.components.guide.documents import (
    NAMES,
    Section,
    documents_folder,
    read_document,
    search,
    sections_of,
    with_links,
    with_pictures,
)
from app.components.shared.guide_links import slug
from bandgap.foundation.errors import ConfigError
from tests.app.conftest import Workspace, texts

Visit = Callable[..., AppTest]

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LEFTOVERS = re.compile(
    r"\{[\w:-]+\}|^ *:::|^\([\w.-]+\)=|^---$|^ *:[\w-]+:|\]\([^)]*\.(?:md|png)|<(?!a |/a>)\w",
    re.MULTILINE,
)
ADDRESS = re.compile(r'<a href="([^"]+)" target="_self">')


def shown_link(text: str, name: str, anchor: str) -> str:
    return f'<a href="guide?page={name}#{anchor}" target="_self">{text}</a>'


def shown_text(name: str) -> str:
    """Return the Markdown of a document as the page shows it."""
    return "\n\n".join(
        f"{section.title}\n\n{with_pictures(with_links(section.body, name, shown_link))}"
        for section in read_document(name).sections
    )


def only_section(text: str) -> Section:
    (section,) = sections_of(text)
    return section


@pytest.mark.parametrize("name", NAMES)
def test_document_is_shown_without_myst_syntax(name: str) -> None:
    text = CODE.sub("", shown_text(name))
    # Braces of formulas follow a command or a sign of LaTeX, not a blank.
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", "", text, flags=re.DOTALL)
    assert LEFTOVERS.findall(text) == []
    assert "{code-cell}" not in shown_text(name)
    assert read_document(name).sections[0].level == 1


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_document_lead_to_documents_and_headings(name: str) -> None:
    targets = [parse_address(address) for address in ADDRESS.findall(shown_text(name))]
    broken = [
        (page, anchor)
        for page, anchor in targets
        if page not in NAMES
        or (anchor and anchor not in {s.anchor for s in read_document(page).sections})
    ]
    assert broken == []


def parse_address(address: str) -> tuple[str, str]:
    """Return the document and the anchor of a link."""
    parts = urlsplit(address)
    return parse_qs(parts.query)["page"][0], parts.fragment


def test_links_between_documents_are_found() -> None:
    assert ("reference/csv-columns", "domain") in [
        parse_address(address) for address in ADDRESS.findall(shown_text("explanation/intervals"))
    ]


def test_every_document_for_users_is_in_the_guide() -> None:
    folder = ROOT / "docs"
    names = {
        path.relative_to(folder).with_suffix("").as_posix()
        for part in ("tutorials", "how-to", "explanation", "research")
        for path in (folder / part).rglob("*.md")
        if path.relative_to(folder).as_posix() != f"{part}/index.md"
    }
    assert names == {name for name in NAMES if not name.startswith("reference/")}


def files_of_patterns(patterns: list[str]) -> set[Path]:
    return {path for pattern in patterns for path in ROOT.glob(pattern.removeprefix("/"))}


def test_wheel_contains_the_documents_of_the_guide_and_no_others() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    patterns = [pattern for pattern in wheel["include"] if pattern.startswith("/docs")]
    files = files_of_patterns(patterns) - files_of_patterns(wheel["exclude"])
    assert files == {ROOT / "docs" / f"{name}.md" for name in NAMES}
    assert wheel["sources"]["docs"] == "bandgap/_docs"


def test_installed_documents_are_preferred_to_a_folder_docs_next_to_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "bandgap"
    package.mkdir()
    monkeypatch.setattr(documents.bandgap, "__file__", str(package / "__init__.py"))
    with pytest.raises(ConfigError, match=r"The documents of the Guide are not in .* Install"):
        documents_folder()
    for folder in (tmp_path / "docs", package / "_docs"):
        (folder / "tutorials").mkdir(parents=True)
        (folder / f"{NAMES[0]}.md").write_text("# On the pages\n")
        assert documents_folder() == folder


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("```{code-cell} ipython3\nx = 1\n```", "```python\nx = 1\n```"),
        ("```shell\nls {a}`b`\n```", "```shell\nls {a}`b`\n```"),
        ("```{toctree}\n:hidden:\n\none\n```\nText", "Text"),
        ("$$x = 1$$", "$$\nx = 1\n$$"),
    ],
    ids=["code cell", "code", "toctree", "formula"],
)
def test_myst_syntax_becomes_markdown(text: str, body: str) -> None:
    assert only_section(f"---\nkernelspec: x\n---\n\n# Title\n\n{text}\n").body == body


def test_lines_of_code_are_no_headings() -> None:
    section = only_section("# Title\n\n```shell\n# a comment\n```\n")
    assert section.title == "Title"
    assert "# a comment" in section.body


def test_equal_headings_have_different_anchors() -> None:
    sections = list(sections_of("# CSV columns\n\n## `sd_eV`\n\n### `sd_eV`\n"))
    assert [section.anchor for section in sections] == ["csv-columns", "sd_ev", "sd_ev-1"]


def test_link_to_a_page_that_the_guide_lacks_becomes_text() -> None:
    text = "[settings](settings.md#n), `[code](a.md)`, [out](https://x.org), [a\nb](limits.md)"
    linked = with_links(text, "explanation/intervals", lambda t, name, a: f"<{t}|{name}|{a}>")
    assert linked == ("settings, `[code](a.md)`, [out](https://x.org), <a\nb|explanation/limits|>")


def test_anchor_is_that_of_the_built_documentation() -> None:
    assert slug("How do I run it?") == "how-do-i-run-it"


def test_no_two_documents_have_the_same_title() -> None:
    titles = [read_document(name).title for name in NAMES]
    assert len(titles) == len(set(titles))


def test_search_finds_words_of_texts_in_any_case_and_headings_first() -> None:
    (document, sections), *_ = search("CONFORMAL interv")
    assert document.name == "explanation/intervals"
    assert "Conformal intervals" in [section.title for section in sections]
    assert "explanation/calibration" in [document.name for document, _ in search("PIT")]
    assert search("conformal nonsenseword") == []


def test_guide_lists_all_documents_and_searches_them(visit: Visit) -> None:
    at = visit("guide")
    pages = [page for page, _ in addresses(at)]
    assert sorted(pages) == sorted(NAMES)
    at.text_input[0].set_value("conformal intervals").run()
    assert ("explanation/intervals", "conformal-intervals") in addresses(at)
    at.text_input[0].set_value("nonsenseword").run()
    assert "No page has all of these words in one section." in texts(at)


def addresses(at: AppTest) -> list[tuple[str, str]]:
    """Return document and anchor of the links on a page."""
    links = ADDRESS.findall("\n".join(str(element.value) for element in at.markdown))
    return [parse_address(address.replace("&amp;", "&")) for address in links]


def test_guide_shows_each_document(visit: Visit) -> None:
    at = visit("guide")
    for name in NAMES:
        at.query_params["page"] = name
        at.run()
        assert not at.exception and not at.error, name
        assert [str(title.value) for title in at.title] == [read_document(name).sections[0].title]


def test_links_of_the_guide_keep_workspace_and_choices(visit: Visit, workspace: Workspace) -> None:
    run, _ = workspace.add_run(workspace.add_labelled())
    at = visit("guide", page="explanation/intervals", run=run)
    links = [link for element in at.markdown for link in linked_parameters(str(element.value))]
    assert len(links) > 1
    assert all(link["ws"] == [workspace.id] and link["run"] == [run] for link in links)


def linked_parameters(text: str) -> Iterator[dict[str, list[str]]]:
    for address in ADDRESS.findall(text):
        yield parse_qs(urlsplit(address.replace("&amp;", "&")).query)


def test_unknown_document_is_reported_above_the_list(visit: Visit) -> None:
    at = visit("guide", page="../../etc/passwd")
    assert "The Guide has no page" in at.warning[0].value
    assert len(addresses(at)) == len(NAMES)
