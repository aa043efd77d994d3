"""The shape of a graph network; imports no torch, because the dashboard reads feature numbers."""

from dataclasses import dataclass

from bandgap.foundation.config import AtLeastTwo, Count, OneOrMore, Positive, Settings


@dataclass(frozen=True)
class GraphConfig(Settings):
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

    species: OneOrMore[str]
    cutoff_angstrom: Positive = 4.0
    max_neighbours: Count = 12
    centres: AtLeastTwo = 40
    embedding: Count = 16
    hidden: Count = 64
    width: Count = 32
    blocks: Count = 3
    steps: Count = 3

    @property
    def n_features(self) -> int:
        """Length of the readout: pooled atoms, pooled bonds (twice the width each) and state."""
        return 5 * self.width
