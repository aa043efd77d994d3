"""The source model: a network trained on labelled structures, with its scales, its descriptor and its card.

Besides the point estimate a source can carry what the Bayesian transfers need to know of each weight: the Fisher
information, a variational posterior, snapshots of SGD. The first is computed with every training; the others where the
settings ask for them, on the rows that the point estimate was trained on, which leaves the held-out rows to measure by.
"""

from dataclasses import dataclass, field

from bandgap.descriptors import MBTRConfig
from bandgap.networks.perceptron import NetworkConfig, Params
from bandgap.networks.standardise import Standardiser
from bandgap.networks.swag import SnapshotConfig, Snapshots
from bandgap.networks.training import Epoch, TrainingConfig
from bandgap.networks.variational import VariationalConfig, VariationalFit
from bandgap.sources.statistics import FeatureStatistics


@dataclass(frozen=True)
class SourceConfig:
    """Widths of the hidden layers, how the network is trained, and the parts that are made only where asked for.

    Of several settings of the variational fit the one is kept whose means err least on the held-out rows. `split` holds
    the numbers of structures to train on and to stop by, which fix the share that is held out; the rest is tested on.
    """

    hidden: tuple[int, ...] = (128, 64)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    variational: tuple[VariationalConfig, ...] = ()
    snapshots: SnapshotConfig | None = None
    split: tuple[int, int] | None = None


@dataclass(frozen=True)
class SourceCard:
    """What a source was trained on: names of its files, elements, level of theory, licence, sizes and errors (eV).

    `displacement_angstrom` is that of the atoms in the copies that it has also seen, 0 where there were none.
    `potential` names the pretrained potential of its descriptor, with the licence of its weights, `graph` the graph
    network that the source trained; both are empty without. `n_test` structures that were seen at no time, where there
    are any, have `test_rmse_eV`.
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


@dataclass(frozen=True, eq=False)
class SourceModel:
    """Weights (float32, on the CPU), shape, standardisation, descriptor, card and learning curve of a source.

    The rest is None in a source that was made without it: the statistics of its last hidden features, the diagonal
    Fisher information of every parameter, the variational posterior, snapshots of SGD.
    """

    params: Params
    network: NetworkConfig
    standardiser: Standardiser
    descriptor: MBTRConfig
    card: SourceCard
    config: SourceConfig
    history: tuple[Epoch, ...] = ()
    features: FeatureStatistics | None = None
    fisher: Params | None = None
    variational: VariationalFit | None = None
    snapshots: Snapshots | None = None

    @property
    def extras(self) -> tuple[str, ...]:
        """Names of the parts beyond the point estimate that this source has."""
        return tuple(
            n
            for n in ("features", "fisher", "variational", "snapshots")
            if getattr(self, n) is not None
        )
