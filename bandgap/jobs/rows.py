"""Rows of the workspace tables as frozen dataclasses, and the limits of an upload."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import InputError
from bandgap.jobs.database import row_damage_reported
from bandgap.runs.requests import TransferRequest

Origin = Literal["upload", "demo", "demo-inorganic", "folder"]
Purpose = Literal["training", "prediction", "calculations"]

MAX_FILES = 5_000
MAX_UPLOAD_BYTES = 200_000_000  # all files of one data set together
MAX_FILE_BYTES = 20_000_000  # one file; the page server has the same limit


@dataclass(frozen=True)
class Dataset:
    """A named set of structures; `labels` has the origin of its gaps and what did not match."""

    id: str
    workspace: str
    name: str
    origin: Origin
    purpose: Purpose
    level_of_theory: str
    labels: Mapping[str, Any]
    created: float


@dataclass(frozen=True)
class Verdict:
    """The result of the check of one structure.

    `info` contains its numbers from the file, which may be labels, and their level of theory.
    """

    id: str
    file: str
    status: Literal["ready", "warning", "refused"]
    problem: str
    formula: str
    n_atoms: int
    periodic: bool
    gap_eV: float | None
    info: Mapping[str, float | str]

    @staticmethod
    def of(row: sqlite3.Row) -> "Verdict":
        """Return the verdict from a row of the table `structure`."""
        with row_damage_reported("structure"):
            values = {field.name: row[field.name] for field in fields(Verdict)}
            info = dict(parse_json(row["info"], what="info"))
            return Verdict(**{**values, "periodic": bool(row["periodic"]), "info": info})

    def to_row(self) -> tuple[object, ...]:
        """Return its columns in that table: the fields above, in their order."""
        return tuple({**vars(self), "info": json.dumps(dict(self.info))}.values())


@dataclass(frozen=True)
class StoredFile:
    """An uploaded file: `name` is text to show, `content` the digest under which it is stored."""

    name: str
    content: str
    n_bytes: int


@dataclass(frozen=True)
class RunRow:
    """A run as the lists show it; its state is the state of its job."""

    id: str
    workspace: str
    job: str
    dataset: str
    source: str
    method: str
    title: str
    fingerprint: str
    request: TransferRequest
    created: float


def bin_of(workspace: str) -> str:
    """Return the workspace of what was deleted in a workspace and can be restored."""
    return f"bin {workspace}"


def check_upload(files: Sequence[tuple[str, bytes]]) -> None:
    """Raise InputError when an upload is over a limit; the message says what to do instead."""
    if len(files) > MAX_FILES:
        raise InputError(
            f"{len(files):,} files in one upload; at most {MAX_FILES:,} are accepted. "
            "Put them into one zip archive."
        )
    for name, data in files:
        if len(data) > MAX_FILE_BYTES:
            raise InputError(
                f"{name} has {len(data) / 1e6:.0f} MB; at most {MAX_FILE_BYTES / 1e6:.0f} MB a "
                "file are accepted. Split it, or use the command line on the machine that has it."
            )
    total = sum(len(data) for _, data in files)
    if total > MAX_UPLOAD_BYTES:
        raise InputError(
            f"{total / 1e6:.0f} MB in one upload; at most {MAX_UPLOAD_BYTES / 1e6:.0f} MB are "
            "accepted. Upload in parts, or use the command line on the machine that has the files."
        )
