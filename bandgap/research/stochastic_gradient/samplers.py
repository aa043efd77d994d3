"""Settings and functions of all samplers, by name.

A new sampler is one file and an entry in each of the two tables.
"""

from collections.abc import Mapping
from typing import Final

from bandgap.research.stochastic_gradient import (
    asgld,
    hamcmc,
    hamcmc_sa,
    msgld,
    psgld,
    sghmc,
    sgld,
)
from bandgap.research.stochastic_gradient.asgld import AsgldConfig
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.msgld import MsgldConfig
from bandgap.research.stochastic_gradient.protocol import Algorithm
from bandgap.research.stochastic_gradient.psgld import PsgldConfig
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig

AnyConfig = (
    SgldConfig
    | PsgldConfig
    | MsgldConfig
    | AsgldConfig
    | SghmcConfig
    | HamcmcConfig
    | HamcmcSaConfig
)

CONFIGS: Final[Mapping[str, type[AnyConfig]]] = {
    "sghmc": SghmcConfig,
    "psgld": PsgldConfig,
    "hamcmc_sa": HamcmcSaConfig,
    "hamcmc": HamcmcConfig,
    "sgld": SgldConfig,
    "msgld": MsgldConfig,
    "asgld": AsgldConfig,
}
_ALGORITHMS: Final[Mapping[type[AnyConfig], Algorithm]] = {
    SghmcConfig: sghmc.ALGORITHM,
    PsgldConfig: psgld.ALGORITHM,
    HamcmcSaConfig: hamcmc_sa.ALGORITHM,
    HamcmcConfig: hamcmc.ALGORITHM,
    SgldConfig: sgld.ALGORITHM,
    MsgldConfig: msgld.ALGORITHM,
    AsgldConfig: asgld.ALGORITHM,
}


def algorithm_of(config: AnyConfig) -> Algorithm:
    """Return the functions of the sampler that these settings belong to."""
    return _ALGORITHMS[type(config)]
