"""How long a run of a sampler is, what it leaves, and figures of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.stochastic_gradient.gradients import ControlVariate
from bandgap.inference.stochastic_gradient.protocol import SamplerWarning
from bandgap.inference.stochastic_gradient.pruning import Pruning
from bandgap.inference.stochastic_gradient.schedules import Constant, Schedule


@dataclass(frozen=True)
class RunConfig:
    """Iterations of warm-up and after it, of which every `thin`-th leaves a draw; rows of a batch (None: all).

    `record_every` is how often quantities are recorded; `longest_move` ends a chain whose drift is longer.
    """

    warmup: int = 1000
    draws: int = 1000
    thin: int = 10
    batch_size: int | None = None
    schedule: Schedule = field(default_factory=Constant)
    record_every: int = 1
    longest_move: float = 1e3

    def __post_init__(self) -> None:
        if (
            self.warmup < 0
            or min(self.draws, self.thin, self.record_every) < 1
            or not self.longest_move > 0
        ):
            raise ConfigError(
                f"run: warm-up {self.warmup}, draws {self.draws}, thin {self.thin}, record_every {self.record_every}, "
                f"longest_move {self.longest_move}. Accepted: whole numbers from 0, from 1, and a length above 0."
            )

    def keeps(self, iteration: int, every: int) -> bool:
        """Return whether an iteration (from 0) leaves something of which every `every`-th after warm-up is kept."""
        after = iteration - self.warmup
        return after >= 0 and (after + 1) % every == 0 and self.schedule.collects(iteration)


@dataclass(frozen=True, eq=False)
class Draws:
    """Positions (chain, kept, dim) with the steps (kept,) they were made by; recorded quantities likewise."""

    position: Tensor
    steps: Tensor
    recorded: Tensor | None
    recorded_steps: Tensor | None


@dataclass(frozen=True)
class Info:
    """Figures of a run. `chains` are the numbers of those that did not end early, in the order of the draws."""

    seconds: float
    iterations: int
    chains: tuple[int, ...]
    gradient_norm: float  # mean after warm-up
    stretch: tuple[float, float]  # least and largest |G g| / |g|
    damped_share: float  # of pairs, the largest mean over chains
    zero_share: float  # of positions at the end, exactly zero
    divergences: int
    warnings: tuple[SamplerWarning, ...]


@dataclass(frozen=True, eq=False)
class Extras:
    """What a run may have besides: quantities to record, a control variate, pruning, and what stays as it starts.

    `record` maps positions (chain, dim) to quantities (chain, q) that are kept of every `record_every`-th iteration.
    `mask` (chain, dim) is 1 where a position may move and 0 where it stays. `variance` (dim,) is that of a batch's
    gradient, where it is known, for a sampler that makes up for it. `always` (k,) are rows that every batch holds.
    `possible` tells of positions (chain, dim) whether a draw can be there, (chain,): a chain elsewhere has diverged.
    """

    record: Callable[[Tensor], Tensor] | None = None
    control: ControlVariate | None = None
    pruning: Pruning | None = None
    mask: Tensor | None = None
    variance: Tensor | None = None
    always: Tensor | None = None
    possible: Callable[[Tensor], Tensor] | None = None
