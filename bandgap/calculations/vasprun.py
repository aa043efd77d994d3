"""Read what a gap needs from a `vasprun.xml` of VASP: settings, structure, eigenvalues, steps.

The file is read as a stream. Densities of states and projections, which are most of a large file,
are skipped. The memory grows only with the number of eigenvalues.
"""

import gzip
import math
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import Unreadable

Floats = NDArray[np.float64]

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 2**16
MAX_BYTES = 20_000_000_000  # after decompression
MAX_RATIO = 50  # unpacked by packed size; real files have 10 to 25
MAX_EIGENVALUES = 10_000_000  # 160 MB with the occupations
MAX_TEXT = 100_000  # characters of one value
MAX_VALUES = 20_000  # settings, atoms, and k-points
MAX_DEPTH = 50
_ELEMENT_NAMES = {"X": "Xe", "r": "Zr"}  # as VASP shortens them
_READ_IN_CALCULATION = ("scstep", "structure", "varray", "energy", "eigenvalues")


@dataclass
class VaspRun:
    """Content of a `vasprun.xml`.

    Parameters
    ----------
    version
        Version of VASP.
    incar, parameters
        Settings as given and as used, by name in capitals, as texts.
    symbols
        Elements (atom,).
    kinds
        Number of atoms, number of valence electrons and title of the pseudopotential, by type.
    cell, positions
        Vectors (3, 3) in Angstrom as rows, and fractional coordinates (atom, 3), of the step to
        which the eigenvalues belong.
    weights
        Weights (k-point,).
    energies_eV, occupations
        Eigenvalues in eV and occupations (spin, k-point, band).
    n_ionic_steps, n_electronic_steps
        Number of ionic steps, and of electronic steps in the last of them.
    energy_changes_eV
        Last change of the energy in the last electronic loop and between the last two ionic
        steps, NaN where there is one step.
    largest_force
        Largest force on an atom in the last step in eV per Angstrom, NaN if none is given.
    has_other_kpoints
        Whether there are eigenvalues at the k-points of a KPOINTS_OPT file, which are not read.
    """

    version: str = ""
    incar: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    kinds: list[tuple[int, float, str]] = field(default_factory=list)
    cell: Floats = field(default_factory=lambda: np.zeros((3, 3)))
    positions: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    energies_eV: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    occupations: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    n_ionic_steps: int = 0
    n_electronic_steps: int = 0
    energy_changes_eV: tuple[float, float] = (np.nan, np.nan)
    largest_force: float = np.nan
    has_other_kpoints: bool = False

    def text(self, name: str) -> str:
        """Return a setting without comment: the value used, otherwise that of the INCAR, or ""."""
        used = _without_comment(self.parameters.get(name, ""))
        return used or _without_comment(self.incar.get(name, ""))

    def number(self, name: str, default: float) -> float:
        """Return a setting as a number. Raises Unreadable for other texts."""
        text = self.text(name)
        return _number(text.split()[0], name) if text else default

    def is_on(self, name: str) -> bool:
        """Return whether a logical setting is true."""
        return self.text(name).strip(".").upper().startswith("T")


def read_vasprun(path: Path) -> VaspRun:
    """Read a `vasprun.xml`, which may be gzipped.

    Raises
    ------
    Unreadable
        If the file is no complete output of VASP, or has no eigenvalues, with the reason.
    """
    try:
        with path.open("rb") as file:
            return _parsed(_chunks(file, packed_bytes=path.stat().st_size))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Unreadable(
            "the compressed file is damaged or was cut off. Copy it again from where it was made"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreadable(f"the file cannot be opened ({reason})") from error


def _chunks(file: BinaryIO, *, packed_bytes: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces, decompressed."""
    head = file.read(len(GZIP_MAGIC))
    file.seek(0)
    is_packed = head == GZIP_MAGIC
    stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if is_packed else file
    largest = min(MAX_BYTES, max(MAX_RATIO * packed_bytes, 10**7)) if is_packed else MAX_BYTES
    n_bytes = 0
    while chunk := stream.read(CHUNK_BYTES):
        if not n_bytes and is_packed and chunk.startswith(GZIP_MAGIC):
            raise Unreadable("the file was gzipped twice. Decompress it once with gunzip")
        n_bytes += len(chunk)
        if n_bytes > largest:
            raise Unreadable(
                f"the file has more than {largest / 1e6:,.0f} MB after decompression, which no"
                " output of this size has"
            )
        yield chunk
    if not n_bytes:
        raise Unreadable("the file is empty")


def _parsed(chunks: Iterator[bytes]) -> VaspRun:
    handler = _Handler()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.add_text
    # VASP writes none. Entities of such a declaration can expand to any size.
    parser.StartDoctypeDeclHandler = _refuse_declaration
    n_bytes = 0
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            n_bytes += len(chunk)
            if n_bytes - parser.CurrentByteIndex > 16 * CHUNK_BYTES:
                raise Unreadable("an XML tag has more than 1 MB. VASP writes no such file")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Unreadable(_reason(error, handler)) from error
    return handler.result()


def _refuse_declaration(*_: object) -> None:
    raise Unreadable("the file declares a document type (DOCTYPE), which VASP never writes")


def _reason(error: expat.ExpatError, handler: "_Handler") -> str:
    ends_early = error.code in (
        expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
        expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
        expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
    )
    if not handler.has_started:
        return "the file is not XML. A vasprun.xml of VASP is expected"
    if ends_early:
        return (
            f"the file ends early, in line {error.lineno:,}: the calculation was stopped, is still"
            " running, or the file was cut off"
        )
    message = expat.ErrorString(error.code)
    return f"the file is damaged in line {error.lineno:,}, column {error.offset + 1:,} ({message})"


class _Handler:
    """Collect the content of the elements that are needed; the methods are called by expat."""

    def __init__(self) -> None:
        self.has_started = False
        self.run = VaspRun()
        self._tags: list[str] = []
        self._names: list[str] = []  # attribute `name` of every open element
        self._skipped_from = 0  # depth of the element that is skipped, 0 for none
        self._texts: list[str] | None = None  # of the element that is being read
        self._n_characters = 0
        self._row: list[str] = []  # cells of a table row
        self._vectors: dict[str, list[list[float]]] = {}  # lists of vectors by name
        self._energies = array("d")
        self._occupations = array("d")
        self._n_spins = 0
        self._n_kpoints = 0
        self._electronic_energies: list[float] = []  # the last two
        self._ionic_energies: list[float] = []  # the last two
        self._has_eigenvalues = False
        self._weights: list[float] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        if not self._tags and tag != "modeling":
            raise Unreadable(
                f"the file is no output of VASP: its first element is {quoted(tag)}, and <modeling>"
                " is expected"
            )
        self.has_started = True
        self._tags.append(tag)
        self._names.append(attributes.get("name", ""))
        depth = len(self._tags)
        if depth > MAX_DEPTH:
            raise Unreadable("XML elements are nested too deep. VASP writes no such file")
        if self._skipped_from:
            return
        if depth == 2 and tag == "calculation":
            self._start_calculation()
        elif depth == 3 and self._tags[1] == "calculation":
            self._start_in_calculation(tag)
        elif tag == "set" and self._in_eigenvalues():
            comment = attributes.get("comment", "")
            self._n_spins += comment.startswith("spin")
            self._n_kpoints += comment.startswith("kpoint")
        elif tag in ("i", "v", "c", "r"):
            self._texts = []
            self._n_characters = 0

    def add_text(self, text: str) -> None:
        """Add text to the value that is being read."""
        if self._texts is None:
            return
        self._texts.append(text)
        self._n_characters += len(text)
        if self._n_characters > MAX_TEXT:
            raise Unreadable(f"a value has more than {MAX_TEXT:,} characters")

    def end(self, tag: str) -> None:
        """Close an element and store its content."""
        depth = len(self._tags)
        if not self._skipped_from:
            if self._texts is not None and tag in ("i", "v", "c", "r"):
                self._store(tag, "".join(self._texts).strip())
                self._texts = None
            elif tag == "rc":
                self._store_row()
            elif tag == "calculation" and depth == 2:
                self._end_calculation()
            elif tag == "kpoints" and depth == 2:
                self._weights = [row[0] for row in self._vectors.get("weights", []) if row]
        elif self._skipped_from == depth:
            self._skipped_from = 0
        self._tags.pop()
        self._names.pop()

    def result(self) -> VaspRun:
        """Return the content of the file. Raises Unreadable if a part is missing."""
        run = self.run
        if not self._has_eigenvalues:
            raise Unreadable(
                "the file has no eigenvalues, so that there is no gap to read"
                if run.n_ionic_steps
                else "the file has no finished calculation"
            )
        shape = (max(self._n_spins, 1), self._n_kpoints // max(self._n_spins, 1), -1)
        if not self._energies or not self._n_kpoints or len(self._energies) % self._n_kpoints:
            raise Unreadable("the eigenvalues are incomplete: k-points have unequal numbers")
        run.energies_eV = np.frombuffer(self._energies).reshape(shape)
        run.occupations = np.frombuffer(self._occupations).reshape(shape)
        run.weights = np.array(self._weights)
        n_kpoints = run.energies_eV.shape[1]
        if run.weights.size != n_kpoints:
            raise Unreadable(
                f"the file lists {run.weights.size:,} k-points, and has eigenvalues at"
                f" {n_kpoints:,}"
            )
        if not run.symbols or len(run.symbols) != len(run.positions):
            raise Unreadable(
                f"the file names {len(run.symbols):,} atoms, and has positions of"
                f" {len(run.positions):,}"
            )
        return run

    def _in_eigenvalues(self) -> bool:
        return self._tags[1:3] == ["calculation", "eigenvalues"]

    def _start_calculation(self) -> None:
        self.run.n_ionic_steps += 1
        self.run.n_electronic_steps = 0
        self._electronic_energies = []
        for name in ("basis", "positions", "forces"):
            self._vectors.pop(name, None)

    def _start_in_calculation(self, tag: str) -> None:
        if tag not in _READ_IN_CALCULATION:
            self._skipped_from = len(self._tags)
            self.run.has_other_kpoints |= tag == "eigenvalues_kpoints_opt"
        elif tag == "scstep":
            self.run.n_electronic_steps += 1
        elif tag == "eigenvalues":
            self._has_eigenvalues = True
            self._energies = array("d")
            self._occupations = array("d")
            self._n_spins = 0
            self._n_kpoints = 0

    def _end_calculation(self) -> None:
        run = self.run
        run.energy_changes_eV = (
            _last_change(self._electronic_energies),
            _last_change(self._ionic_energies),
        )
        forces = self._vectors.get("forces")
        run.largest_force = np.nan if not forces else _longest(forces)
        basis = self._vectors.get("basis", [])
        positions = self._vectors.get("positions", [])
        if [len(row) for row in basis] != [3, 3, 3] or any(len(row) != 3 for row in positions):
            raise Unreadable("the structure of a step is incomplete")
        run.cell = np.array(basis)
        run.positions = np.array(positions).reshape(-1, 3)

    def _store(self, tag: str, text: str) -> None:
        section = self._tags[1] if len(self._tags) > 1 else ""
        name = self._names[-1]
        if section in ("incar", "parameters"):
            settings = self.run.incar if section == "incar" else self.run.parameters
            if len(settings) < MAX_VALUES:
                # The same name occurs again for the response functions; the first is meant.
                settings.setdefault(name.upper(), text)
        elif section == "generator" and name == "version":
            self.run.version = text
        elif tag == "c":
            self._row.append(text)
        elif tag == "r" and self._in_eigenvalues():
            self._store_eigenvalue(text)
        elif tag == "v":
            self._store_vector(self._names[-2], text)
        elif tag == "i" and name == "e_fr_energy" and section == "calculation":
            is_electronic = self._tags[2] == "scstep"
            energies = self._electronic_energies if is_electronic else self._ionic_energies
            energies.append(_number(text, "the energy"))
            del energies[:-2]

    def _store_row(self) -> None:
        table = next((name for name in reversed(self._names) if name), "")
        row = self._row
        self._row = []
        if self._tags[1] != "atominfo" or len(self.run.symbols) >= MAX_VALUES:
            return
        if table == "atoms" and row:
            self.run.symbols.append(_ELEMENT_NAMES.get(row[0], row[0]))
        elif table == "atomtypes" and len(row) >= 5:
            n_atoms = int(_number(row[0], "the number of atoms"))
            n_electrons = _number(row[3], "the number of valence electrons")
            self.run.kinds.append((n_atoms, n_electrons, row[4]))

    def _store_vector(self, name: str, text: str) -> None:
        names_by_tag = {"kpoints": ("weights",), "calculation": ("basis", "positions", "forces")}
        if name not in names_by_tag.get(self._tags[1], ()):
            return
        vectors = self._vectors.setdefault(name, [])
        if len(vectors) >= MAX_VALUES * 10:
            raise Unreadable(f"the list {name} has more than {MAX_VALUES * 10:,} rows")
        vectors.append([_number(word, name) for word in text.split()])

    def _store_eigenvalue(self, text: str) -> None:
        words = text.split()
        if len(words) < 2:
            raise Unreadable(f"an eigenvalue has no occupation: {quoted(text)}")
        if len(self._energies) >= MAX_EIGENVALUES:
            raise Unreadable(f"the file has more than {MAX_EIGENVALUES:,} eigenvalues")
        self._energies.append(_number(words[0], "an eigenvalue"))
        self._occupations.append(_number(words[1], "an occupation"))


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise Unreadable(f"{what} is not a number: {quoted(text)}")
    return number


def _last_change(values: list[float]) -> float:
    return values[-1] - values[-2] if len(values) > 1 else np.nan


def _longest(vectors: list[list[float]]) -> float:
    return max(math.hypot(*vector) for vector in vectors)


def _without_comment(text: str) -> str:
    """Return a value without a comment, such as "PE" of "PE ! PBE exchange"."""
    return text.partition("!")[0].partition("#")[0].strip()
