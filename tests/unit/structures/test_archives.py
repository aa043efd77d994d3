"""Zip archives and gzipped files: members that are opened and refused, and the limits."""

import gzip
import io
import stat
import struct
import zipfile

import pytest

from bandgap.structures import Limits, StructureRecord, read_structures
from tests.unit.structures.samples import METHANE_XYZ, cif

NESTED = "an archive inside an archive is not opened. Unpack it once and upload what is inside."
OUTSIDE = "its path leads out of the archive (it is absolute or contains ..). Pack the files again."


def zipped(members: dict[str, str | bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read_zip(
    members: dict[str, str | bytes], limits: Limits | None = None
) -> list[StructureRecord]:
    return read_structures(zipped(members), "set.zip", limits=limits or Limits())


def test_zip_with_one_bad_member_gives_a_record_for_every_member():
    records = read_zip(
        {"a/one.cif": cif(), "two.xyz": METHANE_XYZ, "bad.cif": "hello", "notes.txt": "text"}
    )
    assert [(r.id, r.file, r.status) for r in records] == [
        ("one", "set.zip/a/one.cif", "ready"),
        ("two", "set.zip/two.xyz", "ready"),
        ("bad", "set.zip/bad.cif", "refused"),
        ("notes", "set.zip/notes.txt", "refused"),
    ]


def test_zip_ignores_files_of_operating_systems():
    members = {
        "__MACOSX/._one.cif": b"\0\5",
        ".DS_Store": b"\0",
        "sub/.hidden": "",
        "Thumbs.db": b"",
        "one.cif": cif(),
    }
    assert [r.file for r in read_zip(dict(members))] == ["set.zip/one.cif"]


def test_empty_zip_is_refused():
    assert [r.problem for r in read_zip({})] == ["no files in the archive"]
    assert [r.problem for r in read_zip({"__MACOSX/a": "x"})] == ["no files in the archive"]


@pytest.mark.parametrize(
    "name", ["/etc/one.cif", "../one.cif", "a/../../one.cif", "C:/one.cif", "..\\one.cif"]
)
def test_member_with_a_path_out_of_the_archive_is_refused(name: str):
    records = read_zip({name: cif(), "fine.cif": cif()})
    assert [r.problem for r in records] == [OUTSIDE, ""]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.zip", zipped({"a.cif": cif()})),
        ("in.cif", zipped({"a.cif": cif()})),
        ("a.xyz.gz", gzip.compress(b"5")),
    ],
    ids=[
        "zip",
        "zip called cif",
        "gzip",
    ],  # not the content: two workers that collect must find the same names
)
def test_archive_inside_an_archive_is_refused(name: str, content: bytes):
    assert [r.problem for r in read_zip({name: content, "fine.cif": cif()})] == [NESTED, ""]


def test_encrypted_member_is_refused_and_the_others_are_read():
    data = bytearray(zipped({"secret.cif": cif(), "fine.cif": cif()}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1  # the flag that says encrypted
    records = read_structures(bytes(data), "set.zip")
    assert [r.problem for r in records] == [
        "encrypted in the archive. Pack it without a password.",
        "",
    ]


def test_link_in_an_archive_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("link.cif")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    (record,) = read_structures(buffer.getvalue(), "set.zip")
    assert record.problem == "a link, not a file. Pack the file that it points to."


def test_zip_bomb_is_refused_by_its_compression_ratio():
    (bomb, fine) = read_zip({"bomb.xyz": b" " * 5_000_000, "fine.cif": cif()})
    assert bomb.problem == "compressed more than 200 to 1, as no structure file is; not opened"
    assert fine.status == "ready"


def test_zip_bomb_with_a_wrong_size_in_its_header_is_refused():
    data = bytearray(zipped({"bomb.xyz": b" " * 5_000_000}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(signature) + offset
        data[at : at + 4] = struct.pack("<I", 100)
    (record,) = read_structures(bytes(data), "set.zip")
    assert record.status == "refused"


def test_member_over_the_limit_is_refused():
    (big, fine) = read_zip(
        {"big.xyz": METHANE_XYZ * 100, "fine.xyz": METHANE_XYZ}, Limits(max_file_bytes=1000)
    )
    assert (big.problem, fine.status) == (
        "larger than 1,000 bytes when unpacked, the limit",
        "ready",
    )


def test_archive_over_the_limit_is_refused():
    data = zipped({"a.xyz": METHANE_XYZ})
    (record,) = read_structures(data, "set.zip", limits=Limits(max_archive_bytes=50))
    assert record.problem == f"the archive has {len(data)} bytes; the limit is 50 bytes"


def test_members_share_the_archives_limit():
    line = METHANE_XYZ * 200
    data = zipped({"a.xyz": line, "b.xyz": line})
    records = read_structures(data, "set.zip", limits=Limits(max_archive_bytes=len(line) + 100))
    expected = (
        "larger than 100 bytes when unpacked, the remainder of the limit for the whole archive"
    )
    assert records[-1].problem == expected
    assert len(records) == 201


def test_truncated_archive_is_refused():
    (record,) = read_structures(zipped({"a.cif": cif()})[:-40], "set.zip")
    assert (
        record.problem
        == "not a zip archive that can be opened (File is not a zip file). Is the file cut off?"
    )


def test_damaged_member_is_refused_and_the_others_are_read():
    data = bytearray(
        zipped({"a.xyz": METHANE_XYZ, "b.xyz": METHANE_XYZ}, method=zipfile.ZIP_STORED)
    )
    data[data.index(b"methane")] ^= 1
    first, second = read_structures(bytes(data), "set.zip")
    assert first.problem.startswith(
        "damaged in the archive, or packed in a way that is not supported (Bad CRC-32"
    )
    assert second.status == "ready"


def test_damaged_lzma_member_is_refused_and_the_others_are_read():
    data = bytearray(
        zipped({"a.xyz": METHANE_XYZ * 9, "b.xyz": METHANE_XYZ}, method=zipfile.ZIP_LZMA)
    )
    start = data.index(b"a.xyz") + 20
    data[start : start + 40] = bytes(40)
    first, second = read_structures(bytes(data), "set.zip")
    assert first.problem.startswith(
        "damaged in the archive, or packed in a way that is not supported (Corrupt input"
    )
    assert second.status == "ready"


def test_member_without_a_name_gets_a_verdict_and_the_others_are_read():
    data = bytearray(zipped({"a.xyz": METHANE_XYZ, "b.xyz": METHANE_XYZ}))
    at = data.index(b"PK\x01\x02") + 28
    data[at : at + 2], data[at + 4 : at + 6] = (
        bytes(2),
        (5).to_bytes(2, "little"),
    )  # the name becomes a comment
    records = read_structures(bytes(data), "set.zip")
    assert [record.status for record in records] == ["refused", "ready"]


def test_zip_under_another_name_is_refused_with_what_to_do():
    (record,) = read_structures(zipped({"a.cif": cif()}), "table.xlsx")
    assert (
        record.problem
        == "a zip archive by its content, and not by its name. Name it .zip to have it opened."
    )


def test_gzipped_file_is_read_and_keeps_its_name():
    (record,) = read_structures(gzip.compress(METHANE_XYZ.encode()), "methane.xyz.gz")
    assert (record.id, record.file, record.status) == ("methane", "methane.xyz.gz", "ready")


def test_gzipped_file_of_several_parts_is_read_whole():
    data = gzip.compress(METHANE_XYZ.encode()) + gzip.compress(METHANE_XYZ.encode())
    assert len(read_structures(data, "m.xyz.gz")) == 2


def test_truncated_gzip_is_refused():
    (record,) = read_structures(gzip.compress(METHANE_XYZ.encode())[:-20], "m.xyz.gz")
    assert record.problem.startswith(
        "not a gzip file that can be opened (Compressed file ended before"
    )


def test_gzip_with_trailing_garbage_is_refused_without_the_bytes_in_the_message():
    (record,) = read_structures(gzip.compress(METHANE_XYZ.encode()) + b"\xf1S", "m.xyz.gz")
    assert (
        record.problem
        == "not a gzip file that can be opened (Not a gzipped file). Is the file cut off?"
    )


def test_gzip_bomb_is_refused_by_ratio_and_by_size():
    data = gzip.compress(b" " * 5_000_000)
    by_ratio = read_structures(data, "m.xyz.gz")[0].problem
    assert by_ratio == "compressed more than 200 to 1, as no structure file is; not opened"
    by_size = read_structures(data, "m.xyz.gz", limits=Limits(max_file_bytes=500_000))[0].problem
    assert by_size == "larger than 0.5 MB when unpacked, the limit"


def test_gzipped_archive_is_refused():
    (record,) = read_structures(gzip.compress(zipped({"a.cif": cif()})), "a.zip.gz")
    assert record.problem == NESTED
