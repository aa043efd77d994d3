"""The documents of the Guide: the user's part of the documentation as Markdown for Streamlit.

They are Markdown files with the syntax of MyST, in `docs` of a checkout and in `bandgap/_docs` of
an installed package.
"""

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
from bandgap.foundation.errors import ConfigError

# Documents by group. `pyproject.toml` names the same files for the wheel.
GROUPS = MappingProxyType(
    {
        "Tutorials": (
            "tutorials/first-prediction",
            "tutorials/your-own-crystals",
            "tutorials/source-of-your-own",
            "tutorials/reading-a-posterior",
            "tutorials/what-to-compute-next",
            "tutorials/from-calculations-to-labels",
        ),
        "How-to guides": (
            "how-to/gap-without-labels",
            "how-to/labels-and-units",
            "how-to/from-calculations-to-labels",
            "how-to/theory-levels-and-baselines",
            "how-to/electron-levels",
            "how-to/own-features",
            "how-to/elements-that-the-source-lacks",
            "how-to/service",
            "how-to/cluster",
            "how-to/group-server",
            "how-to/large-data",
            "how-to/share-a-run",
            "how-to/troubleshooting",
        ),
        "Explanation": (
            "explanation/which-source-and-method",
            "explanation/intervals",
            "explanation/metals",
            "explanation/reading-a-result",
            "explanation/calibration",
            "explanation/applicability",
            "explanation/proposals",
            "explanation/descriptors",
            "explanation/limits",
            "explanation/methods/index",
            "explanation/methods/bayesian-all-layers",
            "explanation/methods/output-layer",
            "explanation/methods/one-network",
            "explanation/methods/many-networks",
            "explanation/methods/without-transfer",
        ),
        "Research": ("research/methods", "research/flows", "research/molecules"),
        "Reference": (
            "reference/file-formats",
            "reference/csv-columns",
            "reference/run-folder",
            "reference/environment",
        ),
    }
)
NAMES = tuple(name for names in GROUPS.values() for name in names)

# Directives without a counterpart here: their content is left out.
_LEFT_OUT = {"toctree", "eval-rst", "image", "figure", "plotly"}
_ADMONITIONS = {"note", "tip", "hint", "important", "warning", "caution", "danger", "seealso"}
_HEADING = re.compile(r"(#{1,6}) +(.+?)\s*#*\s*")
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,}|:{3,})(?:\{([\w:-]+)\})?\s*(.*)")
_OPTION = re.compile(r"\s*:[\w-]+:.*")
_LABEL = re.compile(r"\([\w.:-]+\)=\s*")
_CODE = r"(?P<code>(?P<ticks>`+)(?:(?!(?P=ticks)).|\n)+?(?P=ticks))"
_ROLE = re.compile(r"\{(?P<role>[\w:]+)\}`(?P<content>[^`]+)`|" + _CODE)
_IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\([^)]*\)|" + _CODE)
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]`]|`[^`]*`)+)\]\((?P<target>[^)\s]+)\)|" + _CODE)
_DISPLAY_MATH = re.compile(r"\$\$(?P<formula>.+?)\$\$|" + _CODE, re.DOTALL)
_ROLE_TARGET = re.compile(r"(.+?)\s*<[^>]*>", re.DOTALL)


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
    """Return a document of NAMES. Raises ConfigError when its file is missing."""
    path = documents_folder() / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}).") from error
    return Document(name, tuple(sections_of(text)))


def search(text: str) -> list[tuple[Document, list[Section]]]:
    """Return the documents whose headings contain all words of a text.

    Documents whose title has all words are first. Each comes with its headings, other than the
    title, that contain one of the words.
    """
    words = text.casefold().split()
    hits = []
    for name in NAMES:
        document = read_document(name)
        headings = [section.plain_title.casefold() for section in document.sections]
        if words and all(any(word in heading for heading in headings) for word in words):
            matching_sections = [
                section
                for section, heading in zip(document.sections[1:], headings[1:], strict=True)
                if any(word in heading for word in words)
            ]
            hits.append((document, matching_sections))
    return sorted(hits, key=lambda hit: not all(word in hit[0].title.casefold() for word in words))


def sections_of(text: str) -> Iterator[Section]:
    """Yield the sections of a file of the documentation, in Markdown without MyST syntax."""
    uses_of_anchor: Counter[str] = Counter()
    title = ""
    level = 0
    lines: list[str] = []
    is_code = False
    for line in [*_plain_markdown(_without_front_matter(text)), None]:
        if line is not None and line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        heading = None if line is None or is_code else _HEADING.fullmatch(line)
        if line is not None and heading is None:
            lines.append(line)
            continue
        if level:
            anchor = slug(title)
            uses = uses_of_anchor[anchor]
            uses_of_anchor[anchor] += 1
            yield Section(
                level, title, f"{anchor}-{uses}" if uses else anchor, _plain_inline(lines)
            )
        if heading is not None:
            level = len(heading[1])
            title = heading[2]
            lines = []


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
        target = match["target"]
        if target is None or "://" in target:
            return match[0]
        path, _, anchor = target.partition("#")
        folder = posixpath.dirname(name)
        page = posixpath.normpath(posixpath.join(folder, path)).removesuffix(".md")
        page = page if path else name
        return link(match["text"], page, anchor) if page in NAMES else match["text"]

    return "".join(part if is_code else _LINK.sub(changed, part) for is_code, part in _parts(body))


def _without_front_matter(text: str) -> str:
    if not text.startswith("---\n"):
        return text
    return text.partition("\n---\n")[2]


def _plain_markdown(text: str) -> Iterator[str]:
    """Yield the lines with directives changed to code blocks and quotes, and without labels."""
    directives: list[tuple[str, str, str]] = []  # open ones: indentation, marker, name
    has_options = False  # whether lines of options may follow, directly below a directive
    for line in text.splitlines():
        fence = _FENCE.fullmatch(line)
        indentation, marker, name, argument = fence.groups("") if fence else ("",) * 4
        quote = "> " * sum(d[2] in _ADMONITIONS for d in directives)
        is_left_out = any(d[2] in _LEFT_OUT for d in directives)
        is_code = bool(directives) and directives[-1][2] == "code"
        is_end = bool(directives) and line.strip() == directives[-1][1]
        if is_end:
            _, closed_marker, closed_name = directives.pop()
            if closed_name == "code" and not is_left_out:
                yield f"{quote}{indentation}{closed_marker}"
        elif marker and not is_code and not is_left_out:
            if name and name != "code-cell" and name != "code-block":
                kind = "note" if name == "admonition" else name
                directives.append((indentation, marker, kind))
                has_options = True
                if kind in _ADMONITIONS:
                    yield f"{quote}> **{argument or name.capitalize()}**"
                    yield f"{quote}>"
            elif not marker.startswith(":"):
                language = "python" if name == "code-cell" else argument
                directives.append((indentation, marker, "code"))
                has_options = bool(name)
                yield f"{quote}{indentation}{marker}{language}"
        elif has_options and _OPTION.fullmatch(line):
            pass
        elif not is_left_out:
            has_options = False
            if is_code or not (_LABEL.fullmatch(line) or line.startswith("% ")):
                yield quote + line


def _parts(body: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of Markdown in order, each with whether it is a block of code."""
    lines: list[str] = []
    end = ""
    for line in body.splitlines(keepends=True):
        marker = re.match(r"[> ]*(`{3,}|~{3,})", line)
        if marker is None or (end and marker[1] != end):
            lines.append(line)
        elif end:
            yield True, "".join([*lines, line])
            lines = []
            end = ""
        else:
            yield False, "".join(lines)
            lines = [line]
            end = marker[1]
    yield bool(end), "".join(lines)


def _plain_inline(lines: list[str]) -> str:
    """Return the Markdown of lines with images, roles and formulas changed."""
    body = "\n".join(lines).strip()
    return "".join(part if is_code else _plain_text(part) for is_code, part in _parts(body))


def _plain_text(text: str) -> str:
    text = _ROLE.sub(lambda m: m["code"] or _role(m["role"], m["content"]), text)
    text = _IMAGE.sub(lambda m: m["code"] or f"*Figure, not shown here: {m['alt']}.*", text)
    return _DISPLAY_MATH.sub(lambda m: m["code"] or f"\n\n$$\n{m['formula'].strip()}\n$$\n\n", text)


def _role(role: str, content: str) -> str:
    """Return the text of a role, such as {doc}`text <target>`."""
    if role == "math":
        return f"${content}$"
    titled = _ROLE_TARGET.fullmatch(content)
    text = titled[1] if titled else content.lstrip("~!")
    return text if titled or role in ("doc", "ref", "term", "numref") else f"`{text}`"
