"""Geometry of molecular crystals: contacts between molecules, and density."""

from typing import Final

import numpy as np
from ase.data import atomic_masses
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.structures.formula import GRAMS_PER_CM3
from bandgap.structures.neighbours import heights

Floats = NDArray[np.float64]

# Bondi, J. Phys. Chem. 68, 441 (1964), in Angstrom.
VDW_RADII: Final = {1: 1.20, 6: 1.70, 7: 1.55, 8: 1.52, 9: 1.47, 16: 1.80, 17: 1.75}
# Of shipped positions and cells; gaps are computed on the rounded geometries.
DECIMALS: Final = 4


def density_g_cm3(numbers: NDArray[np.int64], cell: Floats) -> float:
    """Return the density of atoms in a cell (3, 3) in Angstrom."""
    return float(atomic_masses[numbers].sum() / abs(np.linalg.det(cell)) * GRAMS_PER_CM3)


def closest_contact(
    numbers: NDArray[np.int64], positions: Floats, cell: Floats, *, atoms_per_molecule: int
) -> float:
    """Return the smallest distance between molecules, relative to van-der-Waals radii.

    Distances between atoms are divided by the sum of their radii. Molecules are whole, in blocks of
    `atoms_per_molecule` rows. A molecule and its translations count as different molecules. The
    result is infinite if no distance is below 1.5 times the largest sum.
    """
    radii = np.array([VDW_RADII[int(z)] for z in numbers])
    reach = 3.0 * float(radii.max())
    extent = float(np.ptp(positions, axis=0).max()) * np.sqrt(3.0) + reach
    spans = np.ceil(extent / heights(cell)).astype(int)
    shifts = np.stack(
        np.meshgrid(*(np.arange(-s, s + 1) for s in spans), indexing="ij"), axis=-1
    ).reshape(-1, 3)
    low = positions.min(axis=0) - reach
    high = positions.max(axis=0) + reach
    images = (positions[None] + (shifts @ cell)[:, None]).reshape(-1, 3)
    home = np.repeat((shifts == 0).all(axis=1), len(positions))
    source = np.tile(np.arange(len(positions)), len(shifts))
    keep = ((images > low) & (images < high)).all(axis=1)
    images = images[keep]
    home = home[keep]
    source = source[keep]
    near = cKDTree(positions).sparse_distance_matrix(
        cKDTree(images), reach, output_type="coo_matrix"
    )
    i = near.row
    j = source[near.col]
    same_molecule = home[near.col] & (i // atoms_per_molecule == j // atoms_per_molecule)
    ratios = (near.data / (radii[i] + radii[j]))[~same_molecule]
    return float(ratios.min()) if len(ratios) else float("inf")
