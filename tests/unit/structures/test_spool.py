"""Records spooled to disk, and files read piece by piece, equal those read to memory."""

import dataclasses
import gc
import gzip
import pickle
import tracemalloc
import weakref
import zipfile

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.structures import Limits, contents, read_paths, read_structures, spool
from bandgap.structures.packed import unpack
from bandgap.structures.reading import stream_paths
from bandgap.structures.spool import Spool, Tally
from tests.unit.structures.samples import METHANE_XYZ, PDB, POSCAR, cif
from tests.unit.structures.test_archives import zipped

NAMED = METHANE_XYZ.replace(
    "methane", 'Properties=species:S:1:pos:R:3 id=m gap_eV=0.1 flag=T note="two words" k=3'
)
BAD = METHANE_XYZ.replace("0.629 0.629 0.629", "0.629 x 0.629")
FILES = {
    "a.extxyz": NAMED * 3 + METHANE_XYZ,
    "b.xyz": METHANE_XYZ + BAD + METHANE_XYZ,
    "c.cif": cif() + cif(name="b"),
    "broken.cif": "data_x\n",
    "sub/POSCAR": POSCAR,
    "empty.xyz": "",
    "m.extxyz": NAMED.replace("id=m ", "id=m-2 "),
}


def facts_of(records):
    """Everything that a record says, with exact numbers."""
    return [
        (
            r.id,
            r.file,
            r.format,
            r.content,
            r.problems,
            dict(r.info),
            r.formula,
            None if r.atoms is None else r.atoms.info,
        )
        for r in records
    ]


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "in" / "z.zip").write_bytes(
        zipped({"a.cif": cif(), "m.xyz": METHANE_XYZ, "n.extxyz": NAMED})
    )
    return tmp_path / "in"


def test_spool_yields_the_same_records_twice(folder):
    records = read_paths([folder, folder / "absent.cif"])
    spool = Spool(stream_paths([folder, folder / "absent.cif"]))
    assert len(spool) == len(records) > 12
    assert {"m", "m-2", "m-3", "m-4"} <= {r.id for r in records}
    assert {r.status for r in records} == {"ready", "warning", "refused"}
    assert facts_of(spool) == facts_of(records) == facts_of(spool)
    assert [type(v) for r in spool for v in r.info.values()] == [
        type(v) for r in records for v in r.info.values()
    ]
    for spooled, other in zip(spool, records, strict=True):
        if other.atoms is not None:
            assert spooled.atoms.positions.tobytes() == other.atoms.positions.tobytes()
            np.testing.assert_array_equal(spooled.atoms.pbc, other.atoms.pbc)


def test_spool_that_is_read_in_batches_yields_the_records_of_read_paths(folder, monkeypatch):
    monkeypatch.setattr(spool, "_BATCH", 2)
    ahead = Spool(stream_paths([folder]))
    records = read_paths([folder])
    assert facts_of(ahead) == facts_of(records) == facts_of(ahead)
    assert (ahead.is_read, len(ahead), ahead.known_len()) == (True, len(records), len(records))
    assert list(ahead.contents()) == list(Spool(stream_paths([folder])).contents())
    assert ahead.tally == Tally.of(records) and ahead.tally.counts["refused"] == 3


def test_spool_yields_records_before_the_end_until_an_id_repeats(monkeypatch):
    monkeypatch.setattr(spool, "_BATCH", 1)
    records = read_structures((METHANE_XYZ * 3).encode(), "a.xyz")

    def stream():
        yield from records
        yield from (
            dataclasses.replace(record, id=id)
            for record, id in zip(records, ("a-1", "b", "a-1-2"), strict=True)
        )

    ahead = Spool(stream())
    walk = iter(ahead)
    assert [next(walk).id for _ in range(3)] == ["a-1", "a-2", "a-3"]
    assert not ahead.is_read and ahead.known_len() is None
    assert [record.id for record in walk] == ["a-1-3", "b", "a-1-2"]  # not a-1-2, which comes later
    assert ahead.tally.counts == {"ready": 5, "warning": 1} == Tally.of(ahead).counts


def test_error_of_the_stream_is_raised_where_records_are_needed():
    def broken():
        yield from read_structures(METHANE_XYZ.encode(), "a.xyz")
        raise InputError("the disk is gone")

    with pytest.raises(InputError, match="^the disk is gone$"):
        len(Spool(broken()))


def test_parallel_iterations_through_a_spool_are_independent(folder):
    spool = Spool(stream_paths([folder]))
    assert [a.id == b.id for a, b in zip(spool, spool, strict=True)] == [True] * len(spool)


def test_contents_of_a_spool_differ_if_any_value_differs(folder):
    contents = {tuple(Spool(stream_paths([folder])).contents())}
    assert tuple(Spool(stream_paths([folder])).contents()) in contents
    for text in (
        FILES["a.extxyz"].replace("0.1", "0.2", 1),
        FILES["a.extxyz"].replace("-0.629", "-0.6290001", 1),
    ):
        (folder / "a.extxyz").write_text(text)
        contents.add(tuple(Spool(stream_paths([folder])).contents()))
    assert len(contents) == 3


def test_contents_of_a_record_include_its_new_id():
    first, second, last = read_structures((METHANE_XYZ * 3).encode(), "a.xyz")
    again = dataclasses.replace(second, id="a-1")
    taken_id = dataclasses.replace(last, id="a-1-2")
    short = Spool([first, again])
    long = Spool([first, again, taken_id])
    assert [record.id for record in short] == ["a-1", "a-1-2"]
    assert [record.id for record in long] == ["a-1", "a-1-3", "a-1-2"]
    (same, spooled), (same_too, other, _) = short.contents(), long.contents()
    assert same == same_too and spooled != other


@pytest.mark.parametrize("packed", (False, True), ids=("file", "archive"))
def test_stream_and_spool_keep_few_records_in_memory(tmp_path, packed):
    path = tmp_path / ("a.zip" if packed else "a.xyz")
    alive = weakref.WeakSet()
    most = 0
    text = METHANE_XYZ * 500
    path.write_bytes(zipped({"a.xyz": text}) if packed else text.encode())

    def watched(records):
        nonlocal most
        for record in records:
            alive.add(record)
            most = max(most, len(alive))
            yield record

    spool = Spool(watched(stream_paths([path])))
    assert sum(1 for _ in watched(spool)) == len(spool) == 500
    assert most <= 5


@pytest.mark.parametrize("name", ("a.xyz", "a.xyz.gz", "a.zip", "a.pdb"))
def test_text_of_a_file_is_not_kept_in_memory(tmp_path, name):
    text = METHANE_XYZ + "# what no count announces\n" * 450_000
    path = tmp_path / name
    loose = Limits(max_compression_ratio=100_000)
    data = (PDB + "REMARK of nothing at all\n" * 450_000 if name == "a.pdb" else text).encode()
    path.write_bytes(
        zipped({"a.xyz": data})
        if name == "a.zip"
        else gzip.compress(data)
        if ".gz" in name
        else data
    )
    gc.collect()
    tracemalloc.start()
    try:
        records = list(stream_paths([path], limits=loose))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [record.status != "refused" for record in records] == [True]
    assert len(data) > 11_000_000 > 10_000_000 > peak


@pytest.mark.parametrize("block", (1, 7, 60, 200))
@pytest.mark.parametrize(
    "text",
    (
        NAMED * 5,
        METHANE_XYZ + BAD + METHANE_XYZ,
        "\n\n" + METHANE_XYZ + "\n \n" + METHANE_XYZ + "\n\n",
        METHANE_XYZ.replace("5\n", "9\n", 1) + METHANE_XYZ,
        METHANE_XYZ.replace("5\n", "3\n", 1) + "what\nis this\n" + METHANE_XYZ,
        "no count\n" * 9 + METHANE_XYZ,
        METHANE_XYZ[:-30],
        METHANE_XYZ + "999999\nfar\nC 0 0 0\n",
        METHANE_XYZ * 2 + "5",
        "5\n",
    ),
    ids=range(10),
)
def test_frames_do_not_depend_on_the_block_size(monkeypatch, text, block):
    reference = facts_of(read_structures(text.encode(), "a.xyz"))
    monkeypatch.setattr(contents, "BLOCK", block)
    assert facts_of(read_structures(text.encode(), "a.xyz")) == reference


def test_archive_gives_the_same_records_from_path_and_bytes(tmp_path):
    path = tmp_path / "z.zip"
    for data in (
        zipped({"a.cif": cif(), ".hidden": "x", "b/c.xyz": NAMED * 2}),
        zipped({}),
        b"PK\x03\x04 cut off",
        b"x",
    ):
        path.write_bytes(data)
        assert facts_of(read_paths([path])) == facts_of(read_structures(data, str(path)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.xyz", METHANE_XYZ * 9)
    limits = Limits(max_structures=4)
    assert facts_of(read_paths([path], limits=limits)) == facts_of(
        read_structures(path.read_bytes(), str(path), limits=limits)
    )
    small = Limits(max_archive_bytes=100)
    assert facts_of(read_paths([path], limits=small)) == facts_of(
        read_structures(path.read_bytes(), str(path), limits=small)
    )


def test_packed_records_are_equal_in_another_process(folder):
    spool = Spool(stream_paths([folder]))
    records = read_paths([folder])
    packed = list(spool.packed())
    assert all(one.record.atoms is None for one in packed)
    arrived = pickle.loads(pickle.dumps(packed))
    assert facts_of(map(unpack, arrived)) == facts_of(records) == facts_of(map(unpack, records))
    reference = len(pickle.dumps([r.atoms for r in records]))
    assert len(pickle.dumps([one.numbers for one in packed])) < 0.75 * reference
