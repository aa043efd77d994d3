"""The user's own table of numbers for each structure: read, check and join it to records by id.

Accepted are CSV (also with semicolons or tabs), Parquet and npz. In CSV and Parquet the ids are in
the index of a pandas table, else in the column headed id, else in the first one. An npz has the
arrays `ids` and `features`, and possibly `columns`, or one vector for each id.
"""

import csv
import dataclasses
import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import OwnColumns
from bandgap.foundation.arguments import as_path, described
from bandgap.foundation.children import in_child
from bandgap.foundation.config import from_dict
from bandgap.foundation.errors import InputError, listed, printable
from bandgap.structures.ids import ID_KEYS
from bandgap.structures.packed import PackedRecord
from bandgap.structures.records import OwnRow, OwnTable, StructureRecord

if TYPE_CHECKING:
    import pandas as pd

ACCEPTED = "a table that ends in .csv, .tsv, .txt, .parquet or .npz"
_SHOWN = 3
# Time and memory in which an upload is read.
_SECONDS = 60.0
_MEMORY_BYTES = 2_000_000_000


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """Values (n, column) of a table with the ids of its rows."""

    table: OwnTable
    ids: tuple[str, ...]
    values: NDArray[np.float64]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {id_: row for row, id_ in enumerate(self.ids)}

    def joined(
        self, records: Iterable[StructureRecord | PackedRecord]
    ) -> Iterator[StructureRecord | PackedRecord]:
        """Yield the records with their rows; a record without one stays as it is."""
        for item in records:
            record = item.record if isinstance(item, PackedRecord) else item
            row = self._rows.get(record.id)
            if row is None:
                yield item
                continue
            record = dataclasses.replace(record, user_features=OwnRow(self.table, self.values[row]))
            if isinstance(item, PackedRecord):
                yield dataclasses.replace(item, record=record)
            else:
                yield record

    def matched(self, records: Sequence[StructureRecord]) -> list[StructureRecord]:
        """Return the records with their rows; raise InputError if no record has one."""
        joined = [item for item in self.joined(records) if isinstance(item, StructureRecord)]
        if records and all(record.user_features is None for record in joined):
            raise InputError(
                f"{self.table.file}: no row has the id of a structure. Ids in the table: "
                f"{_listed(self.ids)}; of the structures: {_listed([r.id for r in records])}."
            )
        return joined

    def summary(self, records: Sequence[StructureRecord]) -> str:
        """Return how many of the joined records have a row."""
        lacking = [record.id for record in records if record.user_features is None]
        without = f"; none for {_listed(lacking)}" if lacking else ""
        return (
            f"{len(self.table.columns):,} own features of {len(records) - len(lacking):,} of "
            f"{len(records):,} structures in {self.table.file}{without}."
        )

    def check_columns(self, user_features: OwnColumns | None) -> None:
        """Raise InputError unless the table has the columns that a run learned from."""
        if user_features is None:
            raise InputError(
                f"{self.table.file}: this run learned from no own features. Leave out --features."
            )
        lacking = [name for name in user_features.columns if name not in self.table.columns]
        if lacking:
            raise InputError(
                f"{self.table.file}: {len(lacking):,} of the {len(user_features.columns):,} "
                f"columns that this run learned from are missing: {_listed(lacking)}. Found: "
                f"{_listed(self.table.columns)}. Make the table as {user_features.file} was made."
            )


def own_features(source: object, *, name: str = "features") -> OwnFeatures:
    """Return own features from a path, a DataFrame indexed by id, or a mapping of id to vector.

    A table that was read already is returned unchanged. Raises InputError for another kind, and for
    values, ids or columns that are not accepted.
    """
    import pandas as pd

    if isinstance(source, OwnFeatures):
        return source
    if isinstance(source, pd.DataFrame):
        frame = source.rename(index=str, columns=str)
        frame.index.name = None
        digest = hashlib.sha256(frame.to_csv().encode())
        return _checked(frame, name, digest.hexdigest())
    if isinstance(source, Mapping):
        return own_features(_frame_of_vectors(source, name), name=name)
    if not isinstance(source, (str, Path)):
        raise InputError(
            f"{name}: found {described(source)}. Accepted: a path, a pandas DataFrame indexed by "
            "the ids of the structures, or a mapping of id to vector."
        )
    path = as_path(source, name=name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{source}: the features cannot be read ({error.strerror}).") from error
    return read_features(content, path.name)


def read_features(content: bytes, name: str) -> OwnFeatures:
    """Return the own features in a file's content; `name` is that of the file."""
    suffix = Path(name).suffix.lower()
    readers = {".parquet": _read_parquet, ".npz": _read_npz}
    readers |= dict.fromkeys((".csv", ".tsv", ".txt"), _read_csv)
    if suffix not in readers:
        raise InputError(f"{name}: unknown format. Accepted: {ACCEPTED}.")
    try:
        frame = readers[suffix](content, name)
    except (
        ValueError,
        KeyError,
        OSError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:  # of pandas, numpy and pyarrow
        raise InputError(
            f"{name}: not a readable {suffix} file ({printable(str(error))})."
        ) from error
    return _checked(frame, name, hashlib.sha256(content).hexdigest())


def uploaded(content: bytes, name: str) -> OwnFeatures:
    """Return the own features in an uploaded file, which a child process reads."""
    head, *rows = in_child(_items, content, seconds=_SECONDS, n_bytes=_MEMORY_BYTES, name=name)
    ids, values = zip(*rows, strict=True)
    return OwnFeatures(
        OwnTable(tuple(head["columns"]), name, head["sha256"]), ids, np.array(values)
    )


def _items(content: bytes, *, name: str) -> Iterator[Any]:
    features = read_features(content, name)
    yield {"columns": features.table.columns, "sha256": features.table.sha256}
    for id_, values in zip(features.ids, features.values, strict=True):
        yield id_, values.tolist()


def with_run_features(
    records: list[StructureRecord], features: object, user_features: OwnColumns | None
) -> list[StructureRecord]:
    """Return records with the rows of a table of own features, if a run needs one.

    Errors are those of `run_features`. Records may have their rows already.
    """
    if not _is_given(features) and any(record.user_features for record in records):
        return records
    table = run_features(features, user_features)
    return records if table is None else table.matched(records)


def run_features(features: object, user_features: OwnColumns | None) -> OwnFeatures | None:
    """Return the table of own features for a prediction, None for a run without.

    Raises InputError unless it has the columns that the run learned from.
    """
    if _is_given(features):
        table = own_features(features)
        table.check_columns(user_features)
        return table
    if user_features is None:
        return None
    raise InputError(
        f"This run learned from {len(user_features.columns):,} own features "
        f"({user_features.words}). Name their table for these structures: --features FILE "
        "(on the page Predict, below the files; in Python, features)."
    )


def _is_given(features: object) -> bool:
    return features is not None and not (isinstance(features, str) and not features)


def own_of_run(manifest: Mapping[str, Any]) -> OwnColumns | None:
    """Return the own features in a run's manifest."""
    values = manifest["descriptor"].get("user_features")
    return None if values is None else from_dict(OwnColumns, values)


def _read_csv(content: bytes, name: str) -> "pd.DataFrame":
    import pandas as pd

    first_line = content.partition(b"\n")[0].decode("utf-8-sig", errors="replace").strip("\r")
    separator = max(",;\t", key=first_line.count)
    header = next(csv.reader([first_line], delimiter=separator), [])
    if len(header) < 2:
        raise InputError(f"{name}: one column. Accepted: a column id and one for each feature.")
    _check_unique(header, name, "columns")
    id_column = _id_column(header)
    frame = pd.read_csv(
        io.BytesIO(content),
        sep=separator,
        encoding="utf-8-sig",
        names=header,
        header=0,
        index_col=False,
        converters={id_column: str},
    )
    return frame.set_index(id_column)


def _read_parquet(content: bytes, name: str) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.read_parquet(io.BytesIO(content))
    if not isinstance(frame.index, pd.RangeIndex):
        return frame
    return frame.set_index(_id_column(list(map(str, frame.columns))))


def _read_npz(content: bytes, name: str) -> "pd.DataFrame":
    import pandas as pd

    if content[:2] != b"PK":
        raise InputError(f"{name}: not an npz file, which numpy.savez writes.")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        if {"ids", "features"} <= set(arrays):
            values = arrays["features"]
            columns = arrays["columns"] if "columns" in arrays else range(values.shape[1])
            return pd.DataFrame(values, index=arrays["ids"], columns=columns)
        return _frame_of_vectors(arrays, name)


def _frame_of_vectors(vectors: Mapping[Any, Any], name: str) -> "pd.DataFrame":
    import pandas as pd

    rows = {str(id_): np.asarray(vector) for id_, vector in vectors.items()}
    shapes = Counter(row.shape for row in rows.values())
    if not shapes:
        raise InputError(f"{name}: the table is empty. Accepted: a row for each structure.")
    usual = shapes.most_common(1)[0][0]
    for id_, row in rows.items():
        if row.ndim != 1 or row.shape != usual:
            raise InputError(
                f"{name}: {printable(id_)} has an array {row.shape}, others {usual}. Accepted: one "
                "vector of the same length for each id."
            )
    return pd.DataFrame(np.stack(list(rows.values())), index=list(rows))


def _id_column(header: Sequence[str]) -> str:
    """Return the header of the ids: id or another usual one, else the first."""
    plain = {name.lower().replace("_", ""): name for name in reversed(header)}
    return next((plain[key] for key in ID_KEYS if key in plain), header[0])


def _checked(frame: "pd.DataFrame", name: str, sha256: str) -> OwnFeatures:
    """Return the features of a table indexed by id; raise InputError for what is not accepted."""
    ids = [str(id_).strip() for id_ in frame.index]
    columns = [str(column) for column in frame.columns]
    if not ids or not columns:
        raise InputError(f"{name}: the table is empty. Accepted: a row for each structure.")
    _check_unique(columns, name, "columns")
    _check_unique(ids, name, "ids")
    for column, kind in zip(columns, frame.dtypes, strict=True):
        if kind.kind not in "fiu":
            example = next(iter(frame[frame.columns[columns.index(column)]]))
            raise InputError(
                f"{name}: the column {printable(column)!r} is not numeric (such as "
                f"{printable(str(example))!r}). Leave it out, or turn it into numbers."
            )
    values = frame.to_numpy(dtype=np.float64)
    with np.errstate(over="ignore"):
        wrong = np.argwhere(~np.isfinite(values.astype(np.float32)))
    if len(wrong):
        row, column_number = wrong[0]
        raise InputError(
            f"{name}: {len(wrong):,} values are empty or no finite numbers; the first is that of "
            f"{printable(ids[row])} in the column {printable(columns[column_number])!r} "
            f"({values[row, column_number]}). Compute it, or leave the row out."
        )
    return OwnFeatures(OwnTable(tuple(columns), name, sha256), tuple(ids), values)


def _check_unique(names: Sequence[str], name: str, what: str) -> None:
    repeated = [text for text, n in Counter(names).items() if n > 1]
    if repeated:
        raise InputError(f"{name}: repeated {what}: {_listed(repeated)}. Keep each once.")


def _listed(names: Sequence[str]) -> str:
    return printable(listed(names, _SHOWN))
