"""The file formats that are read, and how the format of a file is found.

Each format has a module with a `Format`, which is listed in `FORMATS`. A file whose name or first
bytes are those of a format loads only the module of this format.

Only these formats are opened. Their readers are part of this package, with gemmi for the syntax of
CIF, so that no script, pickle or trajectory is ever executed.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bandgap.foundation.errors import quoted
from bandgap.foundation.lazy import Registry
from bandgap.structures.contents import Content
from bandgap.structures.draft import Format, Unreadable
from bandgap.structures.texts import Text

if TYPE_CHECKING:
    NAMES: str
    ACCEPTED: str

_MODULES = (
    *("csv_table", "cif", "poscar", "xyz", "pdb", "shelx", "aims"),
    *("optimade", "json_structures", "ase_db", "parquet"),
)
# If the content of a file matches several formats, the first one is used.
FORMATS: Mapping[str, Format] = Registry({name: f"{__name__}.{name}:FORMAT" for name in _MODULES})
# Suffixes of each text format, and beginnings of its file names, with any suffix; structures of
# such files get the folder's name as id.
SUFFIXES = {
    "cif": ("cif", "mcif"),
    "poscar": ("vasp", "poscar", "contcar", "xdatcar"),
    "xyz": ("xyz", "extxyz", "exyz"),
    "pdb": ("pdb", "ent"),
    "shelx": ("res", "ins"),
    "optimade": ("json",),
    "json_structures": ("json",),
}
_FILE_NAMES = {
    "poscar": ("POSCAR", "CONTCAR", "XDATCAR"),
    "aims": ("geometry.in", "geometry.in.next_step"),
}
BINARY_SUFFIXES = ("db", "parquet", "pq")
# First bytes of each binary format.
_SIGNATURES = {"ase_db": b"SQLite format 3\0", "parquet": b"PAR1"}

_KIND_BY_SUFFIX = {  # of files that are never opened
    "db": "a database", "sqlite": "a database", "aselmdb": "a database", "lmdb": "a database",
    "json": "this JSON", "py": "a Python script", "ipynb": "a notebook", "pkl": "a pickle",
    "pickle": "a pickle", "pckl": "a pickle", "traj": "an ASE trajectory",
    "npy": "a NumPy array", "npz": "NumPy arrays", "h5": "HDF5", "hdf5": "HDF5",
    "tar": "a tar archive", "tgz": "a tar archive", "bz2": "a file packed with bzip2",
    "xz": "a file packed with xz", "7z": "a 7z archive", "rar": "a RAR archive",
}  # fmt: skip
_KIND_BY_SIGNATURE = {  # first bytes of files that are never opened
    b"SQLite format 3\0": "a database", b"- of Ulm": "an ASE trajectory", b"\x89HDF": "HDF5",
    b"\x93NUMPY": "a NumPy array", b"%PDF": "a PDF", b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture", b"BZh": "a file packed with bzip2",
    b"\xfd7zXZ": "a file packed with xz", b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a RAR archive",
    b"\x80\x02": "a pickle", b"\x80\x03": "a pickle", b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
}  # fmt: skip
_REMEDIES = {  # by a word of the kind
    "JSON": " It has no atoms with positions; compositions alone are not enough. Of an entry of"
    " AFLOW take CONTCAR.relax.vasp.",
    "archive": " Unpack it.",
    "packed": " Decompress it.",
    "trajectory": " Write it as extXYZ: `ase convert run.traj run.extxyz`.",
}
_PROBED_CHARACTERS = 200_000
_PROBED_BYTES = 1_000_000


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without the dot; "" if there is none."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def refuse_by_kind(content: Content, base: str) -> None:
    """Raise Unreadable if a file's name or first bytes are those of a kind that is never opened."""
    if suffix_of(base) == "json" and _has_json_structures(content):
        return
    data = content.head(_PROBED_BYTES)
    kind = _KIND_BY_SUFFIX.get(suffix_of(base)) or next(
        (kind for magic, kind in _KIND_BY_SIGNATURE.items() if data.startswith(magic)), ""
    )
    if kind:
        remedy = next((text for word, text in _REMEDIES.items() if word in kind), "")
        raise Unreadable(f"{kind} is not opened.{remedy} Accepted: {_accepted()}.")


def binary_format(content: Content) -> Format | None:
    """Return the binary format of a content by its first bytes, None if it has none."""
    data = content.head(_PROBED_BYTES)
    for name, signature in _SIGNATURES.items():
        if data.startswith(signature):
            form = FORMATS[name]
            if form.has_signature is None or form.has_signature(data):
                return form
    return None


# Files of other programs, by a pattern of their lines, with the name of their format in ASE.
_OF_PROGRAMS = {
    "an input of Quantum ESPRESSO": (r"&(?:control|system)\b", "espresso-in"),
    "a cell of CASTEP": (r"%block\s+(?:lattice|positions)_", "castep-cell"),
    "a file of XCrySDen": (r"(?:PRIMVEC|PRIMCOORD|ATOMS)\s*$", "xsf"),
}
_TABLESUFFIXES = (".csv", ".tsv")
_TABLE = " A table of gaps is given on its own, next to the files or the archive of structures."


def detect(text: Text, base: str) -> Format:
    """Return the format of a text.

    The format of the file's name is used if the content matches it, or if the content matches no
    format; its reader can then say what is wrong. Otherwise it is the first format that the content
    matches. Raises Unreadable if neither the name nor the content belongs to a format.
    """
    format_of_name = _by_name(base)
    probe = text.head(_PROBED_CHARACTERS)
    if format_of_name and _matches(probe, format_of_name):
        return format_of_name
    for form in FORMATS.values():
        if _matches(probe, form):
            return form
    if format_of_name:
        return format_of_name
    for kind, (pattern, name) in _OF_PROGRAMS.items():
        if re.search(rf"^\s*{pattern}", probe, re.IGNORECASE | re.MULTILINE):
            raise Unreadable(
                f"{kind} is not read. Write the structure as CIF or extXYZ, for example by"
                f" `ase convert -i {name} {base} structure.extxyz`"
            )
    raise Unreadable(
        f"not a structure file (it begins with {quoted(probe.strip().partition(chr(10))[0])})."
        f" Accepted: {_accepted()}.{_TABLE if base.lower().endswith(_TABLESUFFIXES) else ''}"
    )


def is_nameless(base: str) -> bool:
    """Return whether all files of a format have this name, such as POSCAR or geometry.in."""
    return base.lower() in {name.lower() for names in _FILE_NAMES.values() for name in names}


def _by_name(base: str) -> Format | None:
    """Return the format of a file name; a known suffix counts more than how the name begins."""
    suffix = suffix_of(base)
    for module, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return FORMATS[module]
    if base.lower().endswith(_TABLESUFFIXES):
        return None
    for module, names in _FILE_NAMES.items():
        if base.lower().startswith(tuple(name.lower() for name in names)):
            return FORMATS[module]
    return None


def _matches(probe: str, form: Format) -> bool:
    return bool(form.patterns) and all(pattern.search(probe) for pattern in form.patterns)


def _has_json_structures(content: Content) -> bool:
    from bandgap.structures.formats.json_structures import MARKS
    from bandgap.structures.formats.optimade import MARK

    data = content.read_all()
    return any(mark.encode() in data for mark in (f'"{MARK}"', *MARKS))


def _labels() -> str:
    # the table comes last: it is recognised first, but few people have one
    table, *other_formats = FORMATS.values()
    return ", ".join(form.label for form in (*other_formats, table))


def _accepted() -> str:
    return f"{_labels()}; as they are, as .gz or in a .zip"


def __getattr__(name: str) -> Any:
    """Return NAMES or ACCEPTED, which load the modules of all formats (PEP 562)."""
    if name == "NAMES":
        return _labels()
    if name == "ACCEPTED":
        return _accepted()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
