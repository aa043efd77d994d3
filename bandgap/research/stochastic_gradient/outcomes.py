"""Length of a run of a sampler, its results, and its optional parts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from bandgap.foundation.config import Count, Positive, Settings, WholeNumber
from bandgap.research.stochastic_gradient.gradients import ControlVariate
from bandgap.research.stochastic_gradient.protocol import SamplerWarning
from bandgap.research.stochastic_gradient.pruning import Pruning
from bandgap.research.stochastic_gradient.schedules import Constant, Schedule


@dataclass(frozen=True)
class RunConfig(Settings):
    """Length of a run.

    Parameters
    ----------
    warmup, draws
        Iterations of warm-up and after it.
    thin
        Every `thin`-th iteration after warm-up gives a draw.
    batch_size
        Rows of a batch, fixed rows included; None for all rows.
    schedule
        Factor of the step along the run.
    record_every
        Every how many iterations `Extras.record` is evaluated.
    longest_move
        A chain whose drift is longer than this has diverged.
    """

    warmup: WholeNumber = 1000
    draws: Count = 1000
    thin: Count = 10
    batch_size: int | None = None
    schedule: Schedule = field(default_factory=Constant)
    record_every: Count = 1
    longest_move: Positive = 1e3

    def keeps(self, iteration: int, every: int) -> bool:
        """Return whether results of an iteration (from 0) are stored.

        These are every `every`-th iteration after warm-up, where the schedule collects draws.
        """
        after = iteration - self.warmup
        return after >= 0 and (after + 1) % every == 0 and self.schedule.collects(iteration)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of a run.

    `position` (chain, draw, dim) and the steps (draw,) by which they were made; `recorded` (chain,
    draw, q) and its steps, or None.
    """

    position: Tensor
    steps: Tensor
    recorded: Tensor | None
    recorded_steps: Tensor | None


@dataclass(frozen=True)
class Info:
    """Figures of a run.

    `chains` are the numbers of the chains that did not diverge, in the order of the draws.
    """

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
    """Optional parts of a run.

    Parameters
    ----------
    record
        Maps positions (chain, dim) to quantities (chain, q) to store.
    control
        Control variate of the gradients.
    pruning
        Pruning of the positions during the run.
    mask
        (chain, dim), 1 for entries that may move and 0 for entries that stay as they start.
    variance
        (dim,), the variance of a batch's gradient, for a sampler that compensates it.
    fixed_rows
        (k,), numbers of the rows that belong to every batch.
    possible
        Maps positions (chain, dim) to whether they are possible, (chain,). A chain elsewhere has
        diverged.
    """

    record: Callable[[Tensor], Tensor] | None = None
    control: ControlVariate | None = None
    pruning: Pruning | None = None
    mask: Tensor | None = None
    variance: Tensor | None = None
    fixed_rows: Tensor | None = None
    possible: Callable[[Tensor], Tensor] | None = None
