"""Start of the mini-batch sampler's chains: settings, step, search of modes, settling, frames."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Interval
from torch import Tensor

from bandgap.foundation.config import AtLeastTwo, Count, Positive, Settings
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import ATTEMPTS, DivergedError, first_that_stays
from bandgap.inference.network.pcp_scales import PointEstimateScales
from bandgap.inference.network.whitened_network import WhitenedNetwork
from bandgap.research.stochastic_gradient.gradients import batch_gradient
from bandgap.research.stochastic_gradient.halving import LEAST_CHAINS
from bandgap.research.stochastic_gradient.mode_search import climb
from bandgap.research.stochastic_gradient.network_frames import LayerFrame
from bandgap.research.stochastic_gradient.network_target import NetworkTarget, network_target
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.psgld import PsgldConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import CONFIGS, AnyConfig
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.step_size import (
    batch_noise,
    largest_curvature,
)

FRAME_ROWS = 2048  # for frames, batch noise and the largest curvature
FEW_ROWS = 256  # up to these, frames are computed at earlier positions of the chains
EARLIER_POSITIONS = 16  # of each chain, for frames
LARGEST_STABLE_SHARE = 0.25  # of the largest stable step
# Rows of largest curvature that every batch contains, and their largest share of a batch.
N_FIXED_ROWS = 64
LARGEST_FIXED_SHARE = 0.125
FRICTION = 0.05
MOMENTUM = 4.0  # divisor of steps where momentum is added to the drift
START_SCALE = 0.5  # of a layer, in units of the noise
SCALE_UNIT = 0.3  # in which the search moves the logarithm of the noise
LARGEST_LOG_NOISE = 1.0  # log of the noise over the labels' sd; beyond it a chain has diverged
# Shares of the step in the parts of the settling; frames are recomputed after each part.
SETTLING = (0.125, 0.5, 1.0, 1.0)

Name = Literal["sghmc", "psgld", "hamcmc_sa", "hamcmc", "sgld", "msgld", "asgld"]


@dataclass(frozen=True)
class SgSampler(Settings):
    """Settings of the mini-batch sampler.

    Attributes
    ----------
    name
        Sampler.
    chains
        Number of chains.
    warmup, draws
        Iterations of each chain before and after warm-up.
    keep
        Number of stored draws of all chains.
    batch_size
        Rows in a batch.
    search
        Steps of the search for a start. Afterwards chains settle for half of `warmup`.
    learning_rate
        Learning rate of the search.
    widening
        Share by which batch noise would widen the posterior's variance along a direction of usual
        curvature if SGHMC did not compensate for most of it. The step follows from it.
    step
        Step, in units of the posterior's rough width, instead of the one from `widening`. Where all
        chains diverge they restart with half of it, up to three times, with a warning.
    control
        Whether to use a control variate at the start (twice the gradients).
    halve
        Whether to run again with half the step and report whether predictions change (three times
        the time, at least four chains).
    """

    name: Name = "sghmc"
    chains: AtLeastTwo = 4
    warmup: Annotated[int, Ge(10)] = 4000
    draws: Annotated[int, Ge(10)] = 8000
    keep: Annotated[int, Interval(ge=1, le=400)] = 100
    batch_size: Count = 512
    search: Annotated[int, Ge(10)] = 1000
    learning_rate: Positive = 0.03
    widening: Positive = 0.1
    step: Positive | None = None
    control: bool = False
    halve: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep < self.chains:
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.keep} draws kept. Accepted: at least one "
                "kept draw for every chain."
            )
        if self.halve and self.chains < LEAST_CHAINS:
            raise ConfigError(
                f"sampler: halve with {self.chains} chains. Accepted: at least {LEAST_CHAINS} "
                "chains, whose means have standard errors."
            )


def sampler_for(
    sampler: SgSampler, *, curvature: float, noise: float, slope: float = 1.0
) -> AnyConfig:
    """Return the sampler's settings with the step that `widening` gives at this batch noise.

    Batch noise of covariance c l along a direction of curvature l adds h c l / 2 to the variance's
    ratio (`step_size`). In the frames l is about 1 and at most `curvature`; c is `noise`. h is eta
    / friction for SGHMC, whose stability bound is on eta. `slope` is the usual size of a batch's
    mean gradient per row, at which the growth of pSGLD's metric is bounded.
    """
    h = 2.0 * sampler.widening / max(noise, 1e-12)
    largest_step = LARGEST_STABLE_SHARE * 2.0 / curvature
    if sampler.name == "sghmc":
        return SghmcConfig(sampler.step or min(FRICTION * h, largest_step), friction=FRICTION)
    divisor = MOMENTUM if sampler.name in ("msgld", "asgld") else 1.0
    h = sampler.step or min(h, largest_step) / divisor
    if sampler.name == "psgld":
        return PsgldConfig(h * slope, damping=slope)
    return CONFIGS[sampler.name](h)


@dataclass(frozen=True, eq=False)
class ChainStart:
    """Where chains start.

    Attributes
    ----------
    target
        The density in its frames.
    start
        Positions (chain and walker, dim).
    curvature
        Largest curvature there.
    variance
        Variance of a batch's gradient there.
    always
        Rows (k,) that bend the density most along their own gradients. Every batch contains them,
        since batches that rarely contain them do not bound the chains (`gradients`).
    """

    target: NetworkTarget
    start: Tensor
    curvature: float
    variance: Tensor
    always: Tensor

    def noise(self, batch: int) -> float:
        """Return the noise of a batch's random rows, in units of the Hessian."""
        return batch_noise(self.target.n_rows - len(self.always), batch - len(self.always))

    def extras(self, **more: Any) -> Extras:
        """Return the extras of a run from here, and `more`.

        They are the batch variance, the rows of every batch, and the largest possible noise.
        """
        target = self.target
        largest = float(torch.log(target.net.y.std())) + LARGEST_LOG_NOISE

        def possible(position: Tensor) -> Tensor:
            return target.prior.log_sigma(target.state(position)) < largest

        return Extras(
            **({"variance": self.variance} | more), fixed_rows=self.always, possible=possible
        )


def find_start(
    net: WhitenedNetwork,
    prior: PointEstimateScales,
    sampler: SgSampler,
    *,
    batch: int,
    turn: bool,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> ChainStart:
    """Search a mode for every chain, let the chains settle, and compute frames repeatedly.

    Layer scales are fixed in the search and in half of the settling: at a mode most z are far
    smaller than in the posterior, so that free scales would diverge. Up to `FEW_ROWS` rows, frames
    are computed at earlier positions of the settling chains, since most of the curvature there is
    not visible at the present positions. With more rows it is, and frames are computed at the
    present positions.
    """
    part = None if checkpoint is None else checkpoint.of_part(0)
    facts = {
        "sampler": repr(sampler),
        "seed": seed,
        "turn": turn,
        "problem": checkpoints.content_of(net, prior),
    }
    if part is not None and part.path.exists():
        return _read(net, prior, part, facts)
    generator = torch.Generator().manual_seed(seed)
    count = sampler.chains * CONFIGS[sampler.name](1.0).walkers
    rows = torch.randperm(net.n_rows, generator=generator)[:FRAME_ROWS].to(net.inputs.device)
    target = network_target(net, prior)
    state = prior.start(count, log_sd=float(torch.log(net.y.std())), generator=generator).to(
        net.inputs.device
    )
    state[:, 1:] = 2.0 * math.log(START_SCALE)
    zeros = [net.inputs.new_zeros(count, *shape) for shape in target.shapes]
    position = target.position(zeros, state)
    target, _ = target.reframed(position[:1], rows, turn=turn)
    target = replace(target, units=torch.full_like(target.units, SCALE_UNIT))
    mask = torch.ones_like(position[0])
    mask[target.spans[-1][1] + 1 :] = 0.0  # all scales except the noise
    position = climb(
        target,
        target.position(zeros, state),
        steps=sampler.search,
        learning_rate=sampler.learning_rate,
        batch_size=batch,
        seed=seed,
        mask=mask,
        progress=progress,
    )
    target, position = target.reframed(position, rows, turn=turn)
    noise = torch.randn(position.shape, generator=generator, dtype=position.dtype).to(position)
    position = position + noise * target.free_share
    earlier: Tensor | None = None
    for number, share in enumerate(SETTLING):
        target, position = target.reframed(position, rows, frame_positions=earlier, turn=turn)
        start = _start_at(target, position, rows, batch, generator)
        position, earlier = _settle(
            start,
            sampler,
            batch,
            share=share,
            mask=mask if 2 * number < len(SETTLING) else None,
            number=number,
            seed=seed,
            progress=progress,
        )
    target, position = target.reframed(position, rows, frame_positions=earlier, turn=turn)
    start = _start_at(target, position, rows, batch, generator)
    if part is not None:
        _write(start, part, facts)
    return start


def _start_at(
    target: NetworkTarget, position: Tensor, rows: Tensor, batch: int, generator: torch.Generator
) -> ChainStart:
    def gradient(at: Tensor) -> Tensor:
        return batch_gradient(target, rows.expand(at.shape[0], -1))(at).total

    curvatures = largest_curvature(gradient, position, generator=generator, rounds=8).abs()
    if not bool(curvatures.isfinite().any()):
        raise DivergedError(
            "sampler: no chain has a finite gradient where it starts. Take a longer search."
        )
    curvature = max(1.0, float(curvatures[curvatures.isfinite()].max()))
    always = rows_of_largest_curvature(target, position, batch)
    variance = target.batch_variance(
        position,
        rows[~torch.isin(rows, always)],
        n_rows=target.n_rows - len(always),
        n_drawn=batch - len(always),
    )
    return ChainStart(target, position, curvature, variance, always)


def rows_of_largest_curvature(target: NetworkTarget, position: Tensor, batch: int) -> Tensor:
    """Return the rows that every batch of this size should contain.

    They have the largest curvature at the positions (chain, dim).
    """
    count = 0 if batch >= target.n_rows else min(N_FIXED_ROWS, int(LARGEST_FIXED_SHARE * batch))
    return target.row_curvature(position).amax(0).topk(count).indices.sort().values


def _settle(
    chain_start: ChainStart,
    sampler: SgSampler,
    batch: int,
    *,
    share: float,
    mask: Tensor | None,
    number: int,
    seed: int,
    progress: Progress,
) -> tuple[Tensor, Tensor | None]:
    """Run SGHMC with a share of its step; return present and earlier positions of the chains.

    Earlier positions (m, dim) are those of all chains in the second half of the run, without the
    last. They are None above `FEW_ROWS` rows. Where a chain diverges, all chains restart with half
    the step.
    """
    config = sampler_for(
        replace(sampler, name="sghmc", step=None),
        curvature=chain_start.curvature,
        noise=chain_start.noise(batch),
    )
    length = max(1, sampler.warmup // (2 * len(SETTLING)))
    chains = chain_start.start.shape[0]
    has_few_rows = chain_start.target.n_rows <= FEW_ROWS
    n_positions = min(EARLIER_POSITIONS, FRAME_ROWS // chain_start.target.n_rows)
    thin = max(1, length // (2 * n_positions)) if has_few_rows else length

    def settling(update: Update) -> None:
        progress(Update("settling", number * length + update.done, len(SETTLING) * length))

    def attempt(halvings: int) -> Tensor:
        draws, info = sample(
            chain_start.target,
            replace(config, step=share * config.step / 2**halvings),
            chain_start.start,
            config=RunConfig(0, length, thin, batch, longest_move=1e4),
            seed=seed + number,
            extras=chain_start.extras(
                mask=None if mask is None else mask.expand_as(chain_start.start)
            ),
            progress=settling,
        )
        if len(info.chains) < chains:
            raise DivergedError("some chains")
        return draws.position

    positions = first_that_stays(attempt)
    if positions is None:
        raise DivergedError(
            f"sampler: chains diverged while they settled, {ATTEMPTS} times, each with half the "
            "step of the one before. Take a longer search."
        )
    earlier = positions[:, positions.shape[1] // 2 : -1].flatten(0, 1)
    return positions[:, -1], earlier if len(earlier) else None


def _write(start: ChainStart, part: Checkpoint, facts: dict[str, object]) -> None:
    arrays = {
        "start": start.start,
        "units": start.target.units,
        "variance": start.variance,
        "always": start.always,
    }
    for number, frame in enumerate(start.target.frames):
        arrays[f"frame.{number}.information"] = frame.information
        for name, side in (("left", frame.left_vectors), ("right", frame.right_vectors)):
            arrays |= {} if side is None else {f"frame.{number}.{name}": side}
    scales = [frame.log_scale for frame in start.target.frames]
    checkpoints.write(
        part.path, arrays, facts | {"curvature": start.curvature, "log_scales": scales}
    )


def _read(
    net: WhitenedNetwork, prior: PointEstimateScales, part: Checkpoint, facts: dict[str, object]
) -> ChainStart:
    arrays, stored = checkpoints.read(part.path, expected=facts, device=net.inputs.device)
    frames = []
    for number, log_scale in enumerate(stored["log_scales"]):
        frame = checkpoints.under(f"frame.{number}.", arrays)
        frames.append(
            LayerFrame(frame.get("left"), frame.get("right"), frame["information"], log_scale)
        )
    target = replace(network_target(net, prior), frames=tuple(frames), units=arrays["units"])
    return ChainStart(
        target, arrays["start"], float(stored["curvature"]), arrays["variance"], arrays["always"]
    )
