"""The shape of a graph network; imports no torch, because the dashboard reads feature numbers."""

from dataclasses import dataclass

from bandgap.foundation.errors import ConfigError


@dataclass(frozen=True)
class GraphConfig:
    """Elements, neighbours and widths of the MEGNet blocks.

    The paper is Abba (2023), section 2.5, whose sizes are those of its baseline. Sizes without a
    note are those of the MEGNet package of Chen and others (2019).

    Parameters
    ----------
    species
        Elements.
    cutoff_angstrom, max_neighbours
        An atom has its nearest neighbours within the cutoff. Neighbours as far away as the last of
        them are included, so that neighbours which a symmetry makes equal are treated alike.
    centres
        Number of Gaussians in which distances are expanded. The paper has 150; 40 because their
        standard deviation, 0.15 angstroms, is already below the 0.35 angstroms of the MEGNet
        package, which has 100.
    embedding
        Width of the embedding of elements. The paper has 32; 16 because the MEGNet package has 16.
    hidden, width
        Widths of the hidden layers, and of atoms, bonds and state.
    blocks
        Number of blocks. The paper has 4; 3 because the MEGNet package has 3.
    steps
        Steps of the pooling of atoms and of bonds.
    """

    species: tuple[str, ...]
    cutoff_angstrom: float = 4.0
    max_neighbours: int = 12
    centres: int = 40
    embedding: int = 16
    hidden: int = 64
    width: int = 32
    blocks: int = 3
    steps: int = 3

    def __post_init__(self) -> None:
        """Raise ConfigError for a network without elements or with a width below 1."""
        sizes = (
            self.max_neighbours,
            self.embedding,
            self.hidden,
            self.width,
            self.blocks,
            self.steps,
        )
        if not self.species or min(sizes) < 1 or self.centres < 2 or not self.cutoff_angstrom > 0:
            raise ConfigError(
                f"graph network: elements {' '.join(self.species) or 'none'}, cutoff "
                f"{self.cutoff_angstrom:g} angstroms, {self.centres} Gaussians, neighbours and "
                f"widths {sizes}. Accepted: at least one element, a cutoff above 0, two Gaussians "
                "or more, whole numbers from 1."
            )

    @property
    def n_features(self) -> int:
        """Length of the readout: pooled atoms, pooled bonds (twice the width each) and state."""
        return 5 * self.width
