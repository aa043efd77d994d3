"""Smooth overlap of atomic positions (SOAP) by DScribe, compressed over elements.

The number of features does not depend on the elements. The compression is the form "mu2": the
densities of all elements are added up, each times a weight of the element, and one power spectrum
is computed of the sum. Several weights distinguish the elements; each is a property divided by its
mean over the elements. The spectra of an atom are divided by the length of the one without
weights, so that dense and thin surroundings count the same. The features are the means and the
standard deviations of the spectra over the atoms.

References: A. P. Bartok, R. Kondor and G. Csanyi, Phys. Rev. B 87, 184115 (2013); the compression:
J. P. Darby, J. R. Kermode and G. Csanyi, npj Comput. Mater. 8, 166 (2022).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import Soap
from bandgap.descriptors.blocks import Block
from bandgap.descriptors.element_properties import (
    PROPERTIES,
    TABLE_ELEMENTS,
    element_properties,
)

if TYPE_CHECKING:
    from ase import Atoms
    from dscribe.descriptors import SOAP

Floats = NDArray[np.float64]

UNWEIGHTED: Final = "none"
# DScribe's padding of the cutoff, in standard deviations of a density.
PADDING: Final = float(np.sqrt(-2.0 * np.log(0.001)))


def spectra(atoms: "Atoms", settings: Soap) -> Floats:
    """Return the power spectra (atom, density, component).

    They are in units of the length of the spectrum without weights.
    """
    present = tuple(sorted(set(atoms.symbols)))
    periodic = bool(atoms.pbc.any())
    names = (UNWEIGHTED, *settings.weights)
    values = np.stack(
        [_class(present, settings, name, periodic).create_single(atoms) for name in names],
        axis=1,
    )
    lengths = np.linalg.norm(values[:, :1], axis=2, keepdims=True)
    return np.asarray(values / lengths, dtype=np.float64)


def soap(atoms: "Atoms", settings: Soap) -> Floats:
    """Return means and standard deviations (p,) of the spectra over atoms.

    The spectra are scaled so that a typical component is 1.
    """
    values = spectra(atoms, settings).reshape(len(atoms), -1) * np.sqrt(_n_components(settings))
    return np.concatenate([values.mean(axis=0), values.std(axis=0)])


def element_weights(name: str) -> dict[str, float]:
    """Return the weight of every element by this property, or 1 for the name "none"."""
    if name == UNWEIGHTED:
        return dict.fromkeys(TABLE_ELEMENTS, 1.0)
    values = element_properties()[:, PROPERTIES.index(name)]
    return dict(zip(TABLE_ELEMENTS, (values / values.mean()).tolist(), strict=True))


def _n_components(settings: Soap) -> int:
    return settings.radial * (settings.radial + 1) // 2 * (settings.angular + 1)


@lru_cache(maxsize=512)
def _class(present: tuple[str, ...], settings: Soap, weight: str, periodic: bool) -> "SOAP":
    from dscribe.descriptors import SOAP  # takes seconds to load

    weights = element_weights(weight)
    return SOAP(
        species=list(present),
        r_cut=settings.cutoff_angstrom,
        n_max=settings.radial,
        l_max=settings.angular,
        sigma=settings.sigma_angstrom,
        periodic=periodic,
        average="off",
        compression={
            "mode": "mu2",
            "species_weighting": {symbol: weights[symbol] for symbol in present},
        },
        dtype="float64",
    )


BLOCK: Final = Block(
    "soap",
    width=lambda settings: (
        0 if settings is None else 2 * (1 + len(settings.weights)) * _n_components(settings)
    ),
    name=lambda settings: "SOAP",
    describe=soap,
    elements=lambda settings: TABLE_ELEMENTS,
    reach_angstrom=lambda settings: settings.cutoff_angstrom + PADDING * settings.sigma_angstrom,
    measures_similarity=True,
)
