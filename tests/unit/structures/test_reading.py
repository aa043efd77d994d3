"""Formats by content and name, encodings, folders, ids, limits: one verdict for everything."""

import io
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import ase.io
import pytest

from bandgap.foundation.errors import Cancelled
from bandgap.foundation.progress import Update
from bandgap.structures import (
    ACCEPTED,
    Limits,
    formats,
    read_paths,
    read_structures,
)
from tests.mutations import time_limit
from tests.unit.structures.samples import AIMS, METHANE_XYZ, PDB, POSCAR, RES, cif, read, read_one

ADVICE = "Split the files, or predict with `bandgap predict` in a shell, which takes any number"
FORMATS = {
    "CIF": (cif(), "a.cif"),
    "XYZ": (METHANE_XYZ, "a.xyz"),
    "POSCAR": (POSCAR, "POSCAR"),
    "FHI-aims": (AIMS, "geometry.in"),
    "SHELX": (RES, "a.res"),
    "PDB": (PDB, "a.pdb"),
}


@pytest.mark.parametrize(
    ("form", "text", "name"),
    [(f, *text_and_name) for f, text_and_name in FORMATS.items()],
    ids=FORMATS,
)
def test_format_is_found_by_name_by_content_and_against_a_wrong_name(
    form: str, text: str, name: str
):
    wrong = "a.cif" if form != "CIF" else "a.xyz"
    assert [read_one(text, n).format for n in (name, "unnamed", "notes.txt", wrong)] == [form] * 4


ENCODINGS = {
    "utf-8 mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "utf-16 mark": lambda text: text.encode("utf-16"),
    "utf-16 little": lambda text: text.encode("utf-16-le"),
    "utf-16 big": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "windows line ends": lambda text: text.replace("\n", "\r\n").encode(),
    "old mac line ends": lambda text: text.replace("\n", "\r").encode(),
    "dos end of file": lambda text: text.encode() + b"\x1a",
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("form", FORMATS)
def test_records_do_not_depend_on_encoding_and_line_ends(form: str, encode):
    text, name = FORMATS[form]
    (record,) = read_structures(encode(text), name)
    assert (record.status, record.content) == ("ready", read_one(text, name).content)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x\n{n}\n{n}\n1 0 0\n", id="POSCAR"),
        pytest.param("1\nx\n{n} 0 0\n", id="XYZ"),
        pytest.param("CELL {n}\nSFAC C\n", id="SHELX"),
        pytest.param("atom {n}\n", id="FHI-aims"),
    ],
)
def test_format_of_a_text_with_100000_digits_in_a_row_is_detected_quickly(text: str):
    with time_limit(1.0):
        (record,) = read(text.replace("{n}", "9" * 60_000), "unnamed")
    assert record.status == "refused"


def test_latin_1_is_read():
    text = cif(extra="_publ_author_name 'M\u00fcller, \u00c5'\n# 100 \u00b0C")
    (record,) = read_structures(text.encode("latin-1"), "a.cif")
    assert (record.status, record.content) == ("ready", read_one(cif()).content)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("data.db", b"SQLite format 3\0" + bytes(100), "a database"),
        ("data.cif", b"SQLite format 3\0" + bytes(100), "a database"),
        ("data.json", b'{"1": {"numbers": [1]}}', "this JSON"),
        ("make.py", METHANE_XYZ.encode(), "a Python script"),
        ("a.pkl", pickle.dumps([1]), "a pickle"),
        ("a.xyz", pickle.dumps([1]), "a pickle"),
        ("a.traj", b"- of UlmASE-Trajectory" + bytes(50), "an ASE trajectory"),
        ("a.xyz", b"- of UlmASE-Trajectory" + bytes(50), "an ASE trajectory"),
        ("paper.pdf", b"%PDF-1.4", "a PDF"),
        ("set.tar", b"ustar", "a tar archive"),
        ("set.7z", b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    ],
)
def test_kinds_that_are_never_opened_are_refused_by_kind(name: str, data: bytes, kind: str):
    (record,) = read_structures(data, name)
    assert record.problem.startswith(f"{kind} is not opened.")
    assert record.problem.endswith(f" Accepted: {ACCEPTED}.")


OF_PROGRAMS = {
    "espresso-in": """&control
/
&system
ibrav = 0, nat = 2, ntyp = 1, ecutwfc = 20
/
ATOMIC_SPECIES
Si 28.0855 Si.UPF
CELL_PARAMETERS angstrom
5.43 0 0
0 5.43 0
0 0 5.43
ATOMIC_POSITIONS crystal
Si 0 0 0
Si 0.25 0.25 0.25
""",
    "castep-cell": """%BLOCK LATTICE_CART
5.43 0 0
0 5.43 0
0 0 5.43
%ENDBLOCK LATTICE_CART
%BLOCK POSITIONS_FRAC
Si 0 0 0
Si 0.25 0.25 0.25
%ENDBLOCK POSITIONS_FRAC
""",
    "xsf": """CRYSTAL
PRIMVEC
5.43 0 0
0 5.43 0
0 0 5.43
PRIMCOORD
2 1
14 0 0 0
14 1.3575 1.3575 1.3575
""",
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of ASE, without CASTEP
@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_file_of_another_program_is_refused_with_the_line_of_ase_that_converts_it(
    name: str, tmp_path: Path
):
    (refused,) = read(OF_PROGRAMS[name], "silicon.in")
    assert f"`ase convert -i {name} silicon.in structure.extxyz`" in refused.problem
    atoms = ase.io.read(io.StringIO(OF_PROGRAMS[name]), format=name)
    ase.io.write(tmp_path / "structure.extxyz", atoms)
    (record,) = read_paths(tmp_path)
    assert (record.formula, record.status) == ("Si2", "ready")


def test_text_of_unknown_format_is_refused_with_its_beginning():
    (record,) = read("id,gap_eV\na,1.0\n", "labels.csv")
    assert (
        record.problem
        == f"not a structure file (it begins with 'id,gap_eV'). Accepted: {ACCEPTED}. A table of "
        "gaps is given on its own, next to the files or the archive of structures."
    )
    (record,) = read("some notes\n", "notes.txt")
    assert record.problem.endswith(f"Accepted: {ACCEPTED}.")


@pytest.mark.parametrize("data", [b"", b"\n  \n"])
def test_empty_file_is_refused(data: bytes):
    assert [r.verdict for r in read_structures(data, "a.cif")] == ["refused: the file is empty"]


def test_binary_file_is_refused():
    (record,) = read_structures(bytes(range(256)) * 10, "a.cif")
    assert (
        record.problem
        == "a binary file, not text. Export the structure as a text file such as CIF or extXYZ"
    )


def test_file_over_the_limit_is_refused():
    (record,) = read_structures(
        METHANE_XYZ.encode() * 10, "a.xyz", limits=Limits(max_file_bytes=500)
    )
    assert record.problem == f"the file has {len(METHANE_XYZ) * 10:,} bytes; the limit is 500 bytes"


def test_structures_over_the_limit_are_refused_in_one_line():
    records = read_structures(METHANE_XYZ.encode() * 5, "a.xyz", limits=Limits(max_structures=3))
    assert [r.status for r in records] == ["ready"] * 3 + ["refused"]
    assert (
        records[3].problem
        == f"the remaining structures were not read: the limit is 3 structures. {ADVICE}"
    )


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("KAXCUK.cif", "KAXCUK"),
        ("runs/KAXCUK.opt.cif", "KAXCUK.opt"),
        ("runs/KAXCUK/POSCAR", "KAXCUK"),
        ("POSCAR", "POSCAR"),
        ("runs/KAXCUK/geometry.in", "KAXCUK"),
        ("POSCAR-JVASP-1.vasp", "POSCAR-JVASP-1"),
        ("00011.cif", "00011"),
        ("C:\\data\\one.cif", "one"),
        (".cif", ".cif"),
        ("", "structure"),
    ],
)
def test_id_is_the_files_name_without_its_suffix(name: str, id: str):
    assert read_one(cif(), name).id == id


def test_equal_ids_become_unique_and_the_original_id_is_in_info():
    one = METHANE_XYZ.replace("methane", "Properties=species:S:1:pos:R:3 id=A")
    records = read(one * 2 + one.replace("id=A", "id=A-2") + one, "a.xyz")
    assert [r.id for r in records] == ["A", "A-3", "A-2", "A-4"]
    assert records[1].verdict == "usable: the id A is not unique; this structure is called A-3"
    assert records[1].info == {"id": "A", "original_id": "A"}


def test_unexpected_error_of_a_reader_becomes_a_verdict(monkeypatch: pytest.MonkeyPatch):
    def broken(text: str, *, limits: Limits) -> object:
        raise AssertionError("no reason given")

    broken_aims = replace(formats.FORMATS["aims"], read=broken)
    monkeypatch.setattr(formats, "FORMATS", {**formats.FORMATS, "aims": broken_aims})
    assert (
        read_one(AIMS, "geometry.in").problem
        == "cannot be read as FHI-aims (AssertionError: no reason given)"
    )


def test_folder_is_read_in_order_and_every_file_has_a_verdict(tmp_path: Path):
    (tmp_path / "b" / ".git").mkdir(parents=True)
    for name, text in {
        "a.cif": cif(),
        "b/m.xyz": METHANE_XYZ * 2,
        "notes.md": "# notes",
        ".hidden.cif": cif(),
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "b" / ".git" / "c.cif").write_text(cif())
    records = read_paths([tmp_path])
    assert [(r.id, r.file, r.status) for r in records] == [
        ("a", str(tmp_path / "a.cif"), "ready"),
        ("notes", str(tmp_path / "notes.md"), "refused"),
        ("m-1", str(tmp_path / "b" / "m.xyz"), "ready"),
        ("m-2", str(tmp_path / "b" / "m.xyz"), "ready"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_path_that_is_not_utf8_is_read_and_can_be_written_to_a_table(tmp_path: Path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / os.fsdecode(b"na\xefve.cif")).write_text(cif())
    (record,) = read_paths(folder)
    assert (record.id, record.status) == ("na?ve", "ready")
    assert record.file.encode("utf-8").endswith(b"/caf?/na?ve.cif")
    (missing,) = read_paths(folder / "missing.cif")
    assert missing.file.encode("utf-8").endswith(b"/caf?/missing.cif")


def test_paths_that_cannot_be_read_have_verdicts(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.cif")
    paths = [tmp_path / "gone.cif", tmp_path / "empty", tmp_path / "pipe.cif", "nul\0name.cif"]
    *problems, null = [r.problem for r in read_paths(paths)]
    assert problems == [
        "there is no such file",
        "no files in the folder",
        "not a file but a device or a pipe",
    ]
    assert null.startswith("the file cannot be opened (") and "embedded null" in null


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("big.cif", "the file has 2,000 bytes; the limit is 500 bytes"),
        ("big.cif.gz", "the file has 2,000 bytes; the limit is 500 bytes"),
        ("big.zip", "the archive has 2,000 bytes; the limit is 1,000 bytes"),
    ],
)
def test_file_over_the_limit_of_its_kind_is_not_read(tmp_path: Path, name: str, message: str):
    (tmp_path / name).write_bytes(bytes(2000))
    (record,) = read_paths(
        [tmp_path / name], limits=Limits(max_file_bytes=500, max_archive_bytes=1000)
    )
    assert record.problem == message


def test_files_after_the_limit_of_structures_still_have_a_verdict(tmp_path: Path):
    for name in "abc":
        (tmp_path / f"{name}.xyz").write_text(METHANE_XYZ * 2)
    records = read_paths([tmp_path], limits=Limits(max_structures=2))
    assert [r.status for r in records] == ["ready", "ready", "refused", "refused"]
    assert records[2].problem == f"not read: the limit of 2 structures was reached. {ADVICE}"


def test_ids_are_unique_over_all_paths(tmp_path: Path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.cif").write_text(cif())
    assert [r.id for r in read_paths([tmp_path / "a", tmp_path / "b"])] == ["x", "x-2"]


def test_progress_is_called_for_every_file_and_can_cancel(tmp_path: Path):
    for name in "abc":
        (tmp_path / f"{name}.xyz").write_text(METHANE_XYZ)
    updates: list[Update] = []
    read_paths([tmp_path], progress=updates.append)
    assert [(u.done, u.total, u.message) for u in updates] == [
        (0, 3, "a.xyz"),
        (1, 3, "b.xyz"),
        (2, 3, "c.xyz"),
        (3, 3, ""),
    ]

    def cancel(update: Update, /) -> None:
        raise Cancelled("cancelled")

    with pytest.raises(Cancelled):
        read_paths([tmp_path], progress=cancel)


def test_read_paths_with_a_string_reads_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letter by letter the path would begin with the folder "/"."""
    (tmp_path / "a.xyz").write_text("1\n\nC 0 0 0\n")
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "a.xyz"), tmp_path / "a.xyz", "a.xyz"):
        assert [record.id for record in read_paths(path)] == ["a"]
    (record,) = read_paths(str(tmp_path / "absent"))
    assert record.status == "refused"
