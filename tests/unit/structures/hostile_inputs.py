"""Inputs that cost a careless reader much time or memory, none larger than 1 MB; and their cost."""

import gzip
import io
import json
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

MB = 999_000
CELL = "_cell_length_a {0}\n_cell_length_b {0}\n_cell_length_c {0}\n" + "".join(
    f"_cell_angle_{angle} 90\n" for angle in ("alpha", "beta", "gamma")
)
SITES = "loop_\n_atom_site_label\n_atom_site_fract_x\n_atom_site_fract_y\n_atom_site_fract_z\n"
LATTICE = 'Lattice="{} 0 0 0 {} 0 0 0 {}" Properties=species:S:1:pos:R:3'


def cif(length: str = "5", *, symmetry: str = "", sites: str = "C1 0 0 0\n") -> bytes:
    """Return a CIF with one block."""
    return f"data_x\n{CELL.format(length)}{symmetry}{SITES}{sites}".encode()


def operators(n: int) -> str:
    """Return a loop of `n` different translations."""
    rows = "".join(f"'x+{k}/{n},y,z'\n" for k in range(n))
    return f"loop_\n_space_group_symop_operation_xyz\n{rows}"


def repeated(text: str, size: int = MB) -> str:
    """Return a text repeated up to a size."""
    return text * (size // len(text))


def extxyz(atoms: str, a: float, b: float, c: float) -> bytes:
    """Return an extXYZ frame of the lines of atoms in an orthorhombic cell."""
    return f"{atoms.count(chr(10))}\n{LATTICE.format(a, b, c)}\n{atoms}".encode()


def packed_zip(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def nested_zip(depth: int) -> bytes:
    """Return a zip in a zip, and so on."""
    data = packed_zip({"a.cif": cif()})
    for _ in range(depth):
        data = packed_zip({"a.zip": data})
    return data


def overlapping_zip() -> bytes:
    """Return a zip whose directory names one compressed file 1,000 times."""
    data = packed_zip({"0000.cif": b"#" * (100 * MB // 1000 * 10)})
    end = data.rindex(b"PK\x05\x06")
    start = data.index(b"PK\x01\x02")
    entry = data[start:end]
    entries = b"".join(entry.replace(b"0000.cif", f"{k:04d}.cif".encode()) for k in range(1000))
    tail = bytearray(data[end:])
    tail[8:12] = (1000).to_bytes(2, "little") * 2
    tail[12:16] = len(entries).to_bytes(4, "little")
    return data[:start] + entries + bytes(tail)


def billion_laughs() -> bytes:
    """Return XML whose entities expand to 10^9 words."""
    lines = ['<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a0 "lol">']
    lines += [f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10)]
    return "\n".join([*lines, "]><modeling>&a9;</modeling>"]).encode()


def sites_json(n: int) -> bytes:
    """Return pymatgen JSON with `n` sites at one point."""
    site = {"species": [{"element": "C", "occu": 1}], "abc": [0, 0, 0]}
    lattice = {"matrix": [[9, 0, 0], [0, 9, 0], [0, 0, 9]]}
    return json.dumps({"lattice": lattice, "sites": [site] * n}).encode()


def many_small_files() -> bytes:
    """Return a zip with 8,000 files."""
    return packed_zip({f"{k}.xyz": b"1\n\nH 0 0 0\n" for k in range(8_000)})


def vasprun(content: str) -> bytes:
    """Return the beginning of a vasprun.xml."""
    return f'<?xml version="1.0"?><modeling>{content}</modeling>'.encode()


LABELS = """
import sys
from pathlib import Path
from bandgap.calculations import read_uploads
from bandgap.foundation.children import end_waiting
(result,) = read_uploads([(sys.argv[1], Path(sys.argv[1]))])
print(f"no gap; {result.record.problem}" if result.gap_eV != result.gap_eV else result.gap_eV)
end_waiting()
"""
READ = """
import sys
from pathlib import Path
from bandgap.foundation.children import end_waiting
from bandgap.structures.records import Tally
from bandgap.structures.uploads import read_upload
tally = Tally.of(read_upload(Path(sys.argv[1]), sys.argv[1]))
reasons = "".join(f"; {reason}" for _, reason in tally.refused[-1:])
print(f"{tally.counts.total():,} read, {tally.counts['refused']:,} refused{reasons}")
end_waiting()
"""
# Runs a command and prints its CPU time in s and peak in kB. A process begins with the peak of the
# one that starts it, so that a small one must.
LAUNCHER = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stderr=subprocess.STDOUT)
_, _, usage = os.wait4(process.pid, 0)
print(f"\\n{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}", end="")
"""
BLANKS = b" " * (200 * MB)
CUBIC = "_space_group_name_H-M_alt 'F m -3 m'\n"
FIVE_SITES = "C1 .11 .07 .23\nC2 .21 .17 .33\nC3 .31 .07 .43\nC4 .41 .17 .03\nC5 .24 .05 .37\n"
PDB_ATOM = "HETATM    1  C   MOL A   1       2.200   1.400   4.600  1.00  0.00           C  "
FRAME = extxyz("Na 0 0 0\nCl 2.8 0 0\n", 5, 5, 5)


def cif_blocks(n: int, **content: str) -> bytes:
    """Return a CIF with `n` blocks of equal content."""
    block = cif(**content)
    return b"".join(block.replace(b"data_x", b"data_%d" % k) for k in range(n))


def grid(n: int) -> bytes:
    """Return an extXYZ frame of n^3 atoms on a grid."""
    atoms = [f"C {2 * i} {2 * j} {2 * k}\n" for i in range(n) for j in range(n) for k in range(n)]
    return extxyz("".join(atoms), 2 * n, 2 * n, 2 * n)


def noise() -> str:
    """Return hexadecimal text of 0.8 MB, which keeps a packed file below the largest ratio."""
    return random.Random(0).randbytes(400_000).hex()


def xdatcar(n_frames: int) -> bytes:
    """Return a trajectory of frames with two atoms."""
    head = b"NaCl\n1\n5 0 0\n0 5 0\n0 0 5\nNa Cl\n1 1\n"
    frame = b"Direct configuration= %d\n0 0 0\n0.5 0.5 0.5\n"
    return head + b"".join(frame % k for k in range(n_frames))


def ase_database(n: int) -> bytes:
    """Return an ASE database with `n` crystals of two atoms."""
    from ase import Atoms
    from ase.db import connect

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.db")
        with connect(file) as database:
            for k in range(n):
                cell = [5 + k % 97 / 100] * 3
                database.write(Atoms("NaCl", [(0, 0, 0), (2.8, 0, 0)], cell=cell, pbc=True))
        return file.read_bytes()


def parquet(n: int) -> bytes:
    """Return a Parquet table with a column of `n` equal CIFs."""
    import pyarrow
    from pyarrow import parquet as writer

    text = cif("5.6", symmetry=CUBIC, sites="Na1 0 0 0\nCl1 0.5 0.5 0.5\n").decode()
    buffer = io.BytesIO()
    columns = {"id": [str(k) for k in range(n)], "cif": [text] * n}
    writer.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


INPUTS: dict[str, Callable[[], bytes]] = {
    "no-content-vasprun.xml": lambda: vasprun(""),
    # deep nesting
    "nested-lists.json": lambda: b'{"sites":' + b"[" * (MB - 10),
    "nested-elements-vasprun.xml": lambda: vasprun(repeated("<i>")),
    # huge loops and long lines
    "loop-of-sites.cif": lambda: cif("100", sites=repeated("C1 0.1 0.2 0.3\n")),
    "many-blocks.cif": lambda: cif_blocks(4_500),
    "blocks-with-one-error.cif": lambda: repeated("data_a\n_b 'c\n").encode(),
    "one-token.cif": lambda: b"data_" + b"x" * (MB - 5),
    "one-line.extxyz": lambda: b"1\n" + b"a=1 " * (MB // 4 - 10) + b"\nH 0 0 0\n",
    "blank-lines.poscar": lambda: b"\n" * (MB - 1) + b"x",
    "one-line.csv": lambda: b"id,cif\na," + b'"' * (MB - 20),
    "count-of-atoms.xyz": lambda: b"999999999999\n\nH 0 0 0\n",
    "factors.res": lambda: (
        b"TITL x\nCELL 1 5 5 5 90 90 90\nLATT 1\n"
        + repeated("SYMM x+0.01,y,z\n").encode()
        + b"SFAC C\nC1 1 0 0 0\nEND\n"
    ),
    "records.pdb": lambda: repeated(
        "ATOM      1  C   MOL A   1       0.000   0.000   0.000  1.00  0.00           C  \n"
    ).encode(),
    "entries.json": lambda: b"[" + repeated('{"sites":0},').encode() + b"0]",
    "sites.json": lambda: sites_json(MB // 65),
    "array-shape.json": lambda: (
        b'{"numbers":{"__ndarray__":[[1000000000,1000000000],"int64",[]]},'
        b'"positions":{"__ndarray__":[[1000000000,3],"float64",[]]}}'
    ),
    "smallest-frames.xyz": lambda: repeated("1\n\nH 0 0 0\n").encode(),
    # cells and symmetry
    "enormous-cell.cif": lambda: cif("1e308"),
    "tiny-cell.extxyz": lambda: extxyz("H 0 0 0\n", 0.6, 0.6, 0.6),
    "sheet-cell.extxyz": lambda: extxyz("H 0 0 0\n", 0.6, 99_000, 99_000),
    "skewed-cell.extxyz": lambda: (
        b'1\nLattice="3 0 0 90000 3 0 0 90000 3" Properties=species:S:1:pos:R:3\nC 0 0 0\n'
    ),
    "atoms-at-one-point.extxyz": lambda: extxyz("C 0 0 0\n" * 1_000, 9, 9, 9),
    "operators-and-sites.cif": lambda: cif(
        "60",
        symmetry=operators(15_000),
        sites="".join(f"C{k} {k / 9_000:.5f} 0.1 0.2\n" for k in range(9_000)),
    ),
    "long-operator.cif": lambda: cif(
        symmetry="_symmetry_equiv_pos_as_xyz '" + "x+" * 400_000 + "x,y,z'\n"
    ),
    "formula.cif": lambda: (
        b"data_x\n_chemical_formula_sum '" + b"C9(" * 300_000 + b"'\n" + cif()[7:]
    ),
    # patterns
    "digits.xyz": lambda: b"1\n\nH " + b"1" * 400_000 + b" " + b"1" * 400_000 + b"x 0\n",
    "semicolons.cif": lambda: b"data_x\n_a\n" + b";\n" * 490_000,
    "key-values.extxyz": lambda: b"1\n" + b"a" * 990_000 + b"\nH 0 0 0\n",
    "commas.csv": lambda: b"cif," * 250_000,
    # bytes
    "nul-bytes.cif": lambda: b"\0" * MB,
    "random-utf16.cif": lambda: b"\xff\xfe" + bytes(range(256)) * 3_900,
    "ligatures.cif": lambda: b"data_x\n_a " + "\ufdfa".encode() * 330_000,
    # packed files
    "bomb.cif.gz": lambda: gzip.compress(BLANKS, 9),
    "bomb-of-sites.cif.gz": lambda: gzip.compress(
        cif("100", sites=repeated("C1 0.1 0.2 0.3\n", 100 * MB)), 9
    ),
    # usable structures, more than the size of the file suggests
    "blocks.cif.gz": lambda: gzip.compress(
        cif_blocks(30_000, length="20", symmetry=CUBIC, sites="C1 0.11 0.07 0.23\n")
    ),
    "large-blocks.cif.gz": lambda: gzip.compress(
        cif_blocks(30_000, length="30", symmetry=CUBIC, sites=FIVE_SITES)
    ),
    "blocks-in-members.zip": lambda: packed_zip(
        {f"{k}.cif": cif_blocks(4_000, length="20", symmetry=CUBIC) for k in range(8)}
    ),
    "frames.extxyz.gz": lambda: gzip.compress(FRAME * 30_000),
    "large-frames.extxyz.gz": lambda: gzip.compress(grid(9) * 3_000),
    "models.pdb.gz": lambda: gzip.compress(
        repeated(
            "MODEL        1\nCRYST1   20.000   20.000   20.000  90.00  90.00  90.00 F m -3 m\n"
            f"{PDB_ATOM}\nENDMDL\n",
            6 * MB,
        ).encode()
    ),
    "frames.XDATCAR.gz": lambda: gzip.compress(xdatcar(100_000)),
    "crystals.json.gz": lambda: gzip.compress(
        b"[" + b",".join([sites_json(8).replace(b"[0, 0, 0]", b"[0, 0, 0.5]")] * 10_000) + b"]"
    ),
    "sites-below-the-ratio.cif.gz": lambda: gzip.compress(
        b"#" + noise().encode() + b"\n" + cif("100", sites=repeated("C1 0.1 0.2 0.3\n", 90 * MB))
    ),
    "list-below-the-ratio.json.gz": lambda: gzip.compress(
        f'{{"x":"{noise()}","positions":[{repeated("[0,1,2],", 90 * MB)}0]}}'.encode()
    ),
    "records-below-the-ratio.pdb.gz": lambda: gzip.compress(
        repeated(f"{PDB_ATOM}\n", 90 * MB).encode() + noise().encode()
    ),
    "ase.db": lambda: ase_database(1_500),
    "equal-cifs.parquet": lambda: parquet(150_000),
    "bomb-twice.cif.gz.gz": lambda: gzip.compress(gzip.compress(BLANKS, 9), 9),
    "bomb.zip": lambda: packed_zip({"a.cif": BLANKS}),
    "bomb-bzip2.zip": lambda: packed_zip({f"{k}.cif": BLANKS for k in range(3)}, zipfile.ZIP_BZIP2),
    "bomb-of-many.zip": lambda: packed_zip({f"{k}.cif": b"#" * MB for k in range(500)}),
    "bomb-overlapping.zip": overlapping_zip,
    "many-files.zip": many_small_files,
    "nested.zip": lambda: nested_zip(50),
    "nested.cif.gz": lambda: gzip.compress(nested_zip(1)),
    "hostile-members.zip": lambda: packed_zip(
        {
            **{f"{k}.cif": INPUTS["ligatures.cif"]() for k in range(20)},
            "good.cif": cif("3.5"),
        }
    ),
    # XML and binary formats
    "billion-laughs-vasprun.xml": billion_laughs,
    "one-value-vasprun.xml": lambda: vasprun("<i>" + "1" * 990_000 + "</i>"),
    "bomb-vasprun.xml.gz": lambda: gzip.compress(vasprun("<i>1</i>" * 25_000_000), 9)[:MB],
    "damaged.parquet": lambda: b"PAR1" + b"\xff" * 900_000 + b"\xff\xff\xff\x0fPAR1",
    "damaged.db": lambda: b"SQLite format 3\0" + b"\x10\0\1\1\0\x40\x20\x20" + b"\xff" * 900_000,
}


def measure(name: str, folder: Path) -> tuple[str, float, float]:
    """Return what reading an input prints, its CPU time in s and its peak memory in MB.

    The time is that of all processes with their start, the peak that of the largest one.
    """
    file = folder / name
    file.write_bytes(INPUTS[name]())
    arguments = [READ, str(file)]
    if name.endswith(("vasprun.xml", "vasprun.xml.gz")):
        arguments = [LABELS, str(file)]
    command = [sys.executable, "-S", "-c", LAUNCHER, sys.executable, "-c", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    text, _, usage = result.stdout.rpartition("\n")
    seconds, peak_kb = usage.split()
    file.unlink()
    return text, float(seconds), float(peak_kb) / 1e3
