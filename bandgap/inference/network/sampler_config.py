"""Length and coordinates of a run of the network sampler."""

from dataclasses import dataclass, replace
from typing import Literal

from bandgap.foundation.errors import ConfigError

# radians of a path of mean length, and the acceptance that its step is adapted to
ANGLE = 0.65
ACCEPT = 0.8
# The same in partially centred coordinates. There all of zeta has about unit variance: a quarter of
# a turn (1.57) makes it nearly independent. The scales are a little slower and gain by more: on 500
# crystals 1.57, 2.1 and 2.6 radians gave 3.8, 4.3 to 6.4 and 4.1 effective draws per second of the
# slowest of tau, sigma and c.
CENTRED_ANGLE = 2.1
CENTRED_ACCEPT = 0.8
# iterations of a chain in warm-up and after it, in whitened and in partially centred coordinates
WARMUP = 300
CENTRED_WARMUP = 200
DRAWS = 1500
CENTRED_DRAWS = 400


@dataclass(frozen=True)
class SamplerConfig:
    """Settings of a run.

    Parameters
    ----------
    chains : number of chains, at least 2
    warmup : iterations of warm-up of every chain; None is 300, and 200 in partially centred
        coordinates
    draws : iterations of every chain after warm-up; None is 1,500, and 400 in partially centred
        coordinates
    keep : draws that are stored, of all chains together
    coordinates : "whitened" moves whitened weights, and each layer's scale with them in a separate
        move (`interweaving`); "partially centred" moves both along one path (`partial_centring`);
        "auto" is partially centred where all weights of a layer have one prior width, else whitened
    angle : mean length of a path in radians; it varies by a third up and down, by a tenth in
        partially centred coordinates. None is 0.65, and 2.1 in partially centred coordinates
    target_accept : acceptance that the step is adapted to; None is 0.8
    max_steps : largest number of steps of a path

    Raises
    ------
    ConfigError
        If the run is too short to be judged, or a path has no length.
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
                f"sampler: {self.chains} chains, {self.n_warmup} warm-up iterations, "
                f"{self.n_draws} draws, {self.keep} kept. Accepted: at least 2 chains, 20 warm-up "
                "iterations, 20 draws and one kept draw for every chain."
            )
        angle = self.radians(centred=False)
        accept = self.acceptance(centred=False)
        if not (angle > 0 and 0 < accept < 1 and self.max_steps >= 1):
            raise ConfigError(
                f"sampler: angle {self.angle}, target_accept {self.target_accept}, max_steps "
                f"{self.max_steps}. Accepted: an angle above 0 (radians), a target acceptance "
                "between 0 and 1, and at least 1 step."
            )

    @property
    def n_warmup(self) -> int:
        """Iterations of a chain in warm-up."""
        if self.warmup is not None:
            return self.warmup
        return CENTRED_WARMUP if self.coordinates == "partially centred" else WARMUP

    @property
    def n_draws(self) -> int:
        """Iterations of a chain after warm-up."""
        if self.draws is not None:
            return self.draws
        return CENTRED_DRAWS if self.coordinates == "partially centred" else DRAWS

    def planned(self, *, isotropic: bool) -> "SamplerConfig":
        """Return the settings with "auto" coordinates decided.

        `isotropic` says whether all weights of a layer have one prior width.
        """
        if self.coordinates != "auto":
            return self
        return replace(self, coordinates="partially centred" if isotropic else "whitened")

    def radians(self, *, centred: bool) -> float:
        """Return the mean length of a path, in partially centred coordinates if `centred`."""
        if self.angle is not None:
            return self.angle
        return CENTRED_ANGLE if centred else ANGLE

    def acceptance(self, *, centred: bool) -> float:
        """Return the target acceptance, in partially centred coordinates if `centred`."""
        if self.target_accept is not None:
            return self.target_accept
        return CENTRED_ACCEPT if centred else ACCEPT
