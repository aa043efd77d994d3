"""Settings of a descriptor, and what it costs before anything is computed.

A feature vector consists of the terms of the many-body tensor representation (MBTR), followed by
other blocks. A term is a sum of Gaussians on a grid: one grid per element (k1), per pair of
elements (k2) or per triple of elements (k3). The vector contains k1, then k2, then k3, each in the
order of atomic numbers.

Reference: H. Huo and M. Rupp, Unified representation of molecules and crystals for machine
learning, Mach. Learn.: Sci. Technol. 3, 045017 (2022).
"""

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import ElectronLevels, GraphBody, OwnColumns, Soap
from bandgap.descriptors.blocks import Block
from bandgap.foundation.config import (
    STORED_UNLESS_DEFAULT,
    AtLeastTwo,
    Positive,
    ProperShare,
    Settings,
)
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.lazy import Registry
from bandgap.structures.elements import ELEMENTS

Function = Literal["atomic_number", "distance", "inverse_distance", "angle", "cosine"]
Weighting = Literal["none", "exp", "inverse_square", "smooth_cutoff"]
Normalisation = Literal["per_heavy_atom", "per_atom", "l2_per_term", "none"]

_FUNCTIONS = {1: ("atomic_number",), 2: ("distance", "inverse_distance"), 3: ("angle", "cosine")}
_WEIGHTINGS = {1: ("none",), 2: ("exp", "inverse_square"), 3: ("exp", "smooth_cutoff")}

# The registry of blocks by their setting, in their order in the vector.
BLOCKS: Mapping[str, Block] = Registry(
    {
        "composition": "bandgap.descriptors.composition:BLOCK",
        "neighbours": "bandgap.descriptors.neighbours:BLOCK",
        "soap": "bandgap.descriptors.soap:BLOCK",
        "potential": "bandgap.descriptors.potentials:BLOCK",
        "second_potential": "bandgap.descriptors.potentials.second:BLOCK",
        "graph": "bandgap.descriptors.graphs:BLOCK",
        "bonds": "bandgap.descriptors.bond_graphs:BLOCK",
        "user_features": "bandgap.descriptors.user_features:BLOCK",
        "fractions": "bandgap.descriptors.fractions:BLOCK",
        "size": "bandgap.descriptors.size:BLOCK",
        "levels": "bandgap.descriptors.electron_levels:BLOCK",
    },
)
_NONE = "none"  # value of `levels` and `potential` for no block


@dataclass(frozen=True)
class Term(Settings):
    """One term of the MBTR: its function, its grid and its cutoff.

    The Gaussians have height 1. All values of the grid are in the unit of `function`: atomic
    number, angstrom, 1/angstrom, degree or none (cosine).

    Parameters
    ----------
    function
        What is measured of an atom (k1), a pair (k2) or a triple (k3).
    minimum, maximum, n
        First point, last point and number of points of the grid.
    sigma
        Standard deviation of a Gaussian.
    weighting
        Weight of a Gaussian. `exp` is exp(-s x), where x is the distance (k2) or half the
        perimeter (k3), and s is such that the weight is `threshold` at `cutoff_angstrom`.
    cutoff_angstrom
        Atoms farther apart than this are left out.
    threshold
        Weight at the cutoff, for `exp`.
    """

    function: Function
    minimum: float
    maximum: float
    n: AtLeastTwo
    sigma: Positive
    weighting: Weighting = "none"
    cutoff_angstrom: Positive | None = None
    threshold: ProperShare | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError if the grid is empty or the weighting is incomplete."""
        super().__post_init__()
        if not self.minimum < self.maximum:
            raise ConfigError(
                f"MBTR grid runs from {self.minimum} to {self.maximum}. "
                "The minimum must be smaller."
            )
        if self.weighting != "none" and self.cutoff_angstrom is None:
            raise ConfigError(f"MBTR weighting {self.weighting!r} needs a cutoff_angstrom.")
        if self.weighting == "exp" and self.threshold is None:
            raise ConfigError("MBTR weighting 'exp' needs a threshold.")


@dataclass(frozen=True)
class DescriptorConfig(Settings):
    """All settings that define the feature vector of a structure.

    With `per_heavy_atom`, `per_atom` and `l2_per_term` a supercell has the same vector as its
    cell; with `none` the vector grows with the cell. There is no normalisation by volume, because
    a molecule has none.

    Parameters
    ----------
    species
        Elements of the MBTR terms, given in any order. Empty for a descriptor without terms, which
        describes the elements that all of its blocks can describe (`elements`).
    k1, k2, k3
        Terms of the MBTR.
    normalisation
        `per_heavy_atom` divides by the number of atoms other than hydrogen, or of all atoms where
        there are no others. `per_atom` divides by the number of all atoms. `l2_per_term` scales
        every term to unit length; a term without any pair stays zero.
    roots
        Take the square root of every value of the MBTR, so that rare pairs count more relative to
        frequent ones.
    size
        Add the size of the molecules (module `size`).
    neutral
        Describe zwitterions in their neutral form (`structures.zwitterions`).
    levels
        Add gap, HOMO and LUMO in eV by this method (module `tight_binding`), as last features.
    composition
        Add statistics of element properties (module `composition`).
    neighbours
        Add statistics of the neighbours of atoms (module `neighbours`).
    soap
        Add the smooth overlap of atomic positions (module `soap`).
    potential
        Add pooled features of this pretrained interatomic potential (package `potentials`).
    second_potential
        Add those of a second potential, as another block.
    graph
        Add the readout of a graph network that a source model trained (module `graphs`).
    bonds
        Add properties and environments of the molecules from their bonds (module `bond_graphs`).
    user_features
        Add columns of the user's own table (module `user_features`).
    fractions
        Add square roots of the elements' fractions (module `fractions`).
    leaves_out_atoms
        Describe structures with elements beyond `species` too, as if their atoms were absent from
        the terms of the MBTR. The other blocks must know the elements.
    """

    species: tuple[str, ...] = ()
    k1: Term | None = None
    k2: Term | None = None
    k3: Term | None = None
    normalisation: Normalisation = "per_heavy_atom"
    roots: bool = False
    size: bool = False
    neutral: bool = False
    levels: ElectronLevels = "none"
    composition: bool = False
    neighbours: bool = False
    soap: Soap | None = None
    potential: str = _NONE
    second_potential: str = field(default=_NONE, metadata=STORED_UNLESS_DEFAULT)
    graph: GraphBody | None = None
    bonds: bool = field(default=False, metadata=STORED_UNLESS_DEFAULT)
    user_features: OwnColumns | None = field(default=None, metadata=STORED_UNLESS_DEFAULT)
    fractions: bool = field(default=False, metadata=STORED_UNLESS_DEFAULT)
    leaves_out_atoms: bool = field(default=False, metadata=STORED_UNLESS_DEFAULT)

    def __post_init__(self) -> None:
        """Sort the species by atomic number; raise ConfigError if this cannot be a descriptor."""
        super().__post_init__()
        if self.terms:
            object.__setattr__(self, "species", _sorted_species(self.species))
        elif self.species:
            raise ConfigError(
                f"species {' '.join(self.species)} given without a term of MBTR. "
                "Give a term such as k1, or no species."
            )
        for order, term in self.terms:
            _check_term(order, term)
        _check_potentials(self.potential, self.second_potential)
        if not self.terms and not any(block.measures_similarity for block, _ in self.blocks):
            settings = ", ".join(n for n, block in BLOCKS.items() if block.measures_similarity)
            raise ConfigError(
                "the descriptor has nothing that measures how similar structures are. "
                f"Accepted: a term of MBTR{f', or one of {settings}' if settings else ''}."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for another process, without the cached properties."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    @property
    def without_own(self) -> "DescriptorConfig":
        """The settings without the user's own columns, possibly without any block."""
        other_blocks = copy.copy(self)  # not checked: the size alone measures no similarity
        object.__setattr__(other_blocks, "user_features", None)
        return other_blocks

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """The elements that the descriptor accepts, in the order of atomic number."""
        needs_species = bool(self.terms) and not self.leaves_out_atoms
        accepted = [frozenset(self.species)] if needs_species else []
        accepted += [frozenset(block.elements(value)) for block, value in self.blocks]
        return tuple(
            symbol for symbol in ELEMENTS if all(symbol in symbols for symbols in accepted)
        )

    @cached_property
    def terms(self) -> tuple[tuple[int, Term], ...]:
        """Order and settings of the MBTR terms, in the order of the vector."""
        pairs = ((1, self.k1), (2, self.k2), (3, self.k3))
        return tuple((order, term) for order, term in pairs if term is not None)

    @cached_property
    def blocks(self) -> tuple[tuple[Block, Any], ...]:
        """The blocks after the MBTR terms, each with the value of its setting."""
        defaults = {setting.name: setting.default for setting in fields(self)}
        values = {name: getattr(self, name) for name in BLOCKS}
        # With the default of its setting there is no block, and its module is not imported.
        present = [(BLOCKS[n], value) for n, value in values.items() if value != defaults[n]]
        return tuple((block, value) for block, value in present if block.width(value))

    @cached_property
    def reach_angstrom(self) -> float:
        """Distance up to which DScribe collects the neighbours of a cell: its largest cutoff."""
        # From one neighbour of the apex to the other.
        factors = {"smooth_cutoff": 2.0}
        reaches = [
            factors.get(term.weighting, 1.0) * (term.cutoff_angstrom or 0.0)
            for _, term in self.terms
        ]
        return max([*reaches, *(block.reach_angstrom(value) for block, value in self.blocks)])


def n_features(config: DescriptorConfig) -> int:
    """Return the length of a structure's vector."""
    return int(feature_terms(config)[-1].stop)


def similarity_features(
    features: NDArray[np.floating[Any]], config: DescriptorConfig
) -> NDArray[np.floating[Any]]:
    """Return the features that measure similarity: all but the size and the electron levels.

    Parameters
    ----------
    features
        Vectors of structures (n, p).
    config
        The descriptor that gave them.
    """
    widths = [block.width(value) for block, value in config.blocks if not block.measures_similarity]
    n_last = sum(widths)
    return features[:, :-n_last] if n_last else features


def feature_terms(config: DescriptorConfig) -> tuple[slice, ...]:
    """Return the slices of the MBTR terms in the vector, k1 first, then of the other blocks."""
    widths = [_n_grids(order, len(config.species)) * term.n for order, term in config.terms]
    return tuple(_slices([*widths, *(block.width(value) for block, value in config.blocks)]))


def feature_blocks(config: DescriptorConfig) -> tuple[tuple[str, slice], ...]:
    """Return name and slice of every block of the vector.

    Each grid of an MBTR term is a block, such as ("C", 36:72) and ("H-C", 288:324). In the name of
    a triple, the middle element is the apex of the angle.
    """
    blocks = [
        (name, term.n)
        for order, term in config.terms
        for name in _grid_names(order, config.species)
    ]
    blocks += [(block.name(value), block.width(value)) for block, value in config.blocks]
    names, widths = zip(*blocks, strict=True)
    return tuple(zip(names, _slices(widths), strict=True))


def feature_bytes(config: DescriptorConfig, n_structures: int) -> int:
    """Return the bytes of `n_structures` vectors in float32."""
    return 4 * n_features(config) * n_structures


def _sorted_species(species: tuple[str, ...]) -> tuple[str, ...]:
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


def _check_term(order: int, term: Term) -> None:
    if term.function not in _FUNCTIONS[order]:
        raise ConfigError(
            f"k{order} has function {term.function!r}. Accepted: {', '.join(_FUNCTIONS[order])}."
        )
    if term.weighting not in _WEIGHTINGS[order]:
        raise ConfigError(
            f"k{order} has weighting {term.weighting!r}. Accepted: {', '.join(_WEIGHTINGS[order])}."
        )


def _check_potentials(potential: str, second_potential: str) -> None:
    """Raise ConfigError if there are no such potentials."""
    # Imported only for a name, so that a descriptor without these blocks loads neither.
    if potential != _NONE:
        from bandgap.descriptors.potentials import check_potential

        check_potential(potential)
    if second_potential != _NONE:
        from bandgap.descriptors.potentials import check_second_potential

        check_second_potential(second_potential, first=potential)


def _slices(widths: Sequence[int]) -> list[slice]:
    """Return the slices of adjacent blocks of these widths."""
    ends = itertools.accumulate(widths)
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]


def _n_grids(order: int, n_species: int) -> int:
    n_pairs = n_species * (n_species + 1) // 2
    return {1: n_species, 2: n_pairs, 3: n_species * n_pairs}[order]


def _grid_names(order: int, species: tuple[str, ...]) -> list[str]:
    if order == 1:
        return list(species)
    pairs = [(a, b) for i, a in enumerate(species) for b in species[i:]]
    if order == 2:
        return [f"{a}-{b}" for a, b in pairs]
    return [f"{a}-{apex}-{b}" for apex in species for a, b in pairs]
