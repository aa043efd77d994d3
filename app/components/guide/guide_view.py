"""The list of the Guide's documents with a search, and the text of one document."""

import html
from pathlib import Path

import streamlit as st

from app import session
from app.components.guide.documents import (
    GROUPS,
    Document,
    read_document,
    search,
    with_links,
    with_pictures,
)
from app.components.shared.guide_links import PAGE

_LAYOUT = (
    ("On the pages", "In a shell and in Python"),
    ("What the numbers mean", "What a model learns from", "Methods", "Files and settings"),
)
_WIDTH = 760
_KEY = "guide-text"
_SCRIPT = Path(__file__).with_name("heading.js").read_text(encoding="utf-8")
_SCRIPT_KEY = "guide-heading"
# Tables and formulas scroll in themselves. The colours of code have too little contrast.
_STYLE = f"""<style>
.st-key-{_KEY} table {{ display: block; max-width: 100%; overflow-x: auto; width: fit-content; }}
.st-key-{_KEY} .katex-display {{ overflow-x: auto; overflow-y: hidden; padding: 0.2rem 0; }}
.st-key-{_KEY} pre span {{ color: inherit !important; }}
.st-key-{_KEY} p, .st-key-{_KEY} li, .st-key-{_KEY} a {{ overflow-wrap: anywhere; }}
.st-key-{_SCRIPT_KEY} {{ display: none; }}
</style>"""


def document_list() -> None:
    """Draw the search and the documents that it finds, or all documents by group."""
    text = st.text_input("Search", placeholder="words, such as conformal width", width=420)
    if text.strip():
        _hits(text)
        return
    for column, titles in zip(st.columns(2, gap="large"), _LAYOUT, strict=True):
        for title in titles:
            documents = map(read_document, GROUPS[title])
            lines = [f"- {link(document.title, document.name)}" for document in documents]
            column.subheader(title, anchor=False)
            column.markdown("\n".join(lines), unsafe_allow_html=True)


def document_view(document: Document) -> None:
    """Draw a document with a link to the list of all documents."""
    st.html(_STYLE)
    list_address = html.escape(session.address(PAGE))
    st.markdown(
        f'<a href="{list_address}" target="_self">All pages of the Guide</a>',
        unsafe_allow_html=True,
    )
    with st.container(key=_KEY, width=_WIDTH):
        for section in document.sections:
            draw_heading = {1: st.title, 2: st.header}.get(section.level, st.subheader)
            draw_heading(section.title, anchor=section.anchor)
            if section.body:
                body = with_pictures(with_links(section.body, document.name, link))
                st.markdown(body, unsafe_allow_html=True)
    st.components.v2.component("bandgap-guide-heading", js=_SCRIPT)(key=_SCRIPT_KEY)


def link(text: str, name: str, anchor: str = "") -> str:
    """Return a link to a heading of a document as HTML, since those of Markdown open a new tab."""
    address = html.escape(session.address(PAGE, page=name, heading=anchor))
    return f'<a href="{address}" target="_self">{text}</a>'


def _hits(text: str) -> None:
    hits = search(text)
    if not hits:
        st.info("No page has all of these words in one section. Use fewer or other words.")
    lines = []
    for document, sections in hits:
        lines.append(f"- **{link(document.title, document.name)}**")
        lines += [
            f"    - {link(section.title, document.name, section.anchor)}"
            for section in sections
            if section.level > 1
        ]
    st.markdown("\n".join(lines), unsafe_allow_html=True)
