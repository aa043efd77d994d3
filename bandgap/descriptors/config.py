"""Settings of a descriptor, terms of MBTR and parts behind them, and what they cost before anything is computed.

MBTR is the many-body tensor representation: H. Huo and M. Rupp, Unified representation of molecules and crystals for
machine learning, Mach. Learn.: Sci. Technol. 3, 045017 (2022). A term is a sum of Gaussian bumps on a grid, one grid
per element (k1), per pair of elements (k2) or per triple (k3); the vector is k1, then k2, then k3, each in the order
of atomic numbers.
"""

import itertools
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import (
    composition,
    electron_levels,
    graphs,
    neighbours,
    potentials,
    size,
    soap,
)
from bandgap.descriptors.electron_levels import Levels, check_levels
from bandgap.descriptors.parts import Part
from bandgap.descriptors.potentials import check_potential
from bandgap.descriptors.soap import Soap
from bandgap.foundation.errors import ConfigError
from bandgap.structures.elements import ELEMENTS

Function = Literal["atomic_number", "distance", "inverse_distance", "angle", "cosine"]
Weighting = Literal["none", "exp", "inverse_square", "smooth_cutoff"]
Normalisation = Literal["per_heavy_atom", "per_atom", "l2_per_term", "none"]

_FUNCTIONS = {1: ("atomic_number",), 2: ("distance", "inverse_distance"), 3: ("angle", "cosine")}
_WEIGHTINGS = {1: ("none",), 2: ("exp", "inverse_square"), 3: ("exp", "smooth_cutoff")}
PARTS = (  # in the order of the vector
    composition.PART,
    neighbours.PART,
    soap.PART,
    potentials.PART,
    graphs.PART,
    size.PART,
    electron_levels.PART,
)
_NORMALISATIONS = typing.get_args(Normalisation)


def _in_order(species: tuple[str, ...]) -> tuple[str, ...]:
    if not species:
        raise ConfigError("no species given. Accepted: chemical symbols, such as H C N O.")
    for symbol in species:
        if symbol not in ELEMENTS:
            raise ConfigError(
                f"{symbol!r} is not a chemical element. Accepted: chemical symbols, such as H C Cl."
            )
        if species.count(symbol) > 1:
            raise ConfigError(
                f"the species name {symbol} {species.count(symbol)} times. Give every element once."
            )
    return tuple(sorted(species, key=ELEMENTS.index))


@dataclass(frozen=True)
class Term:
    """One term of the MBTR: what is measured, on which grid, and how far atoms see each other.

    The grid has `n` points from `minimum` to `maximum`, bumps have standard deviation `sigma` (all in the unit of
    `function`: atomic number, angstrom, 1/angstrom, degree or none) and height 1. With `weighting="exp"` a bump is
    weighted by exp(-s x), x the distance (k2) or half the perimeter (k3), s such that the weight is `threshold` at
    `cutoff_angstrom`; farther atoms are left out.
    """

    function: Function
    minimum: float
    maximum: float
    n: int
    sigma: float
    weighting: Weighting = "none"
    cutoff_angstrom: float | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for a grid that is empty or a weighting that is incomplete."""
        if not self.minimum < self.maximum:
            raise ConfigError(
                f"MBTR grid runs from {self.minimum} to {self.maximum}. The minimum must be smaller."
            )
        if self.n < 2:
            raise ConfigError(f"MBTR grid has {self.n} points. Accepted: 2 or more.")
        if not self.sigma > 0:
            raise ConfigError(f"MBTR sigma is {self.sigma}. Accepted: a positive number.")
        if self.weighting != "none" and not (
            self.cutoff_angstrom and 0 < self.cutoff_angstrom < math.inf
        ):
            raise ConfigError(
                f"MBTR weighting {self.weighting!r} has cutoff_angstrom {self.cutoff_angstrom}. "
                "Accepted: a positive number of angstroms."
            )
        if self.weighting == "exp" and not (self.threshold and 0 < self.threshold < 1):
            raise ConfigError(
                f"MBTR weighting 'exp' has threshold {self.threshold}. Accepted: above 0, below 1."
            )


@dataclass(frozen=True)
class DescriptorConfig:
    """Everything that defines the vector of a structure: terms of MBTR with their species, and parts behind them.

    A descriptor without terms has no `species`: it takes the elements that all of its parts know (`elements`).

    `per_heavy_atom` divides by the number of atoms other than hydrogen (by all where there are no others), `per_atom`
    by the number of all atoms of the molecule or cell; `l2_per_term` scales every term to unit length (a term without
    any pair stays zero). With these three a supercell has the vector of its cell; with `none` it grows with the cell.
    A normalisation by volume is not offered: a molecule has none.

    `roots` takes the square root of every value, so that rare pairs of atoms count more beside frequent ones. `size`
    adds one last feature, the logarithm of the number of atoms other than hydrogen in a molecule, averaged over these
    atoms; a network of bonds counts as 1,000 atoms. `neutral` describes zwitterions in their neutral form
    (`structures.zwitterions`). `levels` adds the gap, the HOMO and the LUMO of the structure in eV by this method, as
    the very last features (`tight_binding`). `composition` adds statistics of element properties right behind the
    terms, `neighbours` what surrounds the atoms, `soap` their smooth overlap, `potential` pooled features of a
    pretrained interatomic potential (the modules of these names), `graph` the readout of a graph network that a source
    trained (`graphs`).
    """

    species: tuple[str, ...] = ()
    k1: Term | None = None
    k2: Term | None = None
    k3: Term | None = None
    normalisation: Normalisation = "per_heavy_atom"
    roots: bool = False
    size: bool = False
    neutral: bool = False
    levels: Levels = "none"
    composition: bool = False
    neighbours: bool = False
    soap: Soap | None = None
    potential: str = potentials.NONE
    graph: graphs.GraphBody | None = None

    def __post_init__(self) -> None:
        """Put species in the order of atomic number; raise ConfigError for what cannot be a descriptor."""
        if self.terms:
            object.__setattr__(self, "species", _in_order(self.species))
        elif self.species:
            raise ConfigError(
                f"species {' '.join(self.species)} given without a term of MBTR. Give a term such as k1, or no species."
            )
        for order, term in self.terms:
            name = f"k{order}"
            if term.function not in _FUNCTIONS[order]:
                raise ConfigError(
                    f"{name} has function {term.function!r}. Accepted: {', '.join(_FUNCTIONS[order])}."
                )
            if term.weighting not in _WEIGHTINGS[order]:
                raise ConfigError(
                    f"{name} has weighting {term.weighting!r}. Accepted: {', '.join(_WEIGHTINGS[order])}."
                )
        if self.normalisation not in _NORMALISATIONS:
            raise ConfigError(
                f"normalisation is {self.normalisation!r}. Accepted: {', '.join(_NORMALISATIONS)}."
            )
        check_levels(self.levels)
        check_potential(self.potential)
        if not self.terms and not any(part.alike for part, _ in parts_of(self)):
            alike = ", ".join(part.setting for part in PARTS if part.alike)
            raise ConfigError(
                "the descriptor has nothing that says how alike structures are. Accepted: a term of MBTR"
                f"{f', or one of {alike}' if alike else ''}."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings alone for another process: what is derived from them is derived there."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """The elements that it describes, in the order of atomic number."""
        known = [frozenset(self.species)] if self.terms else []
        known += [frozenset(part.elements(value)) for part, value in parts_of(self)]
        return tuple(symbol for symbol in ELEMENTS if all(symbol in accepted for accepted in known))

    @cached_property
    def terms(self) -> tuple[tuple[int, Term], ...]:
        """Order and settings of the terms in the order of the vector."""
        pairs = ((1, self.k1), (2, self.k2), (3, self.k3))
        return tuple((order, term) for order, term in pairs if term is not None)

    @cached_property
    def parts(self) -> tuple[tuple[Part, Any], ...]:
        """The parts behind the terms that the settings ask for, each with the value of its setting."""
        asked = [(part, getattr(self, part.setting)) for part in PARTS]
        return tuple((part, value) for part, value in asked if part.width(value))

    @cached_property
    def reach_angstrom(self) -> float:
        """Distance up to which DScribe collects the neighbours of a cell: the largest of all its cutoffs."""
        twice = {"smooth_cutoff": 2.0}  # from one neighbour of the apex to the other
        reaches = [
            twice.get(term.weighting, 1.0) * (term.cutoff_angstrom or 0.0) for _, term in self.terms
        ]
        return max([*reaches, *(part.reach_angstrom(value) for part, value in parts_of(self))])


MBTRConfig = DescriptorConfig  # its name while there was nothing but MBTR


@dataclass(frozen=True)
class Estimate:
    """What a computation will need: features per structure, and bytes of the float32 array that it returns."""

    n_features: int
    n_bytes: int


def n_features(config: DescriptorConfig) -> int:
    """Return the length of a structure's vector."""
    return int(feature_terms(config)[-1].stop)


def parts_of(config: DescriptorConfig) -> list[tuple[Part, Any]]:
    """Return the parts behind the terms that the settings ask for, each with the value of its setting."""
    return list(config.parts)


def similarity_features(
    features: NDArray[np.floating[Any]], config: DescriptorConfig
) -> NDArray[np.floating[Any]]:
    """Return the features (n, p) whose directions say how alike structures are: all but the size and the levels."""
    others = sum(part.width(value) for part, value in parts_of(config) if not part.alike)
    return features[:, :-others] if others else features


def feature_terms(config: DescriptorConfig) -> tuple[slice, ...]:
    """Return the places of the terms in the vector, k1 first, and of the parts behind them."""
    widths = [_n_blocks(order, len(config.species)) * term.n for order, term in config.terms]
    return tuple(_places([*widths, *(part.width(value) for part, value in parts_of(config))]))


def feature_blocks(config: DescriptorConfig) -> tuple[tuple[str, slice], ...]:
    """Return name and place of every block of the vector, such as ("C", 36:72) and ("H-C", 288:324).

    In a triple, the middle element is the apex of the angle.
    """
    blocks = [
        (name, term.n)
        for order, term in config.terms
        for name in _block_names(order, config.species)
    ]
    blocks += [(part.name(value), part.width(value)) for part, value in parts_of(config)]
    names, widths = zip(*blocks, strict=True)
    return tuple(zip(names, _places(widths), strict=True))


def estimate(config: DescriptorConfig, n_structures: int) -> Estimate:
    """Return the number of features and the bytes of `n_structures` vectors in float32."""
    width = n_features(config)
    return Estimate(n_features=width, n_bytes=4 * width * n_structures)


def _places(widths: Sequence[int]) -> list[slice]:
    """Return the places of neighbours of these widths, from 0 on."""
    return [
        slice(end - width, end)
        for width, end in zip(widths, itertools.accumulate(widths), strict=True)
    ]


def _n_blocks(order: int, n: int) -> int:
    pairs = n * (n + 1) // 2
    return {1: n, 2: pairs, 3: n * pairs}[order]


def _block_names(order: int, species: tuple[str, ...]) -> list[str]:
    pairs = [(a, b) for i, a in enumerate(species) for b in species[i:]]
    if order == 1:
        return list(species)
    if order == 2:
        return [f"{a}-{b}" for a, b in pairs]
    return [f"{a}-{apex}-{b}" for apex in species for a, b in pairs]
