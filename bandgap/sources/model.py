"""The source model: a network trained on labelled structures, its scales, descriptor and card.

Extras are what Bayesian transfers need to know of each weight in addition to the point estimate:
the Fisher information, a variational posterior and snapshots of SGD. The Fisher information is
computed in every training, the others if the settings ask for them. The last two use the rows on
which the point estimate was trained, so that the held-out rows can measure their errors.
"""

from dataclasses import dataclass, field

from bandgap.descriptors import DescriptorConfig
from bandgap.networks.perceptron import NetworkConfig, Params
from bandgap.networks.standardise import Standardiser
from bandgap.networks.swag import SnapshotConfig, Snapshots
from bandgap.networks.training import Epoch, TrainingConfig
from bandgap.networks.variational import VariationalConfig, VariationalFit
from bandgap.sources.statistics import FeatureStatistics


@dataclass(frozen=True)
class SourceConfig:
    """Settings of the training of a source model.

    Parameters
    ----------
    hidden
        Widths of the hidden layers.
    training
        Settings of the optimiser and of early stopping.
    variational
        Settings of variational fits. The one whose means have the smallest error on the held-out
        rows is kept. Empty for none.
    snapshots
        Settings of the snapshots of SGD; None for none.
    split
        Numbers of structures to train on and to stop by; the others are test structures. They also
        set the share that is held out. None for no test structures.
    """

    hidden: tuple[int, ...] = (128, 64)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    variational: tuple[VariationalConfig, ...] = ()
    snapshots: SnapshotConfig | None = None
    split: tuple[int, int] | None = None


@dataclass(frozen=True)
class SourceCard:
    """What a source was trained on, and its errors.

    Parameters
    ----------
    data
        Names of its files.
    n_structures
        Number of structures.
    elements
        Chemical symbols, sorted.
    level_of_theory, licence
        Those of the labels; empty if not recorded.
    validation_rmse_eV
        Root mean square error on the held-out rows, which also chose the epoch of one network.
    seed
        Seed of the training.
    displacement_angstrom
        Standard deviation of the displacements in the copies that it was also trained on; 0 for
        none.
    potential
        Pretrained potential of its descriptor, with the licence of its weights; empty for none.
    graph
        Graph network that the source trained; empty for none.
    n_test, test_rmse_eV
        Number of structures that were not used in the training, and the error on them.
    n_held_out, held_out_rmse_eV
        Number of held-out structures, and the error on them at epochs that they did not choose.
    """

    data: tuple[str, ...]
    n_structures: int
    elements: tuple[str, ...]
    level_of_theory: str = ""
    licence: str = ""
    validation_rmse_eV: float = float("nan")
    seed: int = 0
    displacement_angstrom: float = 0.0
    potential: str = ""
    graph: str = ""
    n_test: int = 0
    test_rmse_eV: float | None = None
    n_held_out: int = 0
    held_out_rmse_eV: float | None = None


@dataclass(frozen=True, eq=False)
class SourceModel:
    """A trained source network with everything that a transfer needs.

    The weights are float32 on the CPU. Extras that the source was stored without are None.

    Parameters
    ----------
    params, network
        Weights and shape.
    standardiser
        Scales of features and gaps.
    descriptor, card, config
        Descriptor, what it was trained on, and the settings of the training.
    history
        Errors of every epoch.
    features
        Statistics of its last hidden features.
    fisher
        Diagonal Fisher information of every weight.
    variational, snapshots
        Variational posterior, and snapshots of SGD.
    """

    params: Params
    network: NetworkConfig
    standardiser: Standardiser
    descriptor: DescriptorConfig
    card: SourceCard
    config: SourceConfig
    history: tuple[Epoch, ...] = ()
    features: FeatureStatistics | None = None
    fisher: Params | None = None
    variational: VariationalFit | None = None
    snapshots: Snapshots | None = None

    @property
    def extras(self) -> tuple[str, ...]:
        """Names of the extras that this source has."""
        names = ("features", "fisher", "variational", "snapshots")
        return tuple(name for name in names if getattr(self, name) is not None)
