"""The duration of a fit, as a formula in the number of structures; imports nothing heavy.

The seconds were measured on one core, on the demo data (1,260 features, hidden layers of 128 and 64
units). For methods that sample a network they are those of two cores.
"""

import math
from dataclasses import dataclass
from typing import Literal

from bandgap.inference.network.sampler_config import SamplerConfig

SIZES = (50, 200)  # numbers of structures at which fits were timed
THOUSAND = 1000

Coordinates = Literal["partially centred", "whitened"]


@dataclass(frozen=True)
class Cost:
    """Seconds of a fit to 50 and to 200 structures.

    `coordinates` are those of the network sampler, whose time grows with its iterations; None for
    a method without it. `thousand_s` are the seconds of a fit to 1,000 structures where they grow
    with the cube of n above, as those of an exact Gaussian process, and `matrices` is then the
    number of matrices (n, n) in memory.
    """

    small_s: float
    large_s: float
    coordinates: Coordinates | None = None
    thousand_s: float = 0.0
    matrices: int = 0

    def seconds(self, n: int, iterations: int | None) -> float:
        """Return the seconds of a fit to n structures: a power of n through both sizes.

        It never decreases with n, and grows at least as n above both sizes (1,280 structures took
        a Bayesian transfer 6 times the time of 200; 2 cores, 2026-11-29). `iterations` is the
        length of each chain, None for the default.
        """
        if self.thousand_s and n > SIZES[1]:
            rate = math.log(self.thousand_s / self.large_s) / math.log(THOUSAND / SIZES[1])
            return float(self.thousand_s * (n / THOUSAND) ** (rate if n < THOUSAND else 3.0))
        growth_rate = math.log(self.large_s / self.small_s) / math.log(SIZES[1] / SIZES[0])
        growth: float = (n / SIZES[1]) ** max(1.0 if n > SIZES[1] else 0.0, growth_rate)
        if iterations and self.coordinates:
            growth *= iterations / default_iterations(self.coordinates)
        return self.large_s * growth


def default_iterations(coordinates: Coordinates) -> int:
    """Return the iterations of a chain of the network sampler at its default settings."""
    sampler = SamplerConfig(coordinates=coordinates)
    return sampler.n_warmup + sampler.n_draws
