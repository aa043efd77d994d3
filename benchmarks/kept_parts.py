"""Parts of a long benchmark, stored in a file as they finish: a later call resumes after them.

A part has all methods that are compared, so that no ratio mixes two runs. A source model that a
benchmark trains once is stored too, with a record of its inputs.
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
# Suffix of the record next to a source's folder: the inputs of its training.
MADE_OF = "-made-of.json"

_LOG = logging.getLogger(__name__)


class Parts:
    """Figures of parts by name, in a file of JSON lines; without a file nothing is stored.

    A part is reused if the file has it with the same settings and the same version of this
    package. The log says how many parts are of another version. Raises InputError if the file has
    other content.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.n_resumed = 0
        self._stored: dict[str, Figures] = {}
        if file is not None:
            self._stored = dict(read_lines(file, _part, what="part of a measurement"))
            if n_other_versions := sum(json.loads(key)[2] != _version() for key in self._stored):
                _LOG.warning(
                    "%s: %d parts are of another version of bandgap and are not reused",
                    file,
                    n_other_versions,
                )

    def get(
        self, name: str, settings: Mapping[str, Any], measure: Callable[[], Figures]
    ) -> Figures:
        """Return the stored figures of a part, or measure and store them."""
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
    """Return the folder of a source model, and train it unless its record has the same inputs.

    `facts` are the inputs as plain values: data, request and seed. The version of this package is
    added. The log says if a source is trained again.
    """
    record = folder.with_name(folder.name + MADE_OF)
    now = json.loads(json.dumps({**facts, "version": _version()}))
    if manifest_kind(folder) is not None:
        if _read_record(record) == now:
            return folder
        _LOG.warning(
            "%s: data, settings or version of bandgap differ; the source is trained again",
            folder,
        )
    record.unlink(missing_ok=True)
    train()
    record.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return folder


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits, "" if there is no file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(name: str, settings: Mapping[str, Any], version: str) -> str:
    return json.dumps([name, dict(settings), version], sort_keys=True)


def _part(line: Figures) -> tuple[str, Figures]:
    return _key(line["part"], line["settings"], line["version"]), dict(line["figures"])


def _version() -> str:
    return importlib.metadata.version("bandgap")


def _read_record(path: Path) -> Any:
    """Return the record of a source's inputs, None if there is no readable one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
