"""Parts of a long measurement, kept in a file as they are done: killed in between, it goes on with those left.

A part holds all sides that are compared, so that no ratio is made of two runs.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bandgap.foundation.json_lines import append_line, read_lines

Figures = dict[str, Any]


class Parts:
    """Figures of parts by name, in a file of JSON lines; without a file nothing is kept.

    A part counts as done where the file holds it with the same settings. Raises InputError on a file of anything else.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self.found = file, 0
        self._kept: dict[str, Figures] = {}
        if file is not None:
            self._kept = dict(read_lines(file, _part, what="part of a measurement"))

    def get(self, name: str, settings: Mapping[str, Any], measure: Callable[[], Figures]) -> Figures:
        """Return the figures of a part, measured where the file does not hold them; `found` counts where it does."""
        key = _key(name, settings)
        if key in self._kept:
            self.found += 1
            return self._kept[key]
        figures = measure()
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            append_line(self._file, {"part": name, "settings": dict(settings), "figures": figures})
        return figures


def file_digest(path: Path) -> str:
    """Return SHA-256 (hexadecimal) of a file, "" where there is none: other data make another part."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(name: str, settings: Mapping[str, Any]) -> str:
    return json.dumps([name, dict(settings)], sort_keys=True)


def _part(line: Figures) -> tuple[str, Figures]:
    return _key(line["part"], line["settings"]), dict(line["figures"])
