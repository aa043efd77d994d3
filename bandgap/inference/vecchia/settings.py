"""Settings of a Gaussian process on any coordinates, and which of them go together."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from bandgap.foundation.errors import ConfigError
from bandgap.inference.vecchia.engines import Engine, check_engine
from bandgap.inference.vecchia.first_order import FirstOrderConfig
from bandgap.inference.vecchia.langevin import LangevinConfig
from bandgap.inference.vecchia.metropolis import MetropolisConfig
from bandgap.inference.vecchia.published import PublishedConfig
from bandgap.inference.vecchia.stochastic_scoring import ScoringConfig

EXACT_ROWS = 1000  # up to which the exact likelihood is sampled where the likelihood is "auto"

Likelihood = Literal["auto", "exact", "vecchia"]
OfAllSites = Literal["auto", "metropolis", "sgrld", "none"]
FirstOrder = Literal["sgld", "psgld", "msgld", "asgld", "sghmc", "hamcmc", "hamcmc_sa"]
Sampler = Literal[OfAllSites, "sgrld_published", "sgfs", FirstOrder]


@dataclass(frozen=True)
class GPConfig:
    """Smoothness ("auto": the likeliest of 0.5, 1.5, 2.5; "free": sampled, to 250), likelihood, neighbours, sampler.

    A prediction is given the nearest `predict_from` rows (0: all), all of them up to 2,000 rows.

    The exact likelihood is "auto" up to 1,000 rows and is sampled by Metropolis, Vecchia's above by SGRLD; that is the
    recommendation. "none" takes the mode as known: intervals then hold the trend's uncertainty, not that of the scales.
    `keep` draws are predicted with.

    For comparison, on Vecchia's likelihood alone: "sgrld_published" (a metric that moves), "sgfs" (scoring by batches;
    its maximum of the likelihood is taken as known) and the first-order samplers "sgld", "psgld", "msgld", "asgld",
    "sghmc", "hamcmc" and "hamcmc_sa", all with settings `first_order`. A free smoothness is nearly confounded with the
    range, and no closed form is as quick.

    `engine` sums over the sites of Vecchia's likelihood: "loops" compiled for the CPU, or "batched" tensors; "auto"
    takes loops on a CPU and tensors on CUDA (`engines`). The exact likelihood is always computed on the CPU.
    """

    nu: float | Literal["auto", "free"] = "auto"
    likelihood: Likelihood = "auto"
    neighbours: int = 60
    predict_from: int = 200
    sampler: Sampler = "auto"
    metropolis: MetropolisConfig = field(default_factory=MetropolisConfig)
    sgrld: LangevinConfig = field(
        default_factory=lambda: LangevinConfig(step=0.05, batch=250, warmup=100, draws=500, thin=4)
    )
    keep: int = 32
    engine: Engine = "auto"
    sgrld_published: PublishedConfig = PublishedConfig()
    sgfs: ScoringConfig = ScoringConfig()
    first_order: FirstOrderConfig = FirstOrderConfig()

    def __post_init__(self) -> None:
        check_engine(self.engine)
        for name, kind in (("likelihood", Likelihood), ("sampler", Sampler)):
            if getattr(self, name) not in get_args(kind):
                raise ConfigError(
                    f"gp: {name} {getattr(self, name)!r}. Accepted: {', '.join(get_args(kind))}."
                )
        sound = self.nu in ("auto", "free") or (
            isinstance(self.nu, (int, float)) and 0 < self.nu <= 4
        )
        if not (sound and self.neighbours >= 1 and self.predict_from >= 0 and self.keep >= 1):
            raise ConfigError(
                f"gp: nu {self.nu}, {self.neighbours} neighbours, predict_from {self.predict_from}, keep {self.keep}. "
                "Accepted: nu 'auto', 'free' or a number to 4, whole numbers from 1 (predict_from from 0)."
            )
        if self.likelihood == "exact" and self._by_sites:
            raise ConfigError(
                f"gp: sampler {self.sampler!r} goes by batches of sites, and the exact likelihood is no sum over "
                f"sites. Accepted with it: {', '.join(get_args(OfAllSites))}; or give likelihood 'vecchia'."
            )

    @property
    def _by_sites(self) -> bool:
        return self.sampler not in get_args(OfAllSites)

    def is_exact(self, n: int) -> bool:
        """Return whether the likelihood of n rows is the exact one."""
        few = self.likelihood == "auto" and n <= EXACT_ROWS and not self._by_sites
        return self.likelihood == "exact" or few
