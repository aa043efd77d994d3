"""Read what a gap needs from an XML file of Quantum ESPRESSO: settings, structure, bands, steps.

The file is `data-file-schema.xml` in the folder PREFIX.save, or `PREFIX.xml`. The file is read as a
stream; symmetries, forces, times and occupations are skipped.

Reference: the schemas qes_*.xsd, https://www.quantum-espresso.org/ns/qes. All quantities are in
Hartree atomic units.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.calculations.packed_xml import number_or_nan, parse_xml
from bandgap.foundation.errors import quoted
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable

Floats = NDArray[np.float64]

HARTREE_EV = 27.211386245988  # CODATA 2018
BOHR_ANGSTROM = 0.529177210903
MAX_EIGENVALUES = 10_000_000
MAX_TEXT = 10_000_000  # characters of one value; 10,000 bands have 250,000
MAX_VALUES = 20_000  # atoms and k-points
MAX_DEPTH = 50

_STRUCTURE = ("output/atomic_structure/", "step/atomic_structure/")
# Values that are stored under their path.
_SETTINGS = (
    "input/control_variables/calculation",
    "input/bands/tot_charge",
    "input/bands/tot_magnetization",
    "output/convergence_info/scf_conv/convergence_achieved",
    "output/convergence_info/scf_conv/n_scf_steps",
    "output/convergence_info/opt_conv/convergence_achieved",
    "output/band_structure/lsda",
    "output/band_structure/noncolin",
    "output/band_structure/spinorbit",
    "output/band_structure/nbnd_up",
    "output/band_structure/nbnd_dw",
    "output/band_structure/nelec",
    "output/band_structure/two_fermi_energies",
    "exit_status",
    "status",
)
_LEAVES = {
    *_SETTINGS,
    "general_info/creator",
    "output/atomic_species/species/pseudo_file",
    "output/band_structure/ks_energies/k_point",
    "output/band_structure/ks_energies/eigenvalues",
}
_FUNCTIONAL = ("input/dft/", "output/dft/")
HUBBARD_NAMES = ("Hubbard_U", "Hubbard_Um", "Hubbard_J0", "Hubbard_J", "Hubbard_V")


@dataclass
class Geometry:
    """Labels (atom,), positions (atom, 3) and cell vectors (3, 3) as rows, in Bohr."""

    labels: list[str] = field(default_factory=list)
    positions: list[list[float]] = field(default_factory=list)
    vectors: list[list[float]] = field(default_factory=list)


@dataclass
class EspressoRun:
    """Content of an XML file of `pw.x`.

    Parameters
    ----------
    program
        Name and version of the program that wrote the file.
    settings
        Values by their path, as texts.
    functional
        Values of the section `dft` by their path in it, as texts; those of the output count.
    hubbard
        Values of the section `dftU` in eV by name, such as Hubbard_U, and by species.
    pseudopotentials
        Names of the files by species.
    geometry, last_step
        Structure of the output, and of the last step of a relaxation or dynamics.
    weights
        Weights (k-point,).
    energies
        Eigenvalues (spin, k-point, band) in Hartree.
    n_steps
        Number of ionic steps.
    """

    program: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    functional: dict[str, str] = field(default_factory=dict)
    hubbard: dict[str, dict[str, float]] = field(default_factory=dict)
    pseudopotentials: dict[str, str] = field(default_factory=dict)
    geometry: Geometry = field(default_factory=Geometry)
    last_step: Geometry = field(default_factory=Geometry)
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    energies: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    n_steps: int = 0

    def text(self, path: str) -> str:
        """Return a setting, or ""."""
        return self.settings.get(path, "")

    def number(self, path: str, default: float) -> float:
        """Return a setting as a number. Raises Unreadable for other texts."""
        text = self.text(path)
        return to_number(text, path) if text else default

    def is_on(self, path: str) -> bool:
        """Return whether a logical setting is true."""
        return self.text(path).strip(".").lower() in ("true", "t", "1")


def read_espresso(content: Content) -> EspressoRun:
    """Read an XML file of `pw.x`, which may be gzipped.

    Raises
    ------
    Unreadable
        If the file is no complete output of Quantum ESPRESSO 6 or later, with the reason.
    """
    handler = _Handler()
    parse_xml(content, handler, program="Quantum ESPRESSO")
    return handler.result()


def to_number(text: str, what: str) -> float:
    """Return a number. Raises Unreadable with the text if it is none."""
    value = number_or_nan(text)
    if np.isnan(value):
        raise Unreadable(f"{what} is not a number: {quoted(text)}")
    return value


class _Handler:
    """Collect the content of the elements that are needed; the methods are called by expat."""

    def __init__(self) -> None:
        self.has_started = False
        self.run = EspressoRun()
        self._tags: list[str] = []
        self._attributes: dict[str, str] = {}  # of the element that is being read
        self._texts: list[str] | None = None  # of the element that is being read
        self._n_characters = 0
        self._weights: list[float] = []
        self._energies = array("d")
        self._has_output = False
        self._species = ""  # the last that was opened

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        if not self._tags:
            _check_root(tag)
        self.has_started = True
        self._tags.append(tag.rpartition(":")[2])
        if len(self._tags) > MAX_DEPTH:
            raise Unreadable(
                "XML elements are nested too deep. Quantum ESPRESSO writes no such file"
            )
        path = "/".join(self._tags[1:])
        if path == "step":
            self.run.n_steps += 1
            self.run.last_step = Geometry()
        elif path == "output":
            self._has_output = True
        elif path == "output/atomic_species/species":
            self._species = attributes.get("name", "").strip()
        self._attributes = attributes
        self._texts = [] if _is_read(path) else None
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
        if self._texts is not None:
            self._store("/".join(self._tags[1:]), "".join(self._texts).strip())
            self._texts = None
        self._tags.pop()

    def result(self) -> EspressoRun:
        """Return the content of the file. Raises Unreadable if a part is missing."""
        run = self.run
        if not self._has_output:
            raise Unreadable("the file has no output: the calculation has not finished")
        if not self._energies or not self._weights:
            raise Unreadable("the file has no eigenvalues, so that there is no gap to read")
        n_spins = 2 if run.is_on("output/band_structure/lsda") else 1
        n_up = run.text("output/band_structure/nbnd_up")
        if n_spins == 2 and n_up != run.text("output/band_structure/nbnd_dw"):
            raise Unreadable("the two spins have unequal numbers of bands, which is not read")
        n_kpoints = len(self._weights)
        if len(self._energies) % (n_kpoints * n_spins):
            raise Unreadable("the eigenvalues are incomplete: k-points have unequal numbers")
        energies = np.frombuffer(self._energies).reshape(n_kpoints, n_spins, -1)
        run.energies = energies.transpose(1, 0, 2)
        run.weights = np.array(self._weights)
        return run

    def _store(self, path: str, text: str) -> None:
        run = self.run
        name = path.rpartition("/")[2]
        if path.startswith(_STRUCTURE):
            geometry = run.geometry if path.startswith("output/") else run.last_step
            self._store_geometry(geometry, name, text)
        elif path == "output/band_structure/ks_energies/eigenvalues":
            self._store_eigenvalues(text)
        elif path == "output/band_structure/ks_energies/k_point":
            self._weights.append(number_or_nan(self._attributes.get("weight", "1")))
        elif path.startswith(_FUNCTIONAL):
            self._store_functional(path, name, text)
        elif path == "output/atomic_species/species/pseudo_file":
            run.pseudopotentials[self._species] = text
        elif path == "general_info/creator":
            words = (self._attributes.get("NAME", ""), self._attributes.get("VERSION", ""))
            run.program = " ".join(filter(None, words))
        else:
            run.settings[path] = text

    def _store_geometry(self, geometry: Geometry, name: str, text: str) -> None:
        vector = [number_or_nan(word) for word in text.split()]
        if len(vector) != 3:
            raise Unreadable(f"three numbers are expected for {name}, found {quoted(text)}")
        if name == "atom":
            if len(geometry.labels) >= MAX_VALUES:
                raise Unreadable(f"the file has more than {MAX_VALUES:,} atoms")
            geometry.labels.append(self._attributes.get("name", "").strip())
            geometry.positions.append(vector)
        else:
            geometry.vectors.append(vector)

    def _store_eigenvalues(self, text: str) -> None:
        if len(self._energies) >= MAX_EIGENVALUES:
            raise Unreadable(f"the file has more than {MAX_EIGENVALUES:,} eigenvalues")
        self._energies.extend(map(number_or_nan, text.split()))

    def _store_functional(self, path: str, name: str, text: str) -> None:
        if name not in HUBBARD_NAMES:
            self.run.functional[path.partition("dft/")[2]] = text
            return
        attributes = self._attributes
        if name == "Hubbard_V":
            pair = (attributes.get("specie1", ""), attributes.get("specie2", ""))
            is_on_site = attributes.get("index1") == attributes.get("index2")
            name = "Hubbard_U" if is_on_site else name
            species = pair[0] if is_on_site else "-".join(pair)
        else:
            species = attributes.get("specie", "")
        values = [to_number(word, name) for word in text.split()]
        largest = max(values, key=abs, default=0.0) * HARTREE_EV
        self.run.hubbard.setdefault(name, {})[species] = largest


def _check_root(tag: str) -> None:
    """Raise Unreadable if the first element is not that of Quantum ESPRESSO 6 or later."""
    if tag == "Root":
        raise Unreadable(
            "the file is of Quantum ESPRESSO before version 6, or of another program. Version 6 and"
            " later write data-file-schema.xml"
        )
    if tag.rpartition(":")[2] != "espresso":
        raise Unreadable(
            f"the file is no output of Quantum ESPRESSO: its first element is {quoted(tag)}"
        )


def _is_read(path: str) -> bool:
    """Return whether the text of an element is needed."""
    if path.startswith(_STRUCTURE):
        return path.endswith(("/atomic_positions/atom", "/cell/a1", "/cell/a2", "/cell/a3"))
    return path in _LEAVES or path.startswith(_FUNCTIONAL)
