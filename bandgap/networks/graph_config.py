"""The shape of a graph network; loads no torch, as pages read how many features it gives."""

from dataclasses import dataclass

from bandgap.foundation.errors import ConfigError


@dataclass(frozen=True)
class GraphConfig:
    """Elements, neighbours and widths of MEGNet's blocks.

    An atom sees its `max_neighbours` nearest neighbours within the cutoff, and those as far as the last of them, so
    that neighbours which a symmetry makes equal are taken or left together. Distances are expanded in `centres`
    Gaussians. `steps` are those of the pooling of atoms and of bonds.
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
        """Raise ConfigError for a network of nothing."""
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
                f"graph network: elements {' '.join(self.species) or 'none'}, cutoff {self.cutoff_angstrom:g} angstroms"
                f", {self.centres} Gaussians, neighbours and widths {sizes}. Accepted: at least one element, a cutoff "
                "above 0, two Gaussians or more, whole numbers from 1."
            )

    @property
    def n_features(self) -> int:
        """Length of the readout: pooled atoms, pooled bonds (twice the width each), and the state."""
        return 5 * self.width
