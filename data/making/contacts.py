"""Geometry of molecular crystals: contacts between molecules against van-der-Waals radii, and density."""

from typing import Final

import numpy as np
from ase.data import atomic_masses
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.structures.drawing import GRAM_PER_CM3
from bandgap.structures.neighbours import heights

Floats = NDArray[np.float64]

# Bondi, J. Phys. Chem. 68, 441 (1964), in Angstrom.
VDW_RADII: Final = {1: 1.20, 6: 1.70, 7: 1.55, 8: 1.52, 9: 1.47, 16: 1.80, 17: 1.75}
DECIMALS: Final = (
    4  # of the positions and cells that are shipped; gaps are computed on exactly these
)


def density_g_cm3(numbers: NDArray[np.int64], cell: Floats) -> float:
    """Return the density of a cell (3, 3) in Angstrom that holds these atoms."""
    return float(atomic_masses[numbers].sum() / abs(np.linalg.det(cell)) * GRAM_PER_CM3)


def closest_contact(
    numbers: NDArray[np.int64], positions: Floats, cell: Floats, *, atoms_per_molecule: int
) -> float:
    """Return the shortest distance between atoms of two molecules over the sum of their van-der-Waals radii.

    Molecules are whole and stand in blocks of `atoms_per_molecule` rows; a molecule and its own translations count as
    two molecules. Infinite where nothing is nearer than 1.5 times the largest sum.
    """
    radii = np.array([VDW_RADII[int(z)] for z in numbers])
    reach = 3.0 * float(radii.max())
    extent = float(np.ptp(positions, axis=0).max()) * np.sqrt(3.0) + reach
    spans = np.ceil(extent / heights(cell)).astype(int)
    shifts = np.stack(
        np.meshgrid(*(np.arange(-s, s + 1) for s in spans), indexing="ij"), axis=-1
    ).reshape(-1, 3)
    low, high = positions.min(axis=0) - reach, positions.max(axis=0) + reach
    images = (positions[None] + (shifts @ cell)[:, None]).reshape(-1, 3)
    home = np.repeat((shifts == 0).all(axis=1), len(positions))
    source = np.tile(np.arange(len(positions)), len(shifts))
    keep = ((images > low) & (images < high)).all(axis=1)
    images, home, source = images[keep], home[keep], source[keep]
    near = cKDTree(positions).sparse_distance_matrix(
        cKDTree(images), reach, output_type="coo_matrix"
    )
    i, j = near.row, source[near.col]
    own = home[near.col] & (i // atoms_per_molecule == j // atoms_per_molecule)
    ratios = (near.data / (radii[i] + radii[j]))[~own]
    return float(ratios.min()) if len(ratios) else float("inf")
