"""What the output of any program says: structure, bands, level of theory, and remarks."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.calculations.band_edges import BandGap, band_gap
from bandgap.structures.draft import Draft

_SMALLEST_WEIGHT = 1e-6  # of the largest; pw.x needs weights above zero, and 1e-10 is usual


@dataclass(frozen=True, eq=False)
class Outcome:
    """Content of the output of one calculation.

    Parameters
    ----------
    draft
        Structure to which the eigenvalues belong.
    energies_eV
        Eigenvalues (spin, k-point, band) in eV.
    weights
        Weights (k-point,).
    n_electrons
        Number of electrons in the cell.
    electrons_per_band
        2 for one spin without spin-orbit coupling, otherwise 1.
    level_of_theory
        Level of theory, such as "PBE+U".
    bands_setting
        Name of the setting that gives the number of bands, for messages.
    spin_moment
        Number of electrons of spin up less that of spin down, if it was fixed.
    unconverged
        Message if the electronic loop ended without convergence, "" if it converged.
    warnings
        What the user has to know of the calculation.
    """

    draft: Draft
    energies_eV: NDArray[np.floating[Any]]
    weights: NDArray[np.floating[Any]]
    n_electrons: float
    electrons_per_band: int
    level_of_theory: str
    bands_setting: str
    spin_moment: float | None = None
    unconverged: str = ""
    warnings: list[str] = field(default_factory=list)

    def gap(self) -> BandGap:
        """Return the gap over all k-points. Raises Unreadable as `band_gap`."""
        return self._gap_of(np.ones(len(self.weights), dtype=bool))

    def band_notes(self) -> list[str]:
        """Return notes on k-points without weight and on a single k-point."""
        if self.energies_eV.shape[1] == 1:
            return ["there is one k-point; the gap is that at this point"]
        has_weight = self.weights > _SMALLEST_WEIGHT * self.weights.max()
        n_without = int((~has_weight).sum())
        if not n_without or not has_weight.any():
            return []
        return [
            f"{n_without:,} of {len(self.weights):,} k-points have no weight (a band structure);"
            f" the gap is that of all k-points, and {self._gap_of(has_weight).gap_eV:.4f} eV"
            " without these"
        ]

    def _gap_of(self, kpoints: NDArray[np.bool_]) -> BandGap:
        return band_gap(
            self.energies_eV[:, kpoints],
            self.n_electrons,
            electrons_per_band=self.electrons_per_band,
            spin_moment=self.spin_moment,
            bands_setting=self.bands_setting,
        )
