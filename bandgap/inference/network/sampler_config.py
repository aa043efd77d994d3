"""Length and coordinates of a run of the network sampler."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from bandgap.foundation.config import AtLeastTwo, Count, Positive, ProperShare, Settings
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
class SamplerConfig(Settings):
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
    extended_from : numbers of draws of the runs that this one extends, the shortest first (made by
        `extended`). The first draws of each chain are those of these runs, stored ones included

    Raises
    ------
    ConfigError
        If the run is too short to be judged, or a path has no length, or the run is not longer than
        those that it extends.
    """

    chains: AtLeastTwo = 4
    warmup: Annotated[int, Ge(20)] | None = None
    draws: Annotated[int, Ge(20)] | None = None
    keep: Count = 400
    coordinates: Literal["auto", "whitened", "partially centred"] = "auto"
    angle: Positive | None = None
    target_accept: ProperShare | None = None
    max_steps: Count = 80
    extended_from: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep < self.chains:
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.keep} draws kept. Accepted: at least one "
                "kept draw for every chain."
            )
        lengths = [*self.extended_from, self.draws or 0]
        if self.extended_from and sorted(set(lengths)) != lengths:
            raise ConfigError(
                f"sampler: {self.draws} draws, extended from {list(self.extended_from)}. Accepted: "
                "increasing numbers of draws, the last one the number of draws itself."
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

    def extended(self, more: int) -> "SamplerConfig":
        """Return the settings of this run with more draws of each chain.

        As many more are stored in proportion. The draws of this run are the first ones of that run.
        """
        n_draws = self.n_draws
        return replace(
            self,
            warmup=self.n_warmup,
            draws=n_draws + more,
            keep=math.ceil(self.keep * (n_draws + more) / n_draws),
            extended_from=(*self.extended_from, n_draws),
        )

    @property
    def shorter(self) -> "SamplerConfig | None":
        """The settings of the run that this one extends, None if it extends none."""
        if not self.extended_from:
            return None
        *earlier, n_draws = self.extended_from
        return replace(
            self,
            draws=n_draws,
            keep=self.keep * n_draws // self.n_draws,
            extended_from=tuple(earlier),
        )

    @property
    def stored_draws(self) -> list[int]:
        """Positions of the draws of each chain that are stored."""
        n_stored = min(self.keep // self.chains, self.n_draws)
        shorter = self.shorter
        first = [] if shorter is None else shorter.stored_draws
        start = 0 if shorter is None else shorter.n_draws
        added = np.linspace(start, self.n_draws - 1, num=n_stored - len(first)).round()
        return [*first, *added.astype(int).tolist()]

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
