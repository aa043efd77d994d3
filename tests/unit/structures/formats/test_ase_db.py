"""Databases that ASE wrote: rows with their pairs, and nothing of the file that runs."""

import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.structures import ACCEPTED, Limits, read_paths
from bandgap.structures.reading import read_structures
from tests.mutations import time_limit
from tests.unit.structures.samples import ase_db


def changed(*statements: str, values: tuple[object, ...] = ()) -> bytes:
    """A database of ASE after some statements of SQL."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(ase_db())
        for statement in statements:
            db.execute(statement, values)
        db.commit()
        return db.serialize()


def test_rows_are_those_that_ase_wrote():
    atoms_of_rows = [
        molecule("CH3OH"),
        bulk("NaCl", "rocksalt", a=5.64),
        Atoms("Cu2", [(0, 0, 5), (2, 2, 5)], cell=[4, 4, 9], pbc=(1, 1, 0)),
    ]
    records = read_structures(ase_db(*atoms_of_rows), "set.db")
    assert [(r.id, r.format, r.status) for r in records] == [
        (f"row-{k}", "ASE database", "ready") for k in range(3)
    ]
    for record, atoms in zip(records, atoms_of_rows, strict=True):
        np.testing.assert_array_equal(record.atoms.numbers, atoms.numbers)
        np.testing.assert_array_equal(record.atoms.positions, atoms.positions)
        np.testing.assert_array_equal(record.atoms.cell.array, atoms.cell.array)
        np.testing.assert_array_equal(record.atoms.pbc, atoms.pbc)
    assert dict(records[1].info) == {"name": "row-1", "gap_eV": 2.5, "source": "made"}


def test_database_is_recognised_by_its_bytes_and_not_changed(tmp_path):
    path = tmp_path / "unnamed"
    path.write_bytes(ase_db())
    path.chmod(0o400)
    before = (path.read_bytes(), sorted(p.name for p in tmp_path.iterdir()))
    assert [r.status for r in read_paths([path])] == ["ready", "ready"]
    assert (path.read_bytes(), sorted(p.name for p in tmp_path.iterdir())) == before


def test_database_with_a_log_of_writes_is_read():
    data = bytearray(ase_db())
    data[18:20] = b"\x02\x02"
    assert [r.status for r in read_structures(bytes(data), "a.db")] == ["ready", "ready"]


def test_view_instead_of_the_table_is_refused():
    data = changed(
        "ALTER TABLE systems RENAME TO hidden", "CREATE VIEW systems AS SELECT * FROM hidden"
    )
    (record,) = read_structures(
        data.replace(b'CREATE TABLE "hidden"', b'CREATE TABLE systems "'), "a.db"
    )
    assert record.status == "refused"
    assert "database" in record.problem


def test_columns_that_the_database_computes_are_refused_at_once() -> None:
    """A database whose last column takes each one before it twice needs 2^24 steps."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(ase_db())
        db.execute("ALTER TABLE systems RENAME TO plain")
        columns = ["id INTEGER PRIMARY KEY", "key_value_pairs", "positions", "cell", "pbc"]
        columns += ["twice_0 BLOB DEFAULT x'01000000'"]
        columns += [f"twice_{k + 1} AS (twice_{k} || twice_{k})" for k in range(24)]
        db.execute(f"CREATE TABLE systems ({', '.join(columns)}, numbers AS (twice_24))")
        db.execute("INSERT INTO systems (id) VALUES (1)")
        db.commit()
        data = db.serialize()
    with time_limit(2.0):
        (record,) = read_structures(data, "a.db")
    assert "more memory" in record.problem


def test_rows_that_do_not_ascend_are_refused_as_damage():
    statement = (
        "CREATE TABLE systems AS SELECT * FROM (SELECT * FROM plain UNION ALL SELECT * FROM "
        "plain) ORDER BY id"
    )
    records = read_structures(changed("ALTER TABLE systems RENAME TO plain", statement), "a.db")
    assert [record.status for record in records] == ["ready", "refused"]
    assert records[1].problem == "a damaged database (row 1 follows row 1)"


DAMAGE = {
    "no numbers": (
        "UPDATE systems SET numbers = NULL WHERE id = 2",
        (),
        "a row without numbers or positions",
    ),
    "text": (
        "UPDATE systems SET positions = 'x' WHERE id = 2",
        (),
        "a row without numbers or positions",
    ),
    "too short": (
        "UPDATE systems SET positions = ? WHERE id = 2",
        (bytes(24),),
        "do not fit together",
    ),
    "no element": (
        "UPDATE systems SET numbers = ? WHERE id = 2",
        (struct.pack("<2i", 6, 0),),
        "an atom of number 0",
    ),
    "no cell": (
        "UPDATE systems SET cell = ? WHERE id = 2",
        (b"x",),
        "a periodic row without a cell of nine numbers",
    ),
    "not finite": (
        "UPDATE systems SET positions = ? WHERE id = 2",
        (struct.pack("<6d", *[np.nan] * 6),),
        "finite",
    ),
}


@pytest.mark.parametrize(("statement", "values", "words"), DAMAGE.values(), ids=DAMAGE)
def test_invalid_row_is_refused_and_the_other_is_read(statement, values, words):
    good, bad = read_structures(changed(statement, values=values), "a.db")
    assert good.status == "ready" and bad.status == "refused" and words in bad.problem
    assert bad.id == "row-1"


def test_database_that_is_cut_off_or_of_another_kind_is_refused():
    data = ase_db()
    (record,) = read_structures(data[: len(data) // 2 + 100], "a.db")
    assert record.problem.startswith("a damaged database (") and record.problem.endswith(
        "Is the file cut off?"
    )
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE other (x)")
        (record,) = read_structures(db.serialize(), "a.db")
    assert record.problem == f"a database is not opened. Accepted: {ACCEPTED}."


def test_limits_of_atoms_and_structures_hold():
    small = Limits(max_atoms=5)
    one_structure = Limits(max_structures=1)
    assert (
        "has 6 atoms; the limit is 5" in read_structures(ase_db(), "a.db", limits=small)[0].problem
    )
    assert read_structures(ase_db(), "a.db", limits=one_structure)[1].problem.startswith(
        "the remaining structures were not read: the limit is 1 structures. Split"
    )
