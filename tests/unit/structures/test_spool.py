"""Records that went to the disk and back, and files that are read piece by piece, are what they were in memory."""

import zipfile

import numpy as np
import pytest

from bandgap.structures import Limits, read_paths, read_structures
from bandgap.structures.formats import xyz
from bandgap.structures.reading import stream_paths
from bandgap.structures.spool import Spool
from tests.unit.structures.samples import METHANE_XYZ, POSCAR, cif
from tests.unit.structures.test_archives import zipped

NAMED = METHANE_XYZ.replace("methane", 'Properties=species:S:1:pos:R:3 id=m gap_eV=0.1 flag=T note="two words" k=3')
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


def told(records):
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
    (tmp_path / "in" / "z.zip").write_bytes(zipped({"a.cif": cif(), "m.xyz": METHANE_XYZ, "n.extxyz": NAMED}))
    return tmp_path / "in"


def test_spool_gives_the_records_of_one_reading_twice(folder):
    records = read_paths([folder, folder / "absent.cif"])
    spool = Spool(stream_paths([folder, folder / "absent.cif"]))
    assert len(spool) == len(records) > 12
    assert {"m", "m-2", "m-3", "m-4"} <= {r.id for r in records}
    assert {r.status for r in records} == {"ready", "warning", "refused"}
    assert told(spool) == told(records) == told(spool)
    assert [type(v) for r in spool for v in r.info.values()] == [type(v) for r in records for v in r.info.values()]
    for own, other in zip(spool, records, strict=True):
        if other.atoms is not None:
            assert own.atoms.positions.tobytes() == other.atoms.positions.tobytes()
            np.testing.assert_array_equal(own.atoms.pbc, other.atoms.pbc)


def test_walks_through_a_spool_at_once_do_not_disturb_each_other(folder):
    spool = Spool(stream_paths([folder]))
    assert [a.id == b.id for a, b in zip(spool, spool, strict=True)] == [True] * len(spool)


def test_digest_of_a_spool_changes_with_anything_that_was_read(folder):
    digests = {Spool(stream_paths([folder])).digest}
    assert Spool(stream_paths([folder])).digest in digests
    for text in (FILES["a.extxyz"].replace("0.1", "0.2", 1), FILES["a.extxyz"].replace("-0.629", "-0.6290001", 1)):
        (folder / "a.extxyz").write_text(text)
        digests.add(Spool(stream_paths([folder])).digest)
    assert len(digests) == 3


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
def test_frames_do_not_depend_on_how_much_text_is_split_at_once(monkeypatch, text, block):
    whole = told(read_structures(text.encode(), "a.xyz"))
    monkeypatch.setattr(xyz, "_BLOCK", block)
    assert told(read_structures(text.encode(), "a.xyz")) == whole


def test_archive_read_from_its_path_is_the_one_read_from_its_bytes(tmp_path):
    path = tmp_path / "z.zip"
    for data in (
        zipped({"a.cif": cif(), ".hidden": "x", "b/c.xyz": NAMED * 2}),
        zipped({}),
        b"PK\x03\x04 cut off",
        b"x",
    ):
        path.write_bytes(data)
        assert told(read_paths([path])) == told(read_structures(data, str(path)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.xyz", METHANE_XYZ * 9)
    few = Limits(max_structures=4)
    assert told(read_paths([path], limits=few)) == told(read_structures(path.read_bytes(), str(path), limits=few))
    small = Limits(max_archive_bytes=100)
    assert told(read_paths([path], limits=small)) == told(read_structures(path.read_bytes(), str(path), limits=small))
