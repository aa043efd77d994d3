"""The file formats that are read, and how the format of a file is found.

Each format has a module with a `Format`, which is listed in `FORMATS`. Only these formats are
opened. Their readers are part of this package, with gemmi for the syntax of CIF, so that no script,
pickle or trajectory is ever executed.
"""

from collections.abc import Iterable, Iterator

from bandgap.foundation.errors import quoted
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.formats import (
    aims,
    ase_db,
    cif,
    csv_table,
    json_structures,
    optimade,
    parquet,
    pdb,
    poscar,
    shelx,
    xyz,
)
from bandgap.structures.records import Limits
from bandgap.structures.texts import Text

# If the content of a file matches several formats, the first one is used.
FORMATS = (
    *(
        csv_table.FORMAT,
        cif.FORMAT,
        poscar.FORMAT,
        xyz.FORMAT,
        pdb.FORMAT,
        shelx.FORMAT,
        aims.FORMAT,
    ),
    *(optimade.FORMAT, json_structures.FORMAT, ase_db.FORMAT, parquet.FORMAT),
)
# The table comes last in messages: it is recognised first, but few people have one.
NAMES = ", ".join(form.label for form in (*FORMATS[1:], FORMATS[0]))
ACCEPTED = f"{NAMES}; as they are, as .gz or in a .zip"

_KIND_BY_SUFFIX = {  # of files that are never opened
    "db": "a database", "sqlite": "a database", "aselmdb": "a database", "lmdb": "a database",
    "json": "JSON", "py": "a Python script", "ipynb": "a notebook", "pkl": "a pickle",
    "pickle": "a pickle", "pckl": "a pickle", "traj": "an ASE trajectory",
    "npy": "a NumPy array", "npz": "NumPy arrays", "h5": "HDF5", "hdf5": "HDF5",
    "tar": "a tar archive", "tgz": "a tar archive", "bz2": "a bzip2 archive",
    "xz": "an xz archive", "7z": "a 7z archive", "rar": "a RAR archive",
}  # fmt: skip
_KIND_BY_SIGNATURE = {  # first bytes of files that are never opened
    b"SQLite format 3\0": "a database", b"- of Ulm": "an ASE trajectory", b"\x89HDF": "HDF5",
    b"\x93NUMPY": "a NumPy array", b"%PDF": "a PDF", b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture", b"BZh": "a bzip2 archive", b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a RAR archive", b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle", b"\x80\x04": "a pickle", b"\x80\x05": "a pickle",
}  # fmt: skip
_PROBED_CHARACTERS = 200_000
_PROBED_BYTES = 1_000_000


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without the dot; "" if there is none."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def refuse_by_kind(content: Content, base: str) -> None:
    """Raise Unreadable if a file's name or first bytes are those of a kind that is never opened."""
    marks = (f'"{optimade.MARK}"', *json_structures.MARKS)
    if suffix_of(base) == "json" and any(mark.encode() in content.read_all() for mark in marks):
        return
    data = content.head(_PROBED_BYTES)
    kind = _KIND_BY_SUFFIX.get(suffix_of(base)) or next(
        (kind for magic, kind in _KIND_BY_SIGNATURE.items() if data.startswith(magic)), ""
    )
    if kind:
        raise Unreadable(f"{kind} is not opened. Accepted: {ACCEPTED}.")


def binary_format(content: Content) -> Format | None:
    """Return the binary format of a content by its first bytes, None if it has none."""
    data = content.head(_PROBED_BYTES)
    return next(
        (form for form in FORMATS if form.has_signature is not None and form.has_signature(data)),
        None,
    )


def detect(text: Text, base: str) -> Format:
    """Return the format of a text.

    The format of the file's name is used if the content matches it, or if the content matches no
    format; its reader can then say what is wrong. Otherwise it is the first format that the content
    matches. Raises Unreadable if neither the name nor the content belongs to a format.
    """
    format_of_name = _by_name(base)
    probe = text.head(_PROBED_CHARACTERS)
    matching_formats = [
        form
        for form in FORMATS
        if form.read is not None and all(pattern.search(probe) for pattern in form.patterns)
    ]
    if format_of_name and (format_of_name in matching_formats or not matching_formats):
        return format_of_name
    if matching_formats:
        return matching_formats[0]
    raise Unreadable(
        f"not a structure file (it begins with {quoted(probe.strip().partition(chr(10))[0])})."
        f" Accepted: {ACCEPTED}."
    )


def read_content(content: Text | Content, form: Format, *, limits: Limits) -> Iterator[Draft]:
    """Yield the drafts of a text or a binary content in a format.

    If its reader raises Unreadable, the last draft is a refused one with the reason.
    """
    try:
        for draft in _read(content, form, limits):
            draft.format = draft.format or form.name
            yield draft
    except Unreadable as error:
        draft = refused_draft(str(error))
        draft.format = form.name
        yield draft


def _read(content: Text | Content, form: Format, limits: Limits) -> Iterable[Draft]:
    if isinstance(content, Content):
        assert form.read_content is not None  # because `binary_format` returned it
        return form.read_content(content, limits=limits)
    if form.read_lines is not None:
        return form.read_lines(content, limits=limits)
    assert form.read is not None  # because `detect` returned it
    return form.read(content.read_all(), limits=limits)


def is_nameless(base: str) -> bool:
    """Return whether all files of a format have this name, such as POSCAR or geometry.in."""
    return base.lower() in {name.lower() for form in FORMATS for name in form.names}


def _by_name(base: str) -> Format | None:
    for form in FORMATS:
        if base.lower().startswith(tuple(name.lower() for name in form.names)):
            return form
    return next(
        (form for form in FORMATS if form.read is not None and suffix_of(base) in form.suffixes),
        None,
    )
