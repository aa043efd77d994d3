"""The HTML document of the pages: that of Streamlit with the styles of the dashboard.

Styles that a page sends by `st.html` arrive after its first elements, which then move.
"""

from functools import cache
from pathlib import Path

import streamlit as st
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

# Contrast of at least 4.5 for captions, and for texts on the colour of buttons and of open popovers
# in the dark theme; a ring around what has the focus; download buttons side by side; the toolbar
# of a table below it, over no field or header. Streamlit sets the colour scheme of its application
# alone, and popovers are outside of it: there `light-dark` is always light, so captions take the
# colour of the text.
ACCESS_CSS = """
[data-testid="stCaptionContainer"] {
  color: color-mix(in srgb, currentColor 70%, transparent) !important; opacity: 1 !important;
}
[data-testid="stCaptionContainer"] p { color: inherit !important; opacity: 1 !important; }
button[kind="tertiary"]:is(:hover, :active, [aria-expanded="true"]) {
  color: light-dark(#0072B2, #6DB8E8) !important;
}
[data-testid^="stBaseButton-primary"]:not(:disabled) p, span[data-tag-index] span {
  color: light-dark(#FFFFFF, #0F1317) !important;
}
:is(a, button, summary, [role="tab"], [role="option"], [tabindex="0"]):focus-visible {
  outline: 2px solid light-dark(#0072B2, #6DB8E8) !important; outline-offset: 1px;
}
[data-testid="stHorizontalBlock"] > [data-testid="stLayoutWrapper"]:has(
  > [data-testid="stVerticalBlock"] > [data-testid="stElementContainer"]:first-child
  > [data-testid="stDownloadButton"]) {
  flex: 0 0 auto !important; width: fit-content; max-width: 100%;
}
[data-testid="stDataFrame"] [data-testid="stElementToolbar"] {
  top: 100% !important; right: 0.15rem !important;
}
"""
# At most about 90 letters a line. Two parts of the sidebar show nothing.
TEXT_CSS = """
.st-key-kept-address, .st-key-browser { display: none; }
[data-testid="stMain"] [data-testid="stMarkdown"] { max-width: 45rem; }
"""
# The header of Streamlit is empty but for its menu on the right: the title begins just below it.
WIDE_CSS = """
@media (min-width: 641px) {
  [data-testid="stMainBlockContainer"] { padding-top: 3.75rem !important; }
}
"""
# In a narrow window the columns of a row are below each other, and need no wide gap between them.
NARROW_CSS = """
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] {
    padding-top: 4rem !important; padding-bottom: 1.5rem !important;
  }
  [data-testid="stHorizontalBlock"] { row-gap: 1rem !important; }
}
"""
# The browser loads the code of each kind of widget when the first one is drawn. Until then a grey
# box is in its place, which has the height of the widget, so that nothing below it moves. Widgets
# are recognized by the beginning of their key, or of the key of the container around them.
RESERVED_CSS = """
[data-testid="stMain"] :is(
  .st-key-verdict-search, .st-key-window-from, .st-key-window-to, .st-key-train-n,
  [class*="st-key-data-select-"], [class*="st-key-run-select-"],
  [class*="st-key-prediction-select-"], [class*="st-key-baseline-"], [class*="st-key-find-"],
  [class*="st-key-field-"]
) [data-testid="stSkeleton"] { height: 64px !important; }
[data-testid="stMain"] :is(
  .st-key-interval-kind, .st-key-groups-by, [class*="st-key-verdict-filter-"],
  [class*="st-key-show-"]
) [data-testid="stSkeleton"] { height: 56px !important; }
[data-testid="stMain"] :is(
  .st-key-sure-bin, [class*="st-key-method-"]
) [data-testid="stSkeleton"] { height: 23px !important; }
.st-key-field-split { min-height: 100px; }
.st-key-start-place { min-height: 40px; }
[class*="st-key-viewer-"] { min-height: 538px; }
[class*="st-key-periodic-"] { min-height: 192px; }
@media (max-width: 640px) { .st-key-field-split { min-height: 278px; } }
@media (max-width: 520px) {
  [class*="st-key-viewer-"] { min-height: 440px; }
  [class*="st-key-show-"] { min-width: 250px; }
}
"""


def document(request: Request) -> HTMLResponse:
    """Answer the request for a page."""
    return HTMLResponse(html(), headers={"Cache-Control": "no-cache"})


@cache
def html() -> str:
    """Return the document; its styles apply before the browser draws anything."""
    index = Path(st.__file__).with_name("static") / "index.html"
    style = f"<style>{ACCESS_CSS}{TEXT_CSS}{WIDE_CSS}{NARROW_CSS}{RESERVED_CSS}</style>"
    head, end, body = index.read_text(encoding="utf-8").partition("</head>")
    return f"{head}{style}{end}{body}"


class _PageName(Convertor[str]):
    """A part of an address that may be a page: not a file, nor a path of Streamlit's server.

    Of an unknown page Streamlit says that there is none; it needs the document for that.
    """

    regex = "(?!oauth2callback$)[^/._][^/.]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", _PageName())
ROUTES = [Route("/", document), Route("/{name:page}", document)]
