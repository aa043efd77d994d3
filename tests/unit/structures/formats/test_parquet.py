"""Tables of structures in Parquet: rows by their columns, and messages about unusable rows."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bandgap.datasets.gaps import labels_from_info
from bandgap.structures import ACCEPTED, Limits, read_paths, read_structures
from tests.unit.structures.samples import METHANE_XYZ, PARQUET_ROWS, POSCAR, cif, optimade, parquet

WATER, SALT = PARQUET_ROWS


def test_rows_are_structures_with_the_other_columns_as_their_keys():
    water, salt = read_structures(parquet(), "set.parquet")
    assert [(r.id, r.format, r.status, r.formula) for r in (water, salt)] == [
        ("water", "Parquet", "ready", "H2O"),
        ("salt", "Parquet", "ready", "ClNa"),
    ]
    np.testing.assert_array_equal(water.atoms.positions, WATER["positions"])
    np.testing.assert_array_equal(salt.atoms.cell.array, SALT["cell"])
    assert (water.periodic, salt.atoms.pbc.tolist()) == (False, [True] * 3)
    assert dict(water.info) == {"id": "water", "gap_eV": 7.5, "note": "made up"}
    np.testing.assert_array_equal(labels_from_info([water, salt], "gap_eV"), [7.5, np.nan])


SHAPES = {
    "symbols": {"symbols": ["Na", "Cl"], "numbers": None},
    "flat lists": {
        "positions": np.ravel(SALT["positions"]).tolist(),
        "cell": np.ravel(SALT["cell"]).tolist(),
    },
    "one flag": {"pbc": True},
    "no flags": {"pbc": None},
    "flags as numbers": {"pbc": [1, 1, 1]},
}


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_structure_does_not_depend_on_the_nesting_of_columns(changes):
    row = {name: value for name, value in (SALT | changes).items() if value is not None}
    (record,) = read_structures(parquet(row), "set.parquet")
    (expected,) = read_structures(parquet(SALT), "set.parquet")
    assert record.status == "ready" and record.content == expected.content


def test_table_of_pandas_with_single_precision_and_fixed_lists_is_read():
    fixed = pa.list_(pa.list_(pa.float32(), 3))
    table = pa.table(
        {
            "material_id": [7],
            "numbers": pa.array([[11, 17]], pa.list_(pa.int8())),
            "positions": pa.array([SALT["positions"]], fixed),
            "cell": pa.array([SALT["cell"]], fixed),
            "kind": pa.array(["salt"]).dictionary_encode(),
            "gap_eV": pa.array([8.5]).dictionary_encode(),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    (record,) = read_structures(buffer.getvalue(), "set.pq")
    assert (record.id, record.status, dict(record.info)) == (
        "7",
        "ready",
        {"material_id": 7, "kind": "salt", "gap_eV": 8.5},
    )
    buffer = io.BytesIO()
    pd.DataFrame({"cif": [cif()]}, index=["x"]).to_parquet(buffer)
    (record,) = read_structures(buffer.getvalue(), "set.pq")
    assert (record.id, record.status, dict(record.info)) == ("set", "ready", {"block": "shelx"})


TEXTS = {"cif": cif(), "poscar": POSCAR, "xyz": METHANE_XYZ, "optimade": '{"data": [%s]}'}


@pytest.mark.parametrize("column", TEXTS)
def test_column_of_texts_gives_the_structures_of_the_files(column):
    text = TEXTS[column]
    if column == "optimade":
        text = text % optimade().partition('"data": [')[2].partition(', {"id"')[0]
    first, empty, double = read_structures(
        parquet({"id": "a", column: text}, {"id": "b", column: None}, {"id": "c", column: "x"}),
        "set.parquet",
    )
    (alone,) = read_structures(
        text.encode(), {"poscar": "POSCAR", "optimade": "a.json"}.get(column, f"a.{column}")
    )
    assert (first.id, first.status, first.content) == (
        "a",
        alone.status,
        alone.content,
    ) and alone.status != "refused"
    assert (empty.id, empty.problem) == ("b", f"nothing in the column {column}")
    assert double.status == "refused" and len(double.problem.split()) > 2


def test_several_structures_in_a_row_are_refused():
    (record,) = read_structures(parquet({"xyz": METHANE_XYZ * 2}), "a.parquet")
    assert (
        record.problem
        == "several structures in one row of the column xyz. Give each structure its own row"
    )


ROWS = {
    "no elements": ({"numbers": None}, "a row without elements or positions"),
    "no positions": ({"positions": None}, "a row without elements or positions"),
    "too few": (
        {"positions": [[0.0, 0.0, 0.0]]},
        "a row of 2 elements and 3 coordinates; three for each are expected",
    ),
    "pairs": (
        {"positions": [[0.0, 0.0], [0.0] * 4]},
        "lists of coordinates that are not three each",
    ),
    "no element": ({"numbers": [11, 0]}, "an atom of number 0, which is no element"),
    "hole": ({"numbers": [11, None]}, "an atom without an element"),
    "not finite": (
        {"positions": [[0.0, 0.0, None], [2.82] * 3]},
        "the position of atom 1 (Na) is not a finite number",
    ),
    "short cell": (
        {"cell": [[1.0, 2.0, 3.0]]},
        "a cell of 3 numbers; three vectors of three are expected",
    ),
    "flags": ({"pbc": [True]}, "pbc must be one or three of true and false"),
    "no cell": (
        {"cell": None},
        "the structure is marked as periodic and has no lattice. Add the lattice, or set ",
    ),
}


@pytest.mark.parametrize(("changes", "words"), ROWS.values(), ids=ROWS)
def test_invalid_row_is_refused_and_the_other_is_read(changes, words):
    good, bad = read_structures(parquet(WATER, SALT | changes), "a.parquet")
    assert good.status == "ready" and bad.status == "refused" and bad.id == "salt"
    assert bad.problem.startswith(words)


SCHEMAS = {
    "predictions": (
        {"id": "a", "mean_eV": 1.0},
        "a Parquet table without structures; its columns are id, mean_eV. ",
    ),
    "no elements": (
        {"positions": [[0.0] * 3]},
        "a Parquet table without structures; its columns are positions. ",
    ),
    "bytes": ({"cif": b"data_"}, "the column cif must contain text, that of a file in every row"),
    "text": (
        WATER | {"positions": "0 0 0"},
        "the column positions must contain lists of numbers, and contains string",
    ),
    "names": (
        WATER | {"numbers": ["O"]},
        "the column numbers must contain a list of atomic numbers, and contains list<",
    ),
}


@pytest.mark.parametrize(("row", "words"), SCHEMAS.values(), ids=SCHEMAS)
def test_table_of_other_columns_is_refused_by_its_schema(row, words):
    (record,) = read_structures(parquet(row), "a.parquet")
    assert record.status == "refused" and record.problem.startswith(words)


def test_pickled_objects_and_types_of_other_programs_are_never_opened():
    schema = pa.schema(
        [pa.field("cif", pa.binary(), metadata={"ARROW:extension:name": "arrow.py_extension_type"})]
    )
    buffer = io.BytesIO()
    pq.write_table(pa.table({"cif": [b"\x80\x04."]}, schema=schema), buffer)
    (record,) = read_structures(buffer.getvalue(), "a.parquet")
    assert record.problem.startswith("the column cif must contain text")


def test_rows_before_damage_in_a_later_group_are_kept():
    rows = [WATER | {"id": f"w{k}", "note": "x" * k} for k in range(600)]
    data = bytearray(
        parquet(*rows, row_group_size=300, compression="none", write_page_checksum=True)
    )
    group = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(1)
    at = next(
        c for c in map(group.column, range(group.num_columns)) if "positions" in c.path_in_schema
    )
    data[at.data_page_offset + at.total_compressed_size - 1] ^= 0xFF
    records = read_structures(bytes(data), "a.parquet")
    ready = [r.id for r in records if r.status == "ready"]
    assert 256 <= len(ready) <= 300 and ready == [f"w{k}" for k in range(len(ready))]
    assert (
        records[-1].problem
        == f"a damaged Parquet file. Is it cut off? Write it again (after row {len(ready)})"
    )


@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
def test_file_that_is_cut_off_is_refused(share):
    data = parquet()
    (record,) = read_structures(data[: int(share * len(data))], "a.parquet")
    assert record.problem == "a damaged Parquet file. Is it cut off? Write it again"


def test_limits_hold_before_anything_is_unpacked():
    small = Limits(max_atoms=2)
    one_structure = Limits(max_structures=1)
    short = Limits(max_file_bytes=30_000)
    assert (
        "has 3 atoms; the limit is 2"
        in read_structures(parquet(), "a.parquet", limits=small)[0].problem
    )
    assert (
        read_structures(parquet(), "a.parquet", limits=one_structure)[1].problem.partition(". ")[0]
        == "the remaining structures were not read: the limit is 1 structures"
    )
    packed = parquet(
        *[{"xyz": METHANE_XYZ, "note": "x" * 100_000}] * 50,
        use_dictionary=False,
        compression="zstd",
    )
    assert len(packed) < 30_000
    (record,) = read_structures(packed, "a.parquet", limits=short)
    assert record.problem == (
        "the table has more than 0.0 MB when unpacked, which is the limit. Split it, or leave out "
        "columns that are not "
        "needed"
    )


def test_few_bytes_with_many_equal_values_are_refused():
    many = pa.table({"numbers": [np.ones(5_000_000, np.int64)], "positions": [[0.0, 0.0, 0.0]]})
    buffer = io.BytesIO()
    pq.write_table(many, buffer, compression="zstd")
    assert len(buffer.getvalue()) < 10_000
    (record,) = read_structures(
        buffer.getvalue(), "a.parquet", limits=Limits(max_file_bytes=10_000_000)
    )
    assert record.problem.startswith("the table has more than 10.0 MB when unpacked")


def test_file_is_recognised_by_its_bytes_also_when_packed(tmp_path):
    (tmp_path / "unnamed").write_bytes(parquet())
    assert [r.status for r in read_paths([tmp_path / "unnamed"])] == ["ready", "ready"]
    (record,) = read_structures(b"id,gap\n", "a.parquet")
    assert record.problem.endswith(f"Accepted: {ACCEPTED}.")
