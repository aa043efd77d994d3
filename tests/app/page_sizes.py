"""How much a page shows: words of running text, controls and figures, as it opens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamlit.testing.v1 import AppTest

MOST_WORDS = 120
MOST_CONTROLS = 20  # that are visible
MOST_IN_ALL = 40  # with those in folds
UNLIMITED = ("guide", "about")

TEXTS = {"markdown", "caption", "info", "warning", "error", "success"}
FIGURES = {"plotly_chart", "bidi_component", "imgs"}
FOLDS = {"expander", "popover", "tab"}
CONTROLS = FOLDS | set(
    "button button_group checkbox color_picker date_input download_button file_uploader "
    "link_button multiselect number_input page_link radio selectbox slider text_area "
    "text_input toggle".split()
)
# Icons, colours and targets of links; then what is left between blanks and has a letter.
MARKUP = re.compile(r":material/\w+:|:[\w-]+\[|\]\([^)]*\)|<[^>]*>")
WORD = re.compile(r"\S*[^\W\d_]\S*")


@dataclass(frozen=True)
class PageSize:
    """Words and controls that are visible as a page opens, all controls, and visible figures."""

    words: int
    controls: int
    controls_in_all: int
    figures: int

    @property
    def is_too_large(self) -> bool:
        return (
            self.words > MOST_WORDS
            or self.controls > MOST_CONTROLS
            or self.controls_in_all > MOST_IN_ALL
        )

    def row(self, page: str) -> str:
        return (
            f"{page:12} {self.words:5} {self.controls:8} {self.controls_in_all:6} "
            f"{self.figures:7}{'  too large' if self.is_too_large else ''}"
        )


HEADER = "page         words controls in all figures"


def page_size(at: AppTest) -> PageSize:
    """Return the size of the main part of a page, without sidebar and table cells."""
    nodes = list(_nodes(at.main, visible=True))
    visible = [node for node, is_visible in nodes if is_visible]
    text = "\n".join(str(node.value) for node in visible if node.type in TEXTS)
    return PageSize(
        len(WORD.findall(MARKUP.sub(" ", text))),
        sum(node.type in CONTROLS for node in visible),
        sum(node.type in CONTROLS for node, _ in nodes),
        sum(node.type in FIGURES for node in visible),
    )


def _nodes(block: Any, *, visible: bool) -> Iterator[tuple[Any, bool]]:
    """Yield all elements and folds below a block, with whether they are visible."""
    for position, node in enumerate(block.children.values()):
        yield node, visible
        if hasattr(node, "children"):
            yield from _nodes(node, visible=visible and _is_open(node, position))


def _is_open(node: Any, position: int) -> bool:
    """Return whether the content of a block is visible; of tabs, the first one's is."""
    if node.type == "expander":
        return bool(node.proto.expanded)
    return node.type != "popover" and (node.type != "tab" or position == 0)
