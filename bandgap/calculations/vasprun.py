"""Read what a gap needs from a `vasprun.xml` of VASP: settings, structure, eigenvalues, steps.

The file is read as a stream. Densities of states and projections, which are most of a large file,
are skipped. The memory grows only with the number of eigenvalues.
"""

import math
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.calculations.packed_xml import number_or_nan, parse_xml
from bandgap.foundation.errors import quoted
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable

Floats = NDArray[np.float64]

MAX_EIGENVALUES = 10_000_000  # 160 MB with the occupations
MAX_TEXT = 100_000  # characters of one value
MAX_VALUES = 20_000  # settings, atoms, and k-points
MAX_DEPTH = 50
_ELEMENT_NAMES = {"X": "Xe", "r": "Zr"}  # as VASP shortens them
_OTHER_KPOINTS = "eigenvalues_kpoints_opt"
_OF_STEPS = ("EDIFF", "EDIFFG", "NELM", "NSW", "IBRION")  # settings that the gap does not need
_READ_IN_CALCULATION = (
    *("scstep", "structure", "varray", "energy", "eigenvalues"),
    _OTHER_KPOINTS,
)


@dataclass
class VaspRun:
    """Content of a `vasprun.xml`.

    Parameters
    ----------
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
    has_fixed_atoms
        Whether atoms may be fixed (selective dynamics), so that their forces mean nothing.
    """

    incar: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    kinds: list[tuple[float, float, str]] = field(default_factory=list)
    cell: Floats = field(default_factory=lambda: np.zeros((3, 3)))
    positions: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    energies_eV: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    occupations: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    n_ionic_steps: int = 0
    n_electronic_steps: int = 0
    energy_changes_eV: tuple[float, float] = (np.nan, np.nan)
    largest_force: float = np.nan
    has_fixed_atoms: bool = False

    def text(self, name: str) -> str:
        """Return a setting without comment: the value used, otherwise that of the INCAR, or ""."""
        used = _without_comment(self.parameters.get(name, ""))
        return used or _without_comment(self.incar.get(name, ""))

    def number(self, name: str, default: float) -> float:
        """Return a setting as a number.

        Raises Unreadable for another text, unless the gap does not need the setting.
        """
        text = self.text(name)
        value = number_or_nan(text.split()[0]) if text else default
        if text and math.isnan(value) and name not in _OF_STEPS:
            raise Unreadable(f"{name} is not a number: {quoted(text)}")
        return default if math.isnan(value) else value

    def is_on(self, name: str) -> bool:
        """Return whether a logical setting is true."""
        return self.text(name).strip(".").upper().startswith("T")


def read_vasprun(content: Content) -> VaspRun:
    """Read a `vasprun.xml`, which may be gzipped.

    Raises
    ------
    Unreadable
        If the file is no complete output of VASP, or has no eigenvalues, with the reason.
    """
    handler = _Handler()
    parse_xml(content, handler, program="VASP")
    return handler.result()


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
        self._blocks = {"eigenvalues": _BandBlock(), _OTHER_KPOINTS: _BandBlock()}
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
        elif tag == "set" and (block := self._open_block()) is not None:
            comment = attributes.get("comment", "")
            block.n_spins += comment.startswith("spin")
            block.n_kpoints += comment.startswith("kpoint")
        elif tag == "varray" and attributes.get("name") == "selective":
            self.run.has_fixed_atoms = True
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
        run.energies_eV, run.occupations = self._blocks["eigenvalues"].arrays()
        run.weights = np.array(self._weights)
        n_kpoints = run.energies_eV.shape[1]
        if run.weights.size != n_kpoints:
            raise Unreadable(
                f"the file lists {run.weights.size:,} k-points, and has eigenvalues at"
                f" {n_kpoints:,}"
            )
        if self._blocks[_OTHER_KPOINTS].energies:
            self._add_other_kpoints()
        basis = self._vectors.get("basis", [])
        positions = self._vectors.get("positions", [])
        if [len(row) for row in basis] != [3, 3, 3] or any(len(row) != 3 for row in positions):
            raise Unreadable("the structure of the last step is incomplete")
        run.cell = np.array(basis)
        run.positions = np.array(positions).reshape(-1, 3)
        if not run.symbols or len(run.symbols) != len(run.positions):
            raise Unreadable(
                f"the file names {len(run.symbols):,} atoms, and has positions of"
                f" {len(run.positions):,}"
            )
        return run

    def _add_other_kpoints(self) -> None:
        """Append the k-points of KPOINTS_OPT with weight 0."""
        run = self.run
        energies, occupations = self._blocks[_OTHER_KPOINTS].arrays()
        if energies.shape[0] != run.energies_eV.shape[0]:
            raise Unreadable("the k-points of KPOINTS_OPT have another number of spins")
        n_bands = min(energies.shape[2], run.energies_eV.shape[2])
        run.energies_eV = np.concatenate(
            [run.energies_eV[:, :, :n_bands], energies[:, :, :n_bands]], axis=1
        )
        run.occupations = np.concatenate(
            [run.occupations[:, :, :n_bands], occupations[:, :, :n_bands]], axis=1
        )
        run.weights = np.concatenate([run.weights, np.zeros(energies.shape[1])])

    def _open_block(self) -> "_BandBlock | None":
        """Return the block of eigenvalues that is being read, None outside of them."""
        if len(self._tags) < 4 or self._tags[1] != "calculation":
            return None
        section = self._tags[2]
        is_inside = section == "eigenvalues" or self._tags[3] == "eigenvalues"
        return self._blocks.get(section) if is_inside else None

    def _start_calculation(self) -> None:
        self.run.n_ionic_steps += 1
        self.run.n_electronic_steps = 0
        self._electronic_energies = []
        for name in ("basis", "positions", "forces"):
            self._vectors.pop(name, None)

    def _start_in_calculation(self, tag: str) -> None:
        if tag not in _READ_IN_CALCULATION:
            self._skipped_from = len(self._tags)
        elif tag == "scstep":
            self.run.n_electronic_steps += 1
        elif tag in self._blocks:
            self._has_eigenvalues |= tag == "eigenvalues"
            self._blocks[tag] = _BandBlock()

    def _end_calculation(self) -> None:
        run = self.run
        run.energy_changes_eV = (
            _last_change(self._electronic_energies),
            _last_change(self._ionic_energies),
        )
        forces = self._vectors.get("forces")
        run.largest_force = np.nan if not forces else _longest(forces)

    def _store(self, tag: str, text: str) -> None:
        section = self._tags[1] if len(self._tags) > 1 else ""
        name = self._names[-1]
        if section in ("incar", "parameters"):
            settings = self.run.incar if section == "incar" else self.run.parameters
            if len(settings) < MAX_VALUES:
                # The same name occurs again for the response functions; the first is meant.
                settings.setdefault(name.upper(), text)
        elif tag == "c":
            self._row.append(text)
        elif tag == "r" and (block := self._open_block()) is not None:
            block.add(text)
        elif tag == "v":
            self._store_vector(self._names[-2], text)
        elif tag == "i" and name == "e_fr_energy" and section == "calculation":
            is_electronic = self._tags[2] == "scstep"
            energies = self._electronic_energies if is_electronic else self._ionic_energies
            energies.append(number_or_nan(text))
            del energies[:-2]

    def _store_row(self) -> None:
        table = next((name for name in reversed(self._names) if name), "")
        row = self._row
        self._row = []
        if self._tags[1] != "atominfo" or len(self.run.symbols) >= MAX_VALUES:
            return
        if table == "atoms" and row:
            self.run.symbols.append(_ELEMENT_NAMES.get(row[0], row[0].rstrip(".")))
        elif table == "atomtypes" and len(row) >= 5:
            self.run.kinds.append((number_or_nan(row[0]), number_or_nan(row[3]), row[4]))

    def _store_vector(self, name: str, text: str) -> None:
        names_by_tag = {"kpoints": ("weights",), "calculation": ("basis", "positions", "forces")}
        if name not in names_by_tag.get(self._tags[1], ()):
            return
        vectors = self._vectors.setdefault(name, [])
        if len(vectors) >= MAX_VALUES * 10:
            raise Unreadable(f"the list {name} has more than {MAX_VALUES * 10:,} rows")
        vectors.append([number_or_nan(word) for word in text.split()])


@dataclass
class _BandBlock:
    """Eigenvalues and occupations in the order of the file: by spin, k-point and band."""

    energies: "array[float]" = field(default_factory=lambda: array("d"))
    occupations: "array[float]" = field(default_factory=lambda: array("d"))
    n_spins: int = 0
    n_kpoints: int = 0  # of all spins together

    def add(self, text: str) -> None:
        """Add a row of the file."""
        words = text.split()
        if len(words) < 2:
            raise Unreadable(f"an eigenvalue has no occupation: {quoted(text)}")
        if len(self.energies) >= MAX_EIGENVALUES:
            raise Unreadable(f"the file has more than {MAX_EIGENVALUES:,} eigenvalues")
        self.energies.append(number_or_nan(words[0]))
        self.occupations.append(number_or_nan(words[1]))

    def arrays(self) -> tuple[Floats, Floats]:
        """Return energies and occupations (spin, k-point, band)."""
        n_spins = max(self.n_spins, 1)
        if not self.energies or not self.n_kpoints or len(self.energies) % self.n_kpoints:
            raise Unreadable("the eigenvalues are incomplete: k-points have unequal numbers")
        shape = (n_spins, self.n_kpoints // n_spins, -1)
        return np.frombuffer(self.energies).reshape(shape), np.frombuffer(self.occupations).reshape(
            shape
        )


def _last_change(values: list[float]) -> float:
    return values[-1] - values[-2] if len(values) > 1 else np.nan


def _longest(vectors: list[list[float]]) -> float:
    return float(np.max([math.hypot(*vector) for vector in vectors]))  # NaN if one is


def _without_comment(text: str) -> str:
    """Return a value without a comment, such as "PE" of "PE ! PBE exchange"."""
    return text.partition("!")[0].partition("#")[0].strip()
