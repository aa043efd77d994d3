"""Electron levels of a structure by tight binding: HOMO, LUMO and gap, in about a second.

GFN1-xTB and GFN2-xTB are computed by tblite: a dependency on x86-64 Linux, the extra `xtb` on other
systems. tblite has only the Gamma point, so that two cells of the same crystal may have different
levels. The Gamma point of a supercell corresponds to a mesh of k points; `repeats` says how often a
small cell is repeated.
Measured errors are in docs/explanation/descriptors.md.

References: S. Grimme et al., J. Chem. Theory Comput. 13, 1989 (2017) (GFN1-xTB); C. Bannwarth
et al., J. Chem. Theory Comput. 15, 1652 (2019) (GFN2-xTB).
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import INSTALL_LEVELS
from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms

Method = Literal["GFN1-xTB", "GFN2-xTB"]
Floats = NDArray[np.float64]

BOHR_PER_ANGSTROM: Final = 1.0 / 0.529177210903
EV_PER_HARTREE: Final = 27.211386245988
# Length that every edge of a supercell should have.
MIN_EDGE_ANGSTROM: Final = 7.0
# Largest supercell, which takes two seconds.
MAX_ATOMS: Final = 56


class NoLevelsError(Exception):
    """A structure has no electron levels; the text is the end of a sentence."""


@dataclass(frozen=True, eq=False)
class Electrons:
    """HOMO and LUMO in eV, and atomic partial charges (n,) in e."""

    homo_eV: float
    lumo_eV: float
    charges: Floats

    @property
    def gap_eV(self) -> float:
        """Return LUMO minus HOMO in eV."""
        return self.lumo_eV - self.homo_eV


def electrons(
    numbers: NDArray[np.int64],
    positions: Floats,
    *,
    method: Method,
    cell: Floats | None = None,
    charge: int = 0,
) -> Electrons:
    """Return electron levels and charges of a molecule, or of a crystal at the Gamma point.

    Parameters
    ----------
    numbers
        Atomic numbers (n,).
    positions
        Positions (n, 3) in angstrom.
    method
        The tight-binding method.
    cell
        Cell (3, 3) of a crystal in angstrom; None for a molecule.
    charge
        Total charge in e.

    Raises
    ------
    NoLevelsError
        If the self-consistent field does not converge, or HOMO or LUMO does not exist.
    ConfigError
        If tblite is not installed.
    """
    calculator_class = _tblite()
    periodic: dict[str, Any] = {}
    if cell is not None:
        periodic = {"lattice": cell * BOHR_PER_ANGSTROM, "periodic": np.ones(3, dtype=bool)}
    try:
        calculator: Any = calculator_class(
            method, numbers, positions * BOHR_PER_ANGSTROM, charge=float(charge), **periodic
        )
        calculator.set("verbosity", 0)
        result: Any = calculator.singlepoint()
    except (RuntimeError, ValueError) as error:
        raise NoLevelsError(
            "the calculation did not converge; check geometry, hydrogens and charge"
        ) from error
    energies = np.ravel(result.get("orbital-energies")) * EV_PER_HARTREE
    occupied = np.ravel(result.get("orbital-occupations")) > 1.0
    if occupied.all() or not occupied.any():
        raise NoLevelsError("it has no pair of electrons, or no empty level")
    charges = np.asarray(result.get("charges"), dtype=np.float64)
    return Electrons(float(energies[occupied].max()), float(energies[~occupied].min()), charges)


def levels_eV(atoms: "Atoms", *, method: Method, supercell: bool = False) -> Floats:
    """Return gap, HOMO and LUMO (3,) of a structure in eV.

    A structure with any periodic axis is computed as periodic along all three. With `supercell`, a
    small cell is repeated (`repeats`). Raises NoLevelsError, and ConfigError if tblite is not
    installed.
    """
    if supercell:
        atoms = atoms.repeat(repeats(atoms))  # type: ignore[no-untyped-call]
    cell = np.asarray(atoms.cell.complete().array, dtype=np.float64) if atoms.pbc.any() else None
    state = electrons(
        np.asarray(atoms.numbers), np.asarray(atoms.positions), method=method, cell=cell
    )
    return np.array([state.gap_eV, state.homo_eV, state.lumo_eV])


def repeats(atoms: "Atoms") -> tuple[int, int, int]:
    """Return how often a cell is repeated along its axes, up to an edge of `MIN_EDGE_ANGSTROM`.

    If that gives more than `MAX_ATOMS` atoms, the longest axes of the supercell are repeated less
    often. Axes that are not periodic are not repeated.
    """
    lengths = np.asarray(atoms.cell.lengths(), dtype=np.float64)
    fewest = np.ceil(MIN_EDGE_ANGSTROM / np.maximum(lengths, 1e-6) - 1e-6)
    times = np.where(atoms.pbc, np.maximum(fewest, 1.0), 1.0).astype(np.int64)
    while times.prod() * len(atoms) > MAX_ATOMS and times.max() > 1:
        times[np.argmax(times * lengths * (times > 1))] -= 1
    return int(times[0]), int(times[1]), int(times[2])


def check_installed() -> None:
    """Raise ConfigError with what to install if tblite is missing."""
    _tblite()


def _tblite() -> Any:
    # Must be set before tblite's OpenMP starts: processes, not threads, share the work.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from tblite.interface import Calculator
    except ImportError:
        raise ConfigError(
            "Electron levels need the package tblite, which is not installed: "
            f"{INSTALL_LEVELS}, or leave the levels out."
        ) from None
    return Calculator
