"""Geometries and gaps of the demo data: ETKDG and MMFF94 by RDKit, GFN1-xTB and GFN2-xTB by tblite.

Methods: ETKDGv3 (Wang et al., J. Chem. Inf. Model. 60, 2044 (2020)), MMFF94 (Halgren, J. Comput. Chem. 17, 490 (1996)),
GFN1-xTB (Grimme et al., J. Chem. Theory Comput. 13, 1989 (2017)), GFN2-xTB (Bannwarth et al., ibid. 15, 1652 (2019)).
Needs the extra `datagen` (rdkit, tblite).
"""

import os
from dataclasses import dataclass
from typing import Any, Final, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before tblite's OpenMP starts: processes, not threads, share the work

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers
from tblite.interface import Calculator

from bandgap.datasets.contacts import DECIMALS, Floats

Method = Literal["GFN1-xTB", "GFN2-xTB"]

BOHR_PER_ANGSTROM: Final = 1.0 / 0.529177210903
EV_PER_HARTREE: Final = 27.211386245988
SMALLEST_GAP_EV: Final = 0.2
_MMFF_STEPS: Final = 2000


class GenerationFailed(Exception):
    """One item that cannot be made; `reason` is the word under which the manifest counts it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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


@dataclass(frozen=True, eq=False)
class Conformer:
    """Atomic numbers (n,) and centred positions (n, 3) in Angstrom of one molecule."""

    numbers: NDArray[np.int64]
    positions: Floats


def conformer(smiles: str, seed: int) -> Conformer:
    """Return the ETKDG geometry of a molecule relaxed with MMFF94, centred, and rounded to what is shipped.

    Raises GenerationFailed where either step fails.
    """
    with rdBase.BlockLogs():
        molecule = _embedded(smiles, seed)
        if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(molecule):
            raise GenerationFailed("no MMFF94 parameters")
        rdForceFieldHelpers.MMFFOptimizeMolecule(molecule, maxIters=_MMFF_STEPS)
    positions = np.asarray(molecule.GetConformer().GetPositions(), dtype=np.float64)
    numbers = np.array([a.GetAtomicNum() for a in molecule.GetAtoms()], dtype=np.int64)
    return Conformer(numbers, np.round(positions - positions.mean(axis=0), DECIMALS) + 0.0)


def _embedded(smiles: str, seed: int) -> Any:
    molecule: Any = Chem.AddHs(Chem.MolFromSmiles(smiles))
    settings: Any = rdDistGeom.ETKDGv3()
    settings.randomSeed = seed
    settings.maxIterations = 20
    if rdDistGeom.EmbedMolecule(molecule, settings) != 0:
        settings.useRandomCoords = True
        if rdDistGeom.EmbedMolecule(molecule, settings) != 0:
            raise GenerationFailed("no ETKDG geometry")
    return molecule


def electrons(
    numbers: NDArray[np.int64], positions: Floats, *, method: Method, cell: Floats | None = None
) -> Electrons:
    """Return frontier levels and charges of a molecule, or at Gamma of a crystal with cell (3, 3) in Angstrom.

    Raises GenerationFailed where the self-consistent field does not converge.
    """
    periodic: dict[str, Any] = {}
    if cell is not None:
        periodic = {"lattice": cell * BOHR_PER_ANGSTROM, "periodic": np.ones(3, dtype=bool)}
    try:
        calculator: Any = Calculator(method, numbers, positions * BOHR_PER_ANGSTROM, **periodic)
        calculator.set("verbosity", 0)
        result: Any = calculator.singlepoint()
    except (RuntimeError, ValueError) as error:
        raise GenerationFailed(f"{method} did not converge") from error
    energies = np.ravel(result.get("orbital-energies")) * EV_PER_HARTREE
    occupied = np.ravel(result.get("orbital-occupations")) > 1.0
    charges = np.asarray(result.get("charges"), dtype=np.float64)
    return Electrons(float(energies[occupied].max()), float(energies[~occupied].min()), charges)


def checked_gap(state: Electrons) -> float:
    """Return the gap in eV; raises GenerationFailed where it is below `SMALLEST_GAP_EV`."""
    if not np.isfinite(state.gap_eV) or state.gap_eV < SMALLEST_GAP_EV:
        raise GenerationFailed(f"gap below {SMALLEST_GAP_EV} eV")
    return state.gap_eV
