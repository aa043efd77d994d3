"""Read Parquet tables: every row is a structure, in columns of numbers or as the text of a file.

| column | content |
|---|---|
| `numbers` or `symbols` | list of atomic numbers, or of elements |
| `positions` | three coordinates of every atom, as nested lists or one list, in angstrom |
| `cell` | three vectors, as nested lists or one list, in angstrom; empty without a cell |
| `pbc` | true, false or three of these; without the column, a structure with a cell is periodic |
| `cif`, `poscar`, `xyz`, `optimade` | instead of the columns above: text of a file |
| `id`, `material_id`, `name` and others | the structure's id; see `bandgap.structures.ids` |

Every other column of numbers, texts or flags becomes a key of the structure, such as `gap_eV`.
Nothing in the file is executed. Batches of rows are decoded one after the other. A file of 100
bytes may describe a billion equal values, and a damaged one may end pyarrow's process (pyarrow 26:
"Definition level histogram size mismatch"). So the sizes that the file states are checked first,
and the limits of uploads (see `bandgap.structures.uploads`) hold for what they do not say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.contents import Content
from bandgap.structures.draft import (
    Draft,
    Format,
    Unreadable,
    periodic_flags,
    refused_draft,
)
from bandgap.structures.elements import symbol_of
from bandgap.structures.formats import cif, optimade, poscar, xyz
from bandgap.structures.formats.json_values import short_values
from bandgap.structures.ids import stated_id
from bandgap.structures.records import InfoValue, Limits

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq

TEXTS = {"cif": cif.FORMAT, "poscar": poscar.FORMAT, "xyz": xyz.FORMAT, "optimade": optimade.FORMAT}
COLUMNS = "positions with numbers or symbols, and cell and pbc of crystals; or one of " + ", ".join(
    TEXTS
)
_GEOMETRY = ("numbers", "symbols", "positions", "cell", "pbc")
_ROWS: Final = 256  # in a batch
_METADATA: Final = 10_000_000  # largest number of bytes and items of the file's metadata


@dataclass(frozen=True)
class _Layout:
    """Columns of a table: geometry or text of files, and columns that become keys."""

    geometry: tuple[str, ...]
    text: str
    info: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are used."""
        return list(dict.fromkeys(name for name in (*self.geometry, self.text, *self.info) if name))


def read_parquet(content: Content, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every row. Raises Unreadable if the table is damaged or has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows = 0
    with content.on_disk() as stream:
        try:
            file = pq.ParquetFile(
                stream,
                page_checksum_verification=True,
                thrift_string_size_limit=_METADATA,
                thrift_container_size_limit=_METADATA,
            )
            layout = _layout(file.schema_arrow)
            _check_size(file.metadata, layout.columns, max_bytes=limits.max_file_bytes)
            for batch in file.iter_batches(_ROWS, columns=layout.columns, use_threads=False):
                batch.validate(full=True)
                for draft in _drafts(batch, layout, limits=limits):
                    n_rows += 1
                    draft.suffix = str(n_rows)
                    yield draft
        except MemoryError:
            raise
        except (pa.ArrowException, OSError):
            after = f" (after row {n_rows:,})" if n_rows else ""
            raise Unreadable(
                f"a damaged Parquet file. Is it cut off? Write it again{after}"
            ) from None


def _check_size(metadata: "pq.FileMetaData", columns: list[str], *, max_bytes: int) -> None:
    """Raise Unreadable for columns that unpack to more; a value counts as at least four bytes."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (chunk for group in groups for chunk in map(group.column, range(group.num_columns)))
    if max_bytes < sum(
        max(chunk.total_uncompressed_size, 4 * chunk.num_values)
        for chunk in chunks
        if {chunk.path_in_schema, chunk.path_in_schema.partition(".")[0]} & set(columns)
    ):
        raise Unreadable(
            f"the table has more than {max_bytes / 1e6:,.1f} MB when unpacked, which is the limit."
            " Split it, or leave out columns that are not needed"
        )


def _layout(schema: "pyarrow.Schema") -> _Layout:
    """Return the columns to use. Raises Unreadable if the table has no structures."""
    types = {
        name: schema.types[k]
        for k, name in enumerate(schema.names)
        if schema.names.count(name) == 1
    }
    text = next((name for name in TEXTS if name in types), "")
    elements = next((name for name in ("numbers", "symbols") if name in types), "")
    if "positions" in types and elements:
        text = ""
        _check_lists(types)
    elif not text:
        column_names = ", ".join(list(types)[:8]) or "none"
        raise Unreadable(
            f"a Parquet table without structures; its columns are {column_names}. Accepted:"
            f" {COLUMNS}"
        )
    elif not _is_text(types[text]):
        raise Unreadable(f"the column {text} must contain text, that of a file in every row")
    geometry = () if text else tuple(name for name in (elements, *_GEOMETRY[2:]) if name in types)
    reserved = {*_GEOMETRY, *TEXTS}
    info = tuple(
        name
        for name, type_ in types.items()
        if name not in reserved and _is_plain(type_) and name[:2] != "__"
    )
    return _Layout(geometry, text, info)


def _check_lists(types: "dict[str, pyarrow.DataType]") -> None:
    import pyarrow.types as kinds

    accepted = {
        "numbers": (kinds.is_integer, 1, "a list of atomic numbers"),
        "symbols": (_is_text, 1, "a list of elements such as C and H"),
        "positions": (_is_number, 2, "lists of numbers"),
        "cell": (_is_number, 2, "lists of numbers"),
        "pbc": (lambda kind: kinds.is_boolean(kind) or kinds.is_integer(kind), 1, "true and false"),
    }
    for name, (is_leaf, max_depth, description) in accepted.items():
        kind = types.get(name)
        depth = 0
        while kind is not None and _is_list(kind):
            kind = kind.value_type
            depth += 1
        min_depth = 0 if name == "pbc" else 1
        if (
            kind is not None
            and not (is_leaf(kind) and min_depth <= depth <= max_depth)
            and not kinds.is_null(kind)
        ):
            raise Unreadable(
                f"the column {name} must contain {description}, and contains {types[name]}"
            )


def _is_list(kind: "pyarrow.DataType") -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _is_number(kind: "pyarrow.DataType") -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_floating(kind) or kinds.is_integer(kind))


def _is_text(kind: "pyarrow.DataType") -> bool:
    import pyarrow.types as kinds

    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    return bool(kinds.is_string(plain) or kinds.is_large_string(plain))


def _is_plain(kind: "pyarrow.DataType") -> bool:
    """Return whether a column has a number, a text or a flag in each row."""
    import pyarrow.types as kinds

    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    return _is_number(plain) or _is_text(plain) or bool(kinds.is_boolean(plain))


def _drafts(batch: "pyarrow.RecordBatch", layout: _Layout, *, limits: Limits) -> Iterator[Draft]:
    columns = {name: batch.column(name) for name in layout.columns}
    plain = {name: columns[name].to_pylist() for name in layout.info}
    for k in range(batch.num_rows):
        try:
            if layout.text:
                draft = draft_of_text(columns[layout.text][k].as_py(), layout.text, limits=limits)
            else:
                draft = _from_numbers(
                    {name: columns[name][k] for name in layout.geometry}, limits=limits
                )
        except Unreadable as error:
            draft = refused_draft(str(error))
        draft.format = FORMAT.name
        draft.info = {**draft.info, **_info({name: values[k] for name, values in plain.items()})}
        draft.id = stated_id(draft.info) or draft.id
        yield draft


def draft_of_text(text: object, column: str, *, limits: Limits) -> Draft:
    """Return the structure of a text. Raises Unreadable if there is not exactly one."""
    if not isinstance(text, str) or not text.strip():
        raise Unreadable(f"nothing in the column {column}")
    if len(text) > limits.max_file_bytes:
        raise Unreadable(f"a text of {len(text):,} characters in the column {column}")
    if "\n" not in text and column != "optimade":
        text = text.replace("\\n", "\n")  # as some programs write the ends of lines
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    form = TEXTS[column]
    source = text.split("\n") if form.takes == "lines" else text
    drafts = iter(form.read(source, limits=limits))
    draft = next(drafts, None)
    if draft is None:
        raise Unreadable(f"no structure in the column {column}")
    if next(drafts, None) is not None:
        raise Unreadable(
            f"several structures in one row of the column {column}. Give each structure its own row"
        )
    return draft


def _from_numbers(cells: "dict[str, pyarrow.Scalar]", *, limits: Limits) -> Draft:
    """Return the structure of the cells of a row. Raises Unreadable if they are not valid."""
    elements = cells.get("numbers", cells.get("symbols"))
    positions = _numbers(cells["positions"])
    if elements is None or not elements.is_valid or positions is None:
        raise Unreadable("a row without elements or positions")
    n = len(elements.values)
    if n > limits.max_atoms:
        raise Unreadable(f"the structure has {n:,} atoms; the limit is {limits.max_atoms:,}")
    if positions.size != 3 * n:
        raise Unreadable(
            f"a row of {n:,} elements and {positions.size:,} coordinates; three for each are"
            " expected"
        )
    draft = Draft(list(map(symbol_of, elements.as_py())), positions.reshape(n, 3))
    cell = _numbers(cells["cell"]) if "cell" in cells else None
    if cell is not None and cell.size:
        if cell.size != 9:
            raise Unreadable(f"a cell of {cell.size} numbers; three vectors of three are expected")
        draft.cell = cell.reshape(3, 3)
    has_cell = draft.cell is not None and bool(np.any(draft.cell))
    draft.pbc = periodic_flags(cells["pbc"].as_py() if "pbc" in cells else None, default=has_cell)
    return draft


def _numbers(cell: "pyarrow.Scalar") -> NDArray[np.float64] | None:
    """Return the numbers of a list, or of lists of three, as one array; missing ones are NaN."""
    if not cell.is_valid or not hasattr(cell, "values"):
        return None
    values = cell.values
    if _is_list(values.type):
        if values.null_count or any(len(row.values) != 3 for row in values):
            raise Unreadable("lists of coordinates that are not three each")
        values = values.flatten()
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _info(cells: dict[str, Any]) -> dict[str, InfoValue]:
    """Return the values of a row without empty cells, which pandas writes as NaN."""
    return {name: value for name, value in short_values(cells).items() if value == value}


FORMAT = Format(
    "Parquet",
    label="Parquet",
    read=read_parquet,
    takes="content",
)
