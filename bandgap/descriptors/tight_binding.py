"""Frontier levels of a structure by tight binding: a second of computing that says much about its gap.

GFN1-xTB (Grimme et al., J. Chem. Theory Comput. 13, 1989 (2017)) and GFN2-xTB (Bannwarth et al., ibid. 15, 1652 (2019))
by tblite, which the extra `xtb` installs; of a crystal at the Gamma point of the cell as it is given, so that another
cell of the same crystal may have other levels.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms

Method = Literal["GFN1-xTB", "GFN2-xTB"]
Floats = NDArray[np.float64]

BOHR_PER_ANGSTROM: Final = 1.0 / 0.529177210903
EV_PER_HARTREE: Final = 27.211386245988


class NoLevelsError(Exception):
    """Why one structure has no frontier levels, as the end of a sentence."""


@dataclass(frozen=True, eq=False)
class Electrons:
    """Frontier levels in eV, atomic partial charges (n,) in e."""

    homo_eV: float
    lumo_eV: float
    charges: Floats

    @property
    def gap_eV(self) -> float:
        """Return LUMO minus HOMO in eV."""
        return self.lumo_eV - self.homo_eV


def electrons(
    numbers: NDArray[np.int64], positions: Floats, *, method: Method, cell: Floats | None = None
) -> Electrons:
    """Return frontier levels and charges of a molecule, or at Gamma of a crystal with cell (3, 3) in Angstrom.

    Raises NoLevelsError where the self-consistent field does not converge or one of the levels is missing, ConfigError
    where tblite is not installed.
    """
    calculator_class = _tblite()
    periodic: dict[str, Any] = {}
    if cell is not None:
        periodic = {"lattice": cell * BOHR_PER_ANGSTROM, "periodic": np.ones(3, dtype=bool)}
    try:
        calculator: Any = calculator_class(method, numbers, positions * BOHR_PER_ANGSTROM, **periodic)
        calculator.set("verbosity", 0)
        result: Any = calculator.singlepoint()
    except (RuntimeError, ValueError) as error:
        raise NoLevelsError("the calculation did not converge; check geometry, hydrogens and charge") from error
    energies = np.ravel(result.get("orbital-energies")) * EV_PER_HARTREE
    occupied = np.ravel(result.get("orbital-occupations")) > 1.0
    if occupied.all() or not occupied.any():
        raise NoLevelsError("it has no pair of electrons, or no empty level")
    charges = np.asarray(result.get("charges"), dtype=np.float64)
    return Electrons(float(energies[occupied].max()), float(energies[~occupied].min()), charges)


def levels_eV(atoms: "Atoms", *, method: Method) -> Floats:
    """Return gap, HOMO and LUMO (3,) of a structure in eV; what is periodic is so along all three axes.

    Raises NoLevelsError, and ConfigError where tblite is not installed.
    """
    cell = np.asarray(atoms.cell.complete().array, dtype=np.float64) if atoms.pbc.any() else None
    state = electrons(np.asarray(atoms.numbers), np.asarray(atoms.positions), method=method, cell=cell)
    return np.array([state.gap_eV, state.homo_eV, state.lumo_eV])


def check_installed() -> None:
    """Raise ConfigError with what to do where tblite is not installed."""
    _tblite()


def _tblite() -> Any:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # before tblite's OpenMP starts: processes, not threads, share the work
    try:
        from tblite.interface import Calculator
    except ImportError:
        raise ConfigError(
            "Electron levels need the package tblite, which is not installed. Install it by "
            "`pip install -c constraints.txt '.[xtb]'` in the folder of bandgap's README, or leave the levels out."
        ) from None
    return Calculator
