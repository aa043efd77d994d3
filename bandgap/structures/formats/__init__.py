"""Which format a file is in, by its content and its name; what is not on this list is never opened.

Every reader here is this package's own (CIF syntax is gemmi's): no database, script, pickle or trajectory of any
program is opened, whatever its name says.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from bandgap.foundation.errors import shown
from bandgap.structures.draft import NUMBER, Draft, Unreadable, refused
from bandgap.structures.formats.aims import read_aims
from bandgap.structures.formats.cif import read_cif
from bandgap.structures.formats.pdb import read_pdb
from bandgap.structures.formats.poscar import read_poscar
from bandgap.structures.formats.shelx import read_shelx
from bandgap.structures.formats.xyz import read_xyz
from bandgap.structures.records import Limits

ACCEPTED = "CIF, POSCAR/CONTCAR, XYZ, extXYZ, PDB, SHELX .res, FHI-aims geometry.in; as they are, as .gz or in a .zip"

_BY_SUFFIX = {
    "cif": "CIF", "mcif": "CIF", "xyz": "XYZ", "extxyz": "XYZ", "exyz": "XYZ", "pdb": "PDB", "ent": "PDB",
    "res": "SHELX", "ins": "SHELX", "vasp": "POSCAR", "poscar": "POSCAR", "contcar": "POSCAR",
}  # fmt: skip
_NEVER = {
    "db": "a database", "sqlite": "a database", "aselmdb": "a database", "lmdb": "a database", "json": "JSON",
    "py": "a Python script", "ipynb": "a notebook", "pkl": "a pickle", "pickle": "a pickle", "pckl": "a pickle",
    "traj": "an ASE trajectory", "npy": "a NumPy array", "npz": "NumPy arrays", "h5": "HDF5", "hdf5": "HDF5",
    "tar": "a tar archive", "tgz": "a tar archive", "bz2": "a bzip2 archive", "xz": "an xz archive",
    "7z": "a 7z archive", "rar": "a RAR archive",
}  # fmt: skip
_MAGIC = (
    (b"SQLite format 3\0", "a database"),
    (b"- of Ulm", "an ASE trajectory"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
)
_ROW = rf"{NUMBER}[ \t]+{NUMBER}[ \t]+{NUMBER}"
_SNIFFED = 200_000  # characters looked at
_LINE = re.MULTILINE | re.IGNORECASE
_CONTENT = {  # every pattern of a format is found
    "CIF": [re.compile(r"^[ \t]*data_", _LINE), re.compile(r"^[ \t]*_(?:cell|atom_site|symmetry|space_group)", _LINE)],
    "PDB": [re.compile(r"^(?:ATOM  |HETATM|CRYST1)", re.MULTILINE)],
    "SHELX": [re.compile(rf"^[ \t]*CELL[ \t]+{NUMBER}[ \t]+{_ROW}", _LINE), re.compile(r"^[ \t]*SFAC[ \t]", _LINE)],
    "FHI-aims": [re.compile(rf"^[ \t]*(?:lattice_vector|atom|atom_frac)[ \t]+{_ROW}", re.MULTILINE)],
    "POSCAR": [re.compile(rf"\A[^\n]*\n[ \t]*{NUMBER}[^\n]*\n(?:[ \t]*{_ROW}[^\n]*\n){{3}}")],
    "XYZ": [re.compile(rf"\A\s*\d++[ \t]*\n[^\n]*\n[ \t]*\w++[ \t]+{_ROW}")],
}
_READERS: dict[str, Callable[[str, Limits], Iterable[Draft]]] = {
    "CIF": lambda text, limits: read_cif(text, limits=limits),
    "PDB": lambda text, limits: read_pdb(text, limits=limits),
    "XYZ": lambda text, limits: read_xyz(text, limits=limits),
    "SHELX": lambda text, limits: [read_shelx(text, limits=limits)],
    "POSCAR": lambda text, limits: [read_poscar(text, limits=limits)],
    "FHI-aims": lambda text, limits: [read_aims(text, limits=limits)],
}


def suffix_of(name: str) -> str:
    """Return what follows the last dot of a file's name, in lower case; "" when there is none."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def refuse_by_kind(data: bytes, base: str) -> None:
    """Raise Unreadable for kinds of file that are never opened, by name or by their first bytes."""
    kind = _NEVER.get(suffix_of(base)) or next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
    if kind:
        raise Unreadable(f"{kind} is not opened. Accepted: {ACCEPTED}.")


def detect(text: str, base: str) -> str:
    """Return the format of a text: the one of its name when the content fits, else the content's.

    A name on the list is believed when the content fits nothing, so that its reader can say what is wrong.
    Raises Unreadable when neither tells.
    """
    named = _by_name(base)
    probe = text[:_SNIFFED]
    fitting = [form for form, patterns in _CONTENT.items() if all(pattern.search(probe) for pattern in patterns)]
    if named in fitting:
        return named
    if fitting:
        return fitting[0]
    if named:
        return named
    raise Unreadable(
        f"not a structure file (it begins with {shown(probe.strip().partition(chr(10))[0])}). Accepted: {ACCEPTED}."
    )


def read_text(text: str, form: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield the drafts of a text in format `form`; what its reader raises becomes the draft that says so."""
    try:
        yield from _READERS[form](text, limits)
    except Unreadable as error:
        yield refused(str(error), format=form)


def _by_name(base: str) -> str:
    if base.lower().startswith("geometry.in"):
        return "FHI-aims"
    if re.match(r"(POSCAR|CONTCAR)", base):
        return "POSCAR"
    return _BY_SUFFIX.get(suffix_of(base), "")
