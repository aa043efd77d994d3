"""Parts of a long measurement, kept in a file as they are done: killed in between, it goes on with those left.

A part holds all sides that are compared, so that no ratio is made of two runs. A source model that a benchmark trains
once is kept likewise, with what it was made of.
"""

import hashlib
import importlib.metadata
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bandgap.foundation.json_lines import append_line, read_lines
from bandgap.storage.manifests import manifest_kind

Figures = dict[str, Any]
MADE_OF = "-made-of.json"  # after the name of a source's folder: what the source was trained from

_LOG = logging.getLogger(__name__)


class Parts:
    """Figures of parts by name, in a file of JSON lines; without a file nothing is kept.

    A part counts as done where the file holds it with the same settings, measured by the same version of this package;
    the log says how many are of another version. Raises InputError on a file of anything else.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self.n_resumed = file, 0
        self._stored: dict[str, Figures] = {}
        if file is not None:
            self._stored = dict(read_lines(file, _part, what="part of a measurement"))
            if n_other_versions := sum(json.loads(key)[2] != _version() for key in self._stored):
                words = "parts of another version of bandgap, measured again where asked for"
                _LOG.warning("%s: %s: %d", file, words, n_other_versions)

    def get(
        self, name: str, settings: Mapping[str, Any], measure: Callable[[], Figures]
    ) -> Figures:
        """Return the figures of a part, measured where the file does not hold them; `found` counts where it does."""
        key = _key(name, settings, _version())
        if key in self._stored:
            self.n_resumed += 1
            return self._stored[key]
        figures = measure()
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            line = {
                "part": name,
                "settings": dict(settings),
                "version": _version(),
                "figures": figures,
            }
            append_line(self._file, line)
        return figures


def kept_source(folder: Path, facts: Mapping[str, Any], train: Callable[[], Path]) -> Path:
    """Return the folder of a source model, trained unless there is one that was made of the same.

    `made_of` are plain values: the data, the request and the seed; the version of this package is added. The log says
    where a source is trained again because these differ.
    """
    record = folder.with_name(folder.name + MADE_OF)
    now = json.loads(json.dumps({**facts, "version": _version()}))
    if manifest_kind(folder) is not None:
        if _read_record(record) == now:
            return folder
        _LOG.warning(
            "%s: made of other data, with other settings or by another version, and trained again",
            folder,
        )
    record.unlink(missing_ok=True)
    train()
    record.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return folder


def file_digest(path: Path) -> str:
    """Return SHA-256 (hexadecimal) of a file, "" where there is none: other data make another part."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(name: str, settings: Mapping[str, Any], version: str) -> str:
    return json.dumps([name, dict(settings), version], sort_keys=True)


def _part(line: Figures) -> tuple[str, Figures]:
    return _key(line["part"], line["settings"], str(line.get("version", ""))), dict(line["figures"])


def _version() -> str:
    return importlib.metadata.version("bandgap")


def _read_record(path: Path) -> Any:
    """Return what a source was made of, None where there is no readable record."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
