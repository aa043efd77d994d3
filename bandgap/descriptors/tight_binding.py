"""Frontier levels of a structure by tight binding: a second of computing that says much about its gap.

GFN1-xTB (Grimme et al., J. Chem. Theory Comput. 13, 1989 (2017)) and GFN2-xTB (Bannwarth et al., ibid. 15, 1652 (2019))
by tblite, which the extra `xtb` installs; of a crystal at the Gamma point of the cell as it is given, so that another
cell of the same crystal may have other levels. tblite has no other k points, but the Gamma point of a supercell is a
mesh of them: `repeats` says how often a small cell is repeated for it.

Root mean square errors in eV of `parts_gp` on composition and neighbours without levels, with those at Gamma, and with
those of the supercell. 120 inorganic crystals of at most 14 atoms (Materials Project, PBE, three quarters learned, 8
splits): 1.22, 1.20, 1.09 (kernel ridge 1.17, 1.16, 1.13; where a line in the gap is learned first, 1.17 and 1.16). The
choice to keep it was made on 72 of these crystals: a lead rather than a proof. 61 crystals with carbon and hydrogen, 6
splits: 1.22, 0.85, 0.86 (a line first: 0.74, 0.74), no gain. Lead-iodide perovskites have cells of 64 atoms or more,
which are not repeated, and gaps of 0.03 to 0.2 eV by this method; one that was repeated along one axis went from 0.03
to 0.05.
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
LEAST_ANGSTROM: Final = 7.0  # of the edges of a supercell
MOST_ATOMS: Final = 56  # of a supercell; two seconds


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
        calculator: Any = calculator_class(
            method, numbers, positions * BOHR_PER_ANGSTROM, **periodic
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
    """Return gap, HOMO and LUMO (3,) of a structure in eV; what is periodic is so along all three axes.

    With `supercell` a small cell is repeated (`repeats`), so that they are those over more k points than Gamma. Raises
    NoLevelsError, and ConfigError where tblite is not installed.
    """
    if supercell:
        atoms = atoms.repeat(repeats(atoms))  # type: ignore[no-untyped-call]
    cell = np.asarray(atoms.cell.complete().array, dtype=np.float64) if atoms.pbc.any() else None
    state = electrons(
        np.asarray(atoms.numbers), np.asarray(atoms.positions), method=method, cell=cell
    )
    return np.array([state.gap_eV, state.homo_eV, state.lumo_eV])


def repeats(atoms: "Atoms") -> tuple[int, int, int]:
    """Return how often a cell is repeated along its axes, until each is as long as `LEAST_ANGSTROM`.

    Where that would be more than `MOST_ATOMS`, the longest axes of the supercell are repeated less often; axes that are
    not periodic are not repeated.
    """
    lengths = np.asarray(atoms.cell.lengths(), dtype=np.float64)
    wanted = np.ceil(LEAST_ANGSTROM / np.maximum(lengths, 1e-6) - 1e-6)
    times = np.where(atoms.pbc, np.maximum(wanted, 1.0), 1.0).astype(np.int64)
    while times.prod() * len(atoms) > MOST_ATOMS and times.max() > 1:
        times[np.argmax(times * lengths * (times > 1))] -= 1
    return int(times[0]), int(times[1]), int(times[2])


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
