"""How long a run of the network sampler is, and along which paths it moves."""

from dataclasses import dataclass, replace
from typing import Literal

from bandgap.foundation.errors import ConfigError

ANGLE, ACCEPT = 0.65, 0.8  # radians of a path of mean length, and its acceptance
FRAMED_ANGLE, FRAMED_ACCEPT = 2.1, 0.8  # the same in partially centred coordinates
WARMUP, FRAMED_WARMUP = 300, 200  # iterations of a chain in which it adapts
DRAWS, FRAMED_DRAWS = 1500, 400  # and after that


@dataclass(frozen=True)
class SamplerConfig:
    """Length of the run: chains, iterations of warm-up and after it, kept draws of all chains together, and the path.

    `coordinates` "whitened" moves whitened weights, and each layer's scale with them in a move of its own
    (`interweaving`); "partially centred" moves both along one path (`partial_centring`), and "auto" takes it where all
    weights of a layer have one prior width: on 12, 60 and 100 crystals of the demo, four chains of `btl_pcp_pe` gave
    4.5, 2.8 and 4.7 times the effective draws of the slowest quantity per second. `warmup` and `draws` None are 300 and
    1,500, and 200 and 400 in partially centred coordinates.

    `angle` is the length of a path in radians; it varies by a third up and down, by a tenth in partially centred
    coordinates. None is 0.65, and 2.1 there, where all of zeta has about unit variance: a quarter of a turn (1.57)
    makes it new, and the scales, a little slower, gain by more. On 500 crystals of the demo, chains of 1,500 iterations
    with 1.57, 2.1 and 2.6 radians gave 0.18, 0.22 to 0.34 and 0.27 effective draws of the slowest of tau,
    sigma and c per iteration, and 3.8, 4.3 to 6.4 and 4.1 per second. `target_accept` None is 0.8 (with 0.74, steps are
    longer by a fifth, and there were as many effective draws per second).
    """

    chains: int = 4
    warmup: int | None = None
    draws: int | None = None
    keep: int = 400
    coordinates: Literal["auto", "whitened", "partially centred"] = "auto"
    angle: float | None = None
    target_accept: float | None = None
    max_steps: int = 80

    def __post_init__(self) -> None:
        if self.chains < 2 or self.n_warmup < 20 or self.n_draws < 20 or self.keep < self.chains:
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.n_warmup} warm-up iterations, {self.n_draws} draws, {self.keep} "
                "kept. Accepted: at least 2 chains, 20 warm-up iterations, 20 draws and one kept draw for every chain."
            )
        angle, accept = self.radians(framed=False), self.acceptance(framed=False)
        if not (angle > 0 and 0 < accept < 1 and self.max_steps >= 1):
            raise ConfigError(
                f"sampler: angle {self.angle}, target_accept {self.target_accept}, max_steps {self.max_steps}. "
                "Accepted: an angle above 0 (radians), a target acceptance between 0 and 1, and at least 1 step."
            )

    @property
    def n_warmup(self) -> int:
        """Iterations of a chain before its draws."""
        if self.warmup is not None:
            return self.warmup
        return FRAMED_WARMUP if self.coordinates == "partially centred" else WARMUP

    @property
    def n_draws(self) -> int:
        """Iterations of a chain after warm-up."""
        if self.draws is not None:
            return self.draws
        return FRAMED_DRAWS if self.coordinates == "partially centred" else DRAWS

    def planned(self, *, can_frame: bool) -> "SamplerConfig":
        """Return the same with its coordinates chosen, for a problem in which `can_frame` says whether both exist."""
        if self.coordinates != "auto":
            return self
        return replace(self, coordinates="partially centred" if can_frame else "whitened")

    def radians(self, *, framed: bool) -> float:
        """Return the mean length of a path, in partially centred coordinates where `framed`."""
        if self.angle is not None:
            return self.angle
        return FRAMED_ANGLE if framed else ANGLE

    def acceptance(self, *, framed: bool) -> float:
        """Return the acceptance that the step is made for, in partially centred coordinates where `framed`."""
        if self.target_accept is not None:
            return self.target_accept
        return FRAMED_ACCEPT if framed else ACCEPT
