"""The band gap by counting electrons.

The lowest bands are filled with the electrons of the cell. Occupations decide nothing: smearing
leaves electrons in empty bands, and the occupations of k-points without weight have no meaning.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.structures.draft import Unreadable

GapKind = Literal["direct", "indirect", "metal"]
ROUNDING_EV = 1e-4  # of eigenvalues in outputs
DIRECT_WITHIN_EV = 5e-4  # a few times the rounding
WHOLE_WITHIN = 1e-3  # electrons


@dataclass(frozen=True)
class BandGap:
    """Gap of a band structure.

    Parameters
    ----------
    gap_eV
        Fundamental gap in eV, 0 for a metal.
    kind
        Whether the highest filled and the lowest empty state have the same k-point.
    problem
        Why a crystal is called a metal, "" if its bands do not overlap.
    """

    gap_eV: float
    kind: GapKind
    problem: str = ""


def band_gap(
    energies_eV: NDArray[np.floating[Any]],
    n_electrons: float,
    *,
    electrons_per_band: int,
    spin_moment: float | None = None,
    bands_setting: str = "NBANDS",
) -> BandGap:
    """Return the gap between filled and empty bands.

    With two spins, the electrons are divided between the spins so that filled and empty bands are
    apart. At most one division does this.

    Parameters
    ----------
    energies_eV
        Eigenvalues (spin, k-point, band) in eV. Bands from the first NaN on are not used.
    n_electrons
        Number of electrons in the cell.
    electrons_per_band
        2 for one spin without spin-orbit coupling, otherwise 1.
    spin_moment
        Number of electrons of spin up less that of spin down, if it was fixed.
    bands_setting
        Name of the setting that gives the number of bands, for the message.

    Raises
    ------
    Unreadable
        If there are no empty bands, or no electrons.
    """
    energies = np.asarray(energies_eV, dtype=np.float64)
    n_bands = int(np.cumprod(np.isfinite(energies).all(axis=(0, 1))).sum())  # before the first NaN
    bands = np.sort(energies[:, :, :n_bands], axis=2)
    n_filled = n_electrons / electrons_per_band
    if n_electrons < WHOLE_WITHIN:
        raise Unreadable(f"the number of electrons is {n_electrons:g}")
    if round(n_filled) >= bands.shape[0] * n_bands:
        if n_bands < energies.shape[2]:
            raise Unreadable(f"an eigenvalue is not a number, in band {n_bands + 1:,}")
        raise Unreadable(_too_few(n_bands, n_filled, setting=bands_setting))
    if abs(n_filled - round(n_filled)) > WHOLE_WITHIN:
        return BandGap(0.0, "metal", f"{n_electrons:g} electrons leave a band partly filled")
    if bands.shape[0] == 1:
        return _gap_of_filling(bands, (round(n_filled),), setting=bands_setting)
    if spin_moment is not None:
        n_up = round((n_electrons + spin_moment) / 2)
        if abs(2 * n_up - n_electrons - spin_moment) > 2 * WHOLE_WITHIN:
            return BandGap(0.0, "metal", f"a moment of {spin_moment:g} leaves bands partly filled")
        return _gap_of_filling(bands, (n_up, round(n_electrons) - n_up), setting=bands_setting)
    return _gap_of_filling(bands, _best_filling(bands, round(n_electrons)), setting=bands_setting)


def _best_filling(bands: NDArray[np.float64], n_electrons: int) -> tuple[int, int]:
    """Return the numbers of filled bands of both spins with the largest gap."""
    n_bands = bands.shape[2]
    edge = np.full((2, 1), np.inf)
    highest = np.hstack([-edge, bands.max(axis=1)])  # (spin, number of filled bands)
    lowest = np.hstack([bands.min(axis=1), edge])
    n_up = np.arange(max(0, n_electrons - n_bands), min(n_bands, n_electrons) + 1)
    n_down = n_electrons - n_up
    gaps = np.minimum(lowest[0, n_up], lowest[1, n_down]) - np.maximum(
        highest[0, n_up], highest[1, n_down]
    )
    best = int(np.argmax(gaps))
    return int(n_up[best]), int(n_down[best])


def _gap_of_filling(
    bands: NDArray[np.float64], n_filled: tuple[int, ...], *, setting: str
) -> BandGap:
    """Return the gap for a number of filled bands of each spin."""
    n_bands = bands.shape[2]
    if not all(0 <= n < n_bands for n in n_filled):
        raise Unreadable(_too_few(n_bands, max(n_filled), setting=setting))
    # (k-point,)
    highest = np.max([bands[s, :, n - 1] for s, n in enumerate(n_filled) if n], axis=0)
    lowest = np.min([bands[s, :, n] for s, n in enumerate(n_filled)], axis=0)
    gap = float(lowest.min()) - float(highest.max())
    if gap < -ROUNDING_EV:
        return BandGap(0.0, "metal", f"bands overlap by {-gap:.4f} eV")
    if gap <= ROUNDING_EV:
        return BandGap(0.0, "metal", "the filled and the empty bands touch")
    if gap > LARGEST_GAP_EV:
        raise Unreadable(
            f"the gap of {gap:g} eV is none of a solid: the eigenvalues are damaged, or a band is"
            " missing"
        )
    direct = float((lowest - highest).min())
    kind: GapKind = "direct" if direct - gap <= DIRECT_WITHIN_EV else "indirect"
    return BandGap(round(gap, 6), kind)


def _too_few(n_bands: int, n_filled: float, *, setting: str) -> str:
    return (
        f"too few bands: the electrons fill {n_filled:g} of {n_bands:,} bands, so that no empty"
        f" band is left. Compute again with a larger {setting}"
    )
