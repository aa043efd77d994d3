"""File formats: one file each, one line each in the registry; what is not on this list is never opened.

Every reader here is this package's own (CIF syntax is gemmi's): no database, script, pickle or trajectory of any
program is opened, whatever its name says.
"""

from collections.abc import Iterable, Iterator

from bandgap.foundation.errors import shown
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Format, Unreadable, refused
from bandgap.structures.formats import aims, ase_db, cif, optimade, parquet, pdb, poscar, shelx, xyz
from bandgap.structures.records import Limits
from bandgap.structures.texts import Text

# Where the content of a file fits several, the first is taken.
FORMATS = (
    *(cif.FORMAT, poscar.FORMAT, xyz.FORMAT, pdb.FORMAT, shelx.FORMAT, aims.FORMAT),
    *(optimade.FORMAT, ase_db.FORMAT, parquet.FORMAT),
)
NAMES = ", ".join(form.label for form in FORMATS)
ACCEPTED = f"{NAMES}; as they are, as .gz or in a .zip"

_NEVER = {
    "db": "a database", "sqlite": "a database", "aselmdb": "a database", "lmdb": "a database", "json": "JSON",
    "py": "a Python script", "ipynb": "a notebook", "pkl": "a pickle", "pickle": "a pickle", "pckl": "a pickle",
    "traj": "an ASE trajectory", "npy": "a NumPy array", "npz": "NumPy arrays", "h5": "HDF5", "hdf5": "HDF5",
    "tar": "a tar archive", "tgz": "a tar archive", "bz2": "a bzip2 archive", "xz": "an xz archive",
    "7z": "a 7z archive", "rar": "a RAR archive",
}  # fmt: skip
_MAGIC = {
    b"SQLite format 3\0": "a database", b"- of Ulm": "an ASE trajectory", b"\x89HDF": "HDF5",
    b"\x93NUMPY": "a NumPy array", b"%PDF": "a PDF", b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture",
    b"BZh": "a bzip2 archive", b"\xfd7zXZ": "an xz archive", b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a RAR archive",
    b"\x80\x02": "a pickle", b"\x80\x03": "a pickle", b"\x80\x04": "a pickle", b"\x80\x05": "a pickle",
}  # fmt: skip
_SNIFFED = 200_000  # characters looked at
_HEAD = 1_000_000  # bytes looked at


def suffix_of(name: str) -> str:
    """Return what follows the last dot of a file's name, in lower case; "" when there is none."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def refuse_by_kind(content: Content, base: str) -> None:
    """Raise Unreadable for kinds of file that are never opened, by name or by their first bytes."""
    if suffix_of(base) == "json" and optimade.MARK.encode() in content.whole():
        return
    data = content.head(_HEAD)
    kind = _NEVER.get(suffix_of(base)) or next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
    if kind:
        raise Unreadable(f"{kind} is not opened. Accepted: {ACCEPTED}.")


def binary_format(content: Content) -> Format | None:
    """Return the format that is no text and that these bytes are of, whatever the file's name; None for none."""
    data = content.head(_HEAD)
    return next((form for form in FORMATS if form.has_signature is not None and form.has_signature(data)), None)


def detect(text: Text, base: str) -> Format:
    """Return the format of a text: the one of its name when the content fits, else the content's.

    A name on the list is believed when the content fits nothing, so that its reader can say what is wrong.
    Raises Unreadable when neither tells.
    """
    named = _by_name(base)
    probe = text.head(_SNIFFED)
    fitting = [
        form for form in FORMATS if form.read is not None and all(pattern.search(probe) for pattern in form.patterns)
    ]
    if named and (named in fitting or not fitting):
        return named
    if fitting:
        return fitting[0]
    raise Unreadable(
        f"not a structure file (it begins with {shown(probe.strip().partition(chr(10))[0])}). Accepted: {ACCEPTED}."
    )


def read_content(content: Text | Content, form: Format, *, limits: Limits) -> Iterator[Draft]:
    """Yield the drafts of a text, or bytes, in format `form`; what its reader raises becomes the draft that says so."""
    try:
        for draft in _read(content, form, limits):
            draft.format = draft.format or form.name
            yield draft
    except Unreadable as error:
        draft = refused(str(error))
        draft.format = form.name
        yield draft


def _read(content: Text | Content, form: Format, limits: Limits) -> Iterable[Draft]:
    if isinstance(content, Content):
        assert form.read_content is not None  # `binary_format` gives only such
        return form.read_content(content, limits=limits)
    if form.read_lines is not None:
        return form.read_lines(content, limits=limits)
    assert form.read is not None  # `detect` gives only such
    return form.read(content.whole(), limits=limits)


def is_nameless(base: str) -> bool:
    """Return whether files of this name are told apart by their folders: POSCAR, geometry.in."""
    return base.lower() in {name.lower() for form in FORMATS for name in form.names}


def _by_name(base: str) -> Format | None:
    for form in FORMATS:
        if base.lower().startswith(tuple(name.lower() for name in form.names)):
            return form
    return next((form for form in FORMATS if form.read is not None and suffix_of(base) in form.suffixes), None)
