"""The documents of the Guide: the user's part of the documentation as Markdown for Streamlit.

They are Markdown files with the syntax of MyST, in `docs` of a checkout and in `bandgap/_docs` of
an installed package.
"""

import base64
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import bandgap
from app.components.shared.guide_links import slug
from bandgap.datasets.demo_files import data_folder
from bandgap.foundation.errors import ConfigError

# Documents by group. `pyproject.toml` names the same files for the wheel.
GROUPS = MappingProxyType(
    {
        "On the pages": (
            "tutorials/on-the-pages",
            "explanation/reading-a-result",
            "reference/glossary",
            "how-to/gap-without-labels",
            "how-to/labels-and-units",
            "how-to/troubleshooting",
        ),
        "In a shell and in Python": (
            "tutorials/first-prediction",
            "tutorials/your-own-crystals",
            "tutorials/source-of-your-own",
            "tutorials/reading-a-posterior",
            "tutorials/what-to-compute-next",
            "tutorials/from-calculations-to-labels",
            "how-to/from-calculations-to-labels",
            "how-to/own-features",
            "how-to/disordered-crystals",
            "how-to/large-data",
            "how-to/share-a-run",
            "how-to/service",
            "how-to/agents",
            "how-to/cluster",
            "how-to/group-server",
        ),
        "What the numbers mean": (
            "explanation/which-source-and-method",
            "explanation/intervals",
            "explanation/metals",
            "explanation/how-results-are-judged",
            "explanation/calibration",
            "explanation/applicability",
            "explanation/proposals",
            "explanation/limits",
        ),
        "What a model learns from": (
            "how-to/theory-levels-and-baselines",
            "how-to/electron-levels",
            "how-to/elements-that-the-source-lacks",
            "explanation/descriptors",
        ),
        "Methods": (
            "explanation/methods/index",
            "explanation/methods/bayesian-all-layers",
            "explanation/methods/output-layer",
            "explanation/methods/one-network",
            "explanation/methods/many-networks",
            "explanation/methods/without-transfer",
            "research/methods",
            "research/flows",
            "research/molecules",
        ),
        "Files and settings": (
            "reference/file-formats",
            "reference/csv-columns",
            "reference/run-folder",
            "reference/environment",
        ),
    }
)
NAMES = tuple(name for names in GROUPS.values() for name in names)

# Blocks of code, whose content is not changed: parts with odd numbers of a text that is split.
_CODE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_LEFT_OUT = re.compile(
    r"\A---\n.*?\n---\n|^```\{(?:toctree|eval-rst)\}.*?^```$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^(#{1,6}) +(.+)$", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*/([^)/]+\.png)\)")
_FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_LINK = re.compile(r"(?<![`!])\[((?:[^\[\]`]|`[^`]*`)+)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Section:
    """A heading of a document and the Markdown below it, up to the next heading.

    Attributes
    ----------
    level
        1 for the title of the document, up to 6.
    title
        Markdown of the heading.
    anchor
        Name of the heading in addresses, as in the built documentation.
    body
        Markdown in which links have the targets of the file.
    """

    level: int
    title: str
    anchor: str
    body: str

    @property
    def plain_title(self) -> str:
        """The heading without markup."""
        return re.sub(r"[`*$]", "", self.title)


@dataclass(frozen=True)
class Document:
    """A document by its name, the path below the folder without the ending."""

    name: str
    sections: tuple[Section, ...]

    @property
    def title(self) -> str:
        """The first heading without markup."""
        return self.sections[0].plain_title


def documents_folder() -> Path:
    """Return the folder of the documents: in the installed package, else `docs` of the checkout.

    Raises ConfigError when neither exists.
    """
    package = Path(bandgap.__file__).resolve().parent
    for folder in (package / "_docs", package.parent / "docs"):
        if (folder / f"{NAMES[0]}.md").is_file():
            return folder
    raise ConfigError(
        f"The documents of the Guide are not in {package} or next to it. Install bandgap again."
    )


@cache
def read_document(name: str) -> Document:
    """Return a document of NAMES. Raises ConfigError when there is no folder of documents."""
    text = (documents_folder() / f"{name}.md").read_text(encoding="utf-8")
    return Document(name, tuple(sections_of(text)))


def search(text: str) -> list[tuple[Document, list[Section]]]:
    """Return the documents with sections that contain all words of a text, and these sections.

    Documents whose headings have all words are first.
    """
    words = text.casefold().split()

    def has_words(content: str) -> bool:
        return all(word in content.casefold() for word in words)

    hits = []
    for document in map(read_document, NAMES):
        sections = [s for s in document.sections if has_words(f"{s.plain_title}\n{s.body}")]
        if words and sections:
            hits.append((document, sections))
    return sorted(
        hits, key=lambda hit: not has_words(" ".join(s.plain_title for s in hit[0].sections))
    )


def sections_of(text: str) -> Iterator[Section]:
    """Yield the sections of a file of the documentation, in Markdown without MyST syntax."""
    headings: list[tuple[str, str]] = []
    bodies: list[str] = []
    for number, part in enumerate(_CODE.split(_LEFT_OUT.sub("", text))):
        if number % 2:
            bodies[-1] += part.replace("{code-cell} ipython3", "python", 1)
            continue
        before, *fields = _HEADING.split(_FORMULA.sub(r"$$\n\1\n$$", part))
        if bodies:
            bodies[-1] += before
        headings += zip(fields[::3], fields[1::3], strict=True)
        bodies += fields[2::3]
    uses_of_anchor: Counter[str] = Counter()
    for (marks, title), body in zip(headings, bodies, strict=True):
        anchor = slug(title)
        uses = uses_of_anchor[anchor]
        uses_of_anchor[anchor] += 1
        yield Section(len(marks), title, f"{anchor}-{uses}" if uses else anchor, body.strip())


def with_links(body: str, name: str, link: Callable[[str, str, str], str]) -> str:
    """Return the Markdown of a section with other links.

    Parameters
    ----------
    body
        Markdown of a section.
    name
        Name of its document, to which its links are relative.
    link
        Returns the link with a text, the name of a document and an anchor (or ""). Links to pages
        that the Guide does not have become their text.
    """

    def changed(match: re.Match[str]) -> str:
        text, target = match.groups()
        if "://" in target:
            return match[0]
        path, _, anchor = target.partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        page = page.removesuffix(".md") if path else name
        return link(text, page, anchor) if page in NAMES else text

    parts = _CODE.split(body)
    return "".join(
        part if number % 2 else _LINK.sub(changed, part) for number, part in enumerate(parts)
    )


def with_pictures(body: str) -> str:
    """Return the Markdown of a section with the pictures of `data/pictures` in it."""

    def inlined(match: re.Match[str]) -> str:
        content = (data_folder() / "pictures" / match[2]).read_bytes()
        return f"![{match[1]}](data:image/png;base64,{base64.b64encode(content).decode()})"

    return _IMAGE.sub(inlined, body)
