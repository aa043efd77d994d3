"""Geometries and gaps of the demo data: ETKDG and MMFF94 by RDKit, gaps by tight binding.

Methods: ETKDGv3 (Wang et al., J. Chem. Inf. Model. 60, 2044 (2020)) and MMFF94 (Halgren, J. Comput.
Chem. 17, 490 (1996)). Needs tblite, which the extra `datagen` installs.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from bandgap.descriptors import tight_binding
from bandgap.descriptors.tight_binding import Electrons, Method
from data.making.contacts import DECIMALS, Floats

SMALLEST_GAP_EV: Final = 0.2
_MMFF_STEPS: Final = 2000


class GenerationFailed(Exception):
    """An item cannot be generated; the manifest counts failures by `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Conformer:
    """Atomic numbers (n,) and centred positions (n, 3) in Angstrom of a molecule."""

    numbers: NDArray[np.int64]
    positions: Floats


def conformer(smiles: str, seed: int) -> Conformer:
    """Return the ETKDG geometry of a molecule, relaxed with MMFF94, centred and rounded.

    Raises GenerationFailed if either step fails.
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
    """Return `tight_binding.electrons`; raise GenerationFailed if it does not converge."""
    try:
        return tight_binding.electrons(numbers, positions, method=method, cell=cell)
    except tight_binding.NoLevelsError as error:
        raise GenerationFailed(f"{method} did not converge") from error


def checked_gap(state: Electrons) -> float:
    """Return the gap in eV; raise GenerationFailed if it is below `SMALLEST_GAP_EV`."""
    if not np.isfinite(state.gap_eV) or state.gap_eV < SMALLEST_GAP_EV:
        raise GenerationFailed(f"gap below {SMALLEST_GAP_EV} eV")
    return state.gap_eV
