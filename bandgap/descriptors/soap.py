"""Smooth overlap of atomic positions (SOAP) by DScribe, compressed over elements: one length for any elements.

A. P. Bartok, R. Kondor and G. Csanyi, Phys. Rev. B 87, 184115 (2013), with the compression over elements of
J. P. Darby, J. R. Kermode and G. Csanyi, npj Comput. Mater. 8, 166 (2022), in its form "mu2": the densities of all
elements are added up, each times a weight of the element, and one power spectrum is taken of the sum. Several weights,
each a property of the elements divided by its mean over the elements, tell them apart. The spectra of an atom are
divided by the length of that without weights, so that a dense surrounding counts as much as a thin one; the features
are their means over the atoms of the structure, and their standard deviations.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.element_properties import KNOWN, PROPERTIES, element_properties
from bandgap.descriptors.parts import Part
from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms
    from dscribe.descriptors import SOAP

Floats = NDArray[np.float64]

PLAIN: Final = "none"
PADDING: Final = float(
    np.sqrt(-2.0 * np.log(0.001))
)  # in standard deviations of a density, as DScribe has it


@dataclass(frozen=True)
class Soap:
    """Cutoff and width of the densities, sizes of the basis, and properties of elements that weigh the densities.

    `weights` are names of `element_properties.PROPERTIES`; a density without weights stands before them.
    """

    cutoff_angstrom: float = 5.0
    sigma_angstrom: float = 0.5
    radial: int = 6
    angular: int = 4
    weights: tuple[str, ...] = (
        "electronegativity",
        "covalent radius (pm)",
        "valence electrons",
        "unfilled states",
        "row",
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for a number that gives no basis, and for a property that there is not."""
        if not (1.0 < self.cutoff_angstrom <= 12.0 and 0.05 <= self.sigma_angstrom <= 3.0):
            raise ConfigError(
                f"SOAP has cutoff_angstrom {self.cutoff_angstrom} and sigma_angstrom {self.sigma_angstrom}. Accepted: "
                "a cutoff above 1 and up to 12, a width from 0.05 to 3."
            )
        if not (1 <= self.radial <= 16 and 0 <= self.angular <= 16):
            raise ConfigError(
                f"SOAP has radial {self.radial} and angular {self.angular}. Accepted: 1 to 16, and 0 to 16."
            )
        for name in self.weights:
            if name not in PROPERTIES or self.weights.count(name) > 1:
                raise ConfigError(
                    f"SOAP has the weight {name!r}. Accepted, each once: {', '.join(PROPERTIES)}."
                )


def spectra(atoms: "Atoms", settings: Soap) -> Floats:
    """Return the power spectra (atom, density, component), in units of the length of the density without weights."""
    present = tuple(sorted(set(atoms.symbols)))
    periodic = bool(atoms.pbc.any())
    found = np.stack(
        [
            _engine(present, settings, name, periodic).create_single(atoms)
            for name in (PLAIN, *settings.weights)
        ],
        axis=1,
    )
    return np.asarray(found / np.linalg.norm(found[:, :1], axis=2, keepdims=True), dtype=np.float64)


def soap(atoms: "Atoms", settings: Soap) -> Floats:
    """Return means and standard deviations over atoms (p,) of the spectra, of which a typical number is 1."""
    found = spectra(atoms, settings).reshape(len(atoms), -1) * np.sqrt(_components(settings))
    return np.concatenate([found.mean(axis=0), found.std(axis=0)])


def element_weights(name: str) -> dict[str, float]:
    """Return the weight of every known element by this property, 1 for each without one."""
    if name == PLAIN:
        return dict.fromkeys(KNOWN, 1.0)
    values = element_properties()[:, PROPERTIES.index(name)]
    return dict(zip(KNOWN, (values / values.mean()).tolist(), strict=True))


def _components(settings: Soap) -> int:
    return settings.radial * (settings.radial + 1) // 2 * (settings.angular + 1)


@lru_cache(maxsize=512)
def _engine(present: tuple[str, ...], settings: Soap, weight: str, periodic: bool) -> "SOAP":
    from dscribe.descriptors import SOAP  # takes seconds to load: only where it is computed

    of_element = element_weights(weight)
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
            "species_weighting": {symbol: of_element[symbol] for symbol in present},
        },
        dtype="float64",
    )


PART: Final = Part(
    "soap",
    width=lambda settings: (
        0 if settings is None else 2 * (1 + len(settings.weights)) * _components(settings)
    ),
    name=lambda settings: "SOAP",
    describe=soap,
    elements=lambda settings: KNOWN,
    reach_angstrom=lambda settings: settings.cutoff_angstrom + PADDING * settings.sigma_angstrom,
    alike=True,
)
