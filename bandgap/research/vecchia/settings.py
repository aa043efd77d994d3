"""Settings of a Gaussian process on any coordinates, and which of them may be combined."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from annotated_types import Interval

from bandgap.foundation.config import Count, Settings, WholeNumber
from bandgap.foundation.errors import ConfigError
from bandgap.research.vecchia.engines import Engine
from bandgap.research.vecchia.first_order import FirstOrderConfig
from bandgap.research.vecchia.langevin import LangevinConfig
from bandgap.research.vecchia.metropolis import MetropolisConfig
from bandgap.research.vecchia.published import PublishedConfig
from bandgap.research.vecchia.stochastic_scoring import ScoringConfig

EXACT_ROWS = 1000  # most rows for which likelihood "auto" is the exact one

Likelihood = Literal["auto", "exact", "vecchia"]
OfAllSites = Literal["auto", "metropolis", "sgrld", "none"]
FirstOrder = Literal["sgld", "psgld", "msgld", "asgld", "sghmc", "hamcmc", "hamcmc_sa"]
Sampler = Literal[OfAllSites, "sgrld_published", "sgfs", FirstOrder]


@dataclass(frozen=True)
class GPConfig(Settings):
    """Settings of the covariance, the likelihood and the sampler.

    Parameters
    ----------
    nu
        Smoothness: a number up to 4; "auto": the most probable of 0.5, 1.5 and 2.5; "free":
        sampled, up to 250. The paper has "free"; "auto" because a free smoothness is slower and
        nearly confounded with the range.
    likelihood
        "exact", "vecchia", or "auto": exact up to 1,000 rows.
    neighbours
        Neighbours of each site in Vecchia's likelihood. The paper has 15; 60 because sites of the
        paper have two coordinates and features of a network have dozens, where few neighbours do
        not screen the others (methods, `vecchia_gp`).
    predict_from
        Nearest rows that a prediction uses; 0: all. Up to 2,000 rows, all are used.
    sampler
        "auto" is the recommendation: "metropolis" with the exact likelihood, "sgrld" with
        Vecchia's. With "none" the scales are fixed at the mode, and intervals contain the
        uncertainty of the trend only. The others are for comparison, with Vecchia's likelihood
        only: "sgrld_published" with a metric that moves, in log theta; "sgfs", scoring by batches,
        which fixes the scales at the maximum of the likelihood; and the first-order samplers
        "sgld", "psgld", "msgld", "asgld", "sghmc", "hamcmc" and "hamcmc_sa".
    metropolis, sgrld, sgrld_published, sgfs, first_order
        Settings of the samplers.
    keep
        Draws that predictions use.
    engine
        Sums over the sites of Vecchia's likelihood: "loops" compiled for the CPU, "batched"
        tensors, or "auto": loops on a CPU and tensors on CUDA (see `engines`). The exact likelihood
        is always computed on the CPU.
    """

    nu: Annotated[float, Interval(gt=0, le=4)] | Literal["auto", "free"] = "auto"
    likelihood: Likelihood = "auto"
    neighbours: Count = 60
    predict_from: WholeNumber = 200
    sampler: Sampler = "auto"
    metropolis: MetropolisConfig = field(default_factory=MetropolisConfig)
    sgrld: LangevinConfig = field(
        default_factory=lambda: LangevinConfig(step=0.05, batch=250, warmup=100, draws=500, thin=4)
    )
    keep: Count = 32
    engine: Engine = "auto"
    sgrld_published: PublishedConfig = PublishedConfig()
    sgfs: ScoringConfig = ScoringConfig()
    first_order: FirstOrderConfig = FirstOrderConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.likelihood == "exact" and self._by_sites:
            raise ConfigError(
                f"gp: sampler {self.sampler!r} uses batches of sites, and the exact likelihood is "
                f"no sum over sites. Accepted with it: {', '.join(get_args(OfAllSites))}; or give "
                "likelihood 'vecchia'."
            )

    @property
    def _by_sites(self) -> bool:
        return self.sampler not in get_args(OfAllSites)

    def is_exact(self, n: int) -> bool:
        """Return whether the likelihood of n rows is exact."""
        is_small = self.likelihood == "auto" and n <= EXACT_ROWS and not self._by_sites
        return self.likelihood == "exact" or is_small
