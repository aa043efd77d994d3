"""Data sets with a verdict for every structure, runs, and the catalogue for the dashboard."""

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.jobs.database import Database, row_damage_reported
from bandgap.jobs.disk import check_quota
from bandgap.jobs.entries import MethodEntry, PresetEntry, SourceEntry, SystemEntry
from bandgap.jobs.home import Home
from bandgap.jobs.rows import Dataset, Origin, Purpose, RunRow, StoredFile, Verdict, check_upload
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.runs.requests import TransferRequest

Kind = Literal["source", "method", "descriptor", "system"]
_ENTRY_TYPES: Mapping[Kind, type[Any]] = {
    "source": SourceEntry,
    "method": MethodEntry,
    "descriptor": PresetEntry,
    "system": SystemEntry,
}


class Library:
    """Data sets, runs and the catalogue in the data directory's SQLite file."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.database = Database(home.database)

    # -- data sets

    def add_dataset(
        self,
        workspace: str,
        name: str,
        *,
        origin: Origin = "upload",
        purpose: Purpose = "training",
        files: Sequence[tuple[str, bytes]] = (),
        dataset_id: str = "",
        stored: Sequence[StoredFile] = (),
        then: Callable[[Dataset], object] = lambda dataset: None,
    ) -> Dataset:
        """Store uploaded files as a new data set.

        Parameters
        ----------
        workspace
            Id of the workspace.
        name
            Name of the data set.
        origin, purpose
            Where its structures come from and what they are for.
        files
            Name and bytes of each uploaded file.
        dataset_id
            Id of the data set, a new one by default. Where it exists, nothing is changed.
        stored
            Files that are in the data directory already.
        then
            Called in the same transaction, to queue the job of the data set. So no data set is
            without its job, whenever the process ends.

        Raises
        ------
        InputError
            Over the limits of an upload and over the quota of the workspace.
        """
        self.database.check_writable()
        check_upload(files)
        check_quota(self, workspace, adding=sum(len(data) for _, data in files))
        dataset_files = list(stored)
        for file_name, data in files:
            dataset_files.append(StoredFile(file_name, self.home.save_upload(data), len(data)))
        dataset = Dataset(
            dataset_id or str(uuid.uuid4()),
            workspace,
            name,
            origin,
            purpose,
            level_of_theory="",
            labels={},
            created=time.time(),
        )
        with self.database.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO workspace VALUES (?, ?)", (workspace, time.time())
            )
            connection.execute(
                "INSERT OR IGNORE INTO dataset (id, workspace, name, origin, purpose, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (dataset.id, workspace, name, origin, purpose, dataset.created),
            )
            _insert_files(connection, dataset.id, dataset_files)
            then(dataset)
        return dataset

    def add_files(self, dataset_id: str, files: Iterable[StoredFile]) -> None:
        """Add stored files to a data set that has none yet."""
        with self.database.writing() as connection:
            _insert_files(connection, dataset_id, files)

    def dataset(self, workspace: str, dataset_id: str) -> Dataset:
        """Return a data set of this workspace.

        Raises InputError when the workspace has none of that id.
        """
        row = self.database.row(
            "SELECT * FROM dataset WHERE id = ? AND workspace = ?", dataset_id, workspace
        )
        if row is None:
            raise InputError(
                "This workspace has no such data set. Choose one from the list, or upload it again."
            )
        return _dataset(row)

    def datasets(self, workspace: str, *, purpose: Purpose = "training") -> list[Dataset]:
        """Return the data sets of a workspace, newest first."""
        query = "SELECT * FROM dataset WHERE workspace = ? AND purpose = ? ORDER BY created DESC"
        return [_dataset(row) for row in self.database.rows(query, workspace, purpose)]

    def deleted_datasets(self, workspace: str) -> dict[str, str]:
        """Return the names of the deleted data sets of a workspace by id."""
        rows = self.database.rows(
            "SELECT id, name FROM deleted_dataset WHERE workspace = ?", workspace
        )
        return {row["id"]: row["name"] for row in rows}

    def files(self, dataset_id: str) -> list[StoredFile]:
        """Return the uploaded files of a data set in the order of the upload."""
        rows = self.database.rows(
            "SELECT * FROM dataset_file WHERE dataset = ? ORDER BY seq", dataset_id
        )
        return [StoredFile(row["name"], row["content"], row["n_bytes"]) for row in rows]

    def save_verdicts(
        self,
        dataset_id: str,
        verdicts: Iterable[Verdict],
        *,
        first: int = 0,
    ) -> None:
        """Replace the verdicts of a data set from row `first` on, in the reading order."""
        rows = [(dataset_id, k, *v.to_row()) for k, v in enumerate(verdicts, start=first)]
        with self.database.writing() as connection:
            connection.execute(
                "DELETE FROM structure WHERE dataset = ? AND row >= ?", (dataset_id, first)
            )
            connection.executemany(
                "INSERT INTO structure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def verdicts(self, dataset_id: str) -> list[Verdict]:
        """Return the verdicts of a data set in the reading order of its structures."""
        rows = self.database.rows(
            "SELECT * FROM structure WHERE dataset = ? ORDER BY row", dataset_id
        )
        return [Verdict.of(row) for row in rows]

    def counts(self, dataset_id: str) -> dict[str, int]:
        """Return the numbers of structures by status, and those with a gap.

        Keys are all, ready, warning, refused, labelled, usable (labelled and not refused), and
        metals (usable with a gap of zero).
        """
        rows = self.database.rows(
            "SELECT status, count(*) AS n, count(gap_eV) AS gaps,"
            " count(CASE WHEN gap_eV <= ? THEN 1 END) AS metals FROM structure"
            " WHERE dataset = ? GROUP BY status",
            ZERO_EV,
            dataset_id,
        )
        by_status = {row["status"]: (int(row["n"]), int(row["gaps"])) for row in rows}
        labelled = sum(gaps for _, gaps in by_status.values())
        statuses = {
            status: by_status.get(status, (0, 0))[0] for status in ("ready", "warning", "refused")
        }
        usable = labelled - by_status.get("refused", (0, 0))[1]
        return {
            "all": sum(n for n, _ in by_status.values()),
            **statuses,
            "labelled": labelled,
            "usable": usable,
            "metals": sum(int(row["metals"]) for row in rows if row["status"] != "refused"),
        }

    def save_gaps(
        self,
        dataset_id: str,
        gaps_eV: NDArray[np.float64],
        *,
        labels: Mapping[str, Any],
        level_of_theory: str,
    ) -> None:
        """Store the gap of every structure (NaN: none), their origin and their level of theory."""
        values = [
            (None if np.isnan(gap) else float(gap), dataset_id, k) for k, gap in enumerate(gaps_eV)
        ]
        with self.database.writing() as connection:
            connection.executemany(
                "UPDATE structure SET gap_eV = ? WHERE dataset = ? AND row = ?", values
            )
            connection.execute(
                "UPDATE dataset SET labels = ?, level_of_theory = ? WHERE id = ?",
                (json.dumps(dict(labels)), level_of_theory, dataset_id),
            )

    def save_numbers(self, dataset_id: str, name: str, values: NDArray[np.float64]) -> None:
        """Add a number (NaN: none) to every structure, such as a gap at a cheaper level."""
        numbers = [
            (f'$."{name}"', float(v), dataset_id, k) for k, v in enumerate(values) if np.isfinite(v)
        ]
        with self.database.writing() as connection:
            connection.executemany(
                "UPDATE structure SET info = json_set(info, ?, ?) WHERE dataset = ? AND row = ?",
                numbers,
            )

    # -- runs

    def add_run(
        self,
        workspace: str,
        *,
        job: str,
        run_id: str,
        dataset: str,
        source: str,
        request: TransferRequest,
        title: str,
    ) -> None:
        """Add a run with its request; the same run again changes nothing."""
        self.database.write(
            "INSERT OR IGNORE INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            run_id,
            workspace,
            job,
            dataset,
            source,
            str(request.method),
            title,
            fingerprint(request.work),
            json.dumps(request.to_values()),
            time.time(),
        )

    def set_job(self, workspace: str, run_id: str, *, job: str) -> None:
        """Set the job that now computes a run."""
        self.database.write(
            "UPDATE run SET job = ? WHERE id = ? AND workspace = ?", job, run_id, workspace
        )

    def run(self, workspace: str, run_id: str) -> RunRow | None:
        """Return a run of this workspace, or None."""
        row = self.database.row(
            "SELECT * FROM run WHERE id = ? AND workspace = ?", run_id, workspace
        )
        return _run(row) if row else None

    def runs(self, workspace: str) -> list[RunRow]:
        """Return the 500 newest runs of a workspace, newest first."""
        query = "SELECT * FROM run WHERE workspace = ? ORDER BY created DESC, rowid DESC LIMIT 500"
        return [_run(row) for row in self.database.rows(query, workspace)]

    # -- catalogue

    def register_methods(self, entries: Mapping[str, MethodEntry]) -> None:
        """Replace the methods of the catalogue."""
        self._register("method", entries)

    def register_sources(self, entries: Mapping[str, SourceEntry]) -> None:
        """Replace the shipped source models of the catalogue."""
        self._register("source", entries)

    def register_presets(self, entries: Mapping[str, PresetEntry]) -> None:
        """Replace the descriptor presets of the catalogue."""
        self._register("descriptor", entries)

    def register_system(self, entry: SystemEntry) -> None:
        """Replace the catalogue's entry of the worker's machine."""
        self._register("system", {"worker": entry})

    def methods(self) -> dict[str, MethodEntry]:
        """Return the transfer methods by name, in the registry's order.

        Empty before a worker has registered them.
        """
        return self._entries("method")

    def shipped_sources(self) -> dict[str, SourceEntry]:
        """Return the shipped source models by id."""
        return self._entries("source")

    def presets(self) -> dict[str, PresetEntry]:
        """Return the descriptor presets by name."""
        return self._entries("descriptor")

    def system(self) -> SystemEntry | None:
        """Return the worker's machine, None before a worker has registered it."""
        return self._entries("system").get("worker")

    def is_registered(self, kind: Kind) -> bool:
        """Return whether the worker has registered entries of a kind."""
        return self.database.row("SELECT 1 FROM catalogue WHERE kind = ? LIMIT 1", kind) is not None

    def _register(self, kind: Kind, entries: Mapping[str, Any]) -> None:
        rows = [
            (kind, key, rank, json.dumps(to_dict(entry)))
            for rank, (key, entry) in enumerate(entries.items())
        ]
        with self.database.writing() as connection:
            connection.execute("DELETE FROM catalogue WHERE kind = ?", (kind,))
            connection.executemany("INSERT INTO catalogue VALUES (?, ?, ?, ?)", rows)

    def _entries(self, kind: Kind) -> dict[str, Any]:
        rows = self.database.rows(
            "SELECT id, body FROM catalogue WHERE kind = ? ORDER BY rank", kind
        )
        with row_damage_reported("catalogue"):
            for row in rows:
                parse_json(row["body"], what="body")
        try:
            return {row["id"]: _entry(kind, row["body"]) for row in rows}
        except (ConfigError, TypeError):
            return {}  # of a worker of another version; the next worker to start replaces them


def _insert_files(
    connection: sqlite3.Connection, dataset_id: str, files: Iterable[StoredFile]
) -> None:
    rows = [(dataset_id, k, f.name, f.content, f.n_bytes) for k, f in enumerate(files)]
    connection.executemany("INSERT OR IGNORE INTO dataset_file VALUES (?, ?, ?, ?, ?)", rows)


def _dataset(row: sqlite3.Row) -> Dataset:
    with row_damage_reported("dataset"):
        labels = dict(parse_json(row["labels"], what="labels"))
        return Dataset(**{**dict(row), "labels": labels})


def _run(row: sqlite3.Row) -> RunRow:
    with row_damage_reported("run"):
        return RunRow(**{**dict(row), "request": _request(row["request"])})


# A page reads all runs and the catalogue several times, and both hardly change.
@lru_cache(maxsize=4096)
def _request(text: str) -> TransferRequest:
    """Return the request of a stored run, which is not to be changed."""
    return TransferRequest(**parse_json(text, what="request"))


@lru_cache(maxsize=1024)
def _entry(kind: Kind, body: str) -> Any:
    """Return an entry of the catalogue, which is not to be changed."""
    return from_dict(_ENTRY_TYPES[kind], json.loads(body))
