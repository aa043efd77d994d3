"""Where chains of a network's mini-batch sampler start: settings, step, search of a mode, settling, frames, a file."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import ATTEMPTS, DivergedError, first_that_stays
from bandgap.inference.network.pcp_scales import PointEstimateScales
from bandgap.inference.network.whitened_network import WhitenedNetwork
from bandgap.inference.stochastic_gradient.gradients import batch_gradient
from bandgap.inference.stochastic_gradient.halving import LEAST_CHAINS
from bandgap.inference.stochastic_gradient.mode_search import climb
from bandgap.inference.stochastic_gradient.network_frames import LayerFrame
from bandgap.inference.stochastic_gradient.network_target import NetworkTarget, network_target
from bandgap.inference.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.inference.stochastic_gradient.psgld import PsgldConfig
from bandgap.inference.stochastic_gradient.run import sample
from bandgap.inference.stochastic_gradient.samplers import CONFIGS, AnyConfig
from bandgap.inference.stochastic_gradient.sghmc import SghmcConfig
from bandgap.inference.stochastic_gradient.step_size import (
    batch_noise,
    largest_curvature,
)

FRAME_ROWS = 2048  # from which frames, batch noise and the largest curvature are found
FEW_ROWS = (
    256  # up to which frames are found where chains have been, at about so many positions of each:
)
PLACES = 16
MOST_STABLE = 0.25  # of the largest stable step
ALWAYS = (
    64  # rows that every batch holds, as they bend the density most; at most this part of a batch:
)
MOST_ALWAYS = 0.125
FRICTION = 0.05
MOMENTUM = 4.0  # by which steps are shorter where momentum is added to the drift
START_SCALE = 0.5  # of a layer, in units of the noise
SCALE_UNIT = 0.3  # in which the search moves the logarithm of the noise
MOST_NOISE = (
    1.0  # log of the noise over the labels' standard deviation: beyond it a chain has run away
)
SETTLING = (
    0.125,
    0.5,
    1.0,
    1.0,
)  # of the step, in parts of the warm-up after each of which frames are found anew

Name = Literal["sghmc", "psgld", "hamcmc_sa", "hamcmc", "sgld", "msgld", "asgld"]


@dataclass(frozen=True)
class SgSampler:
    """Which sampler (`name`), chains, iterations of warm-up and after it, kept draws of all chains, rows of a batch.

    `search` are steps of the search for a start; as long again as half of `warmup` chains settle
    about it. The step follows from `widening`, the share by which batch noise would widen the
    posterior's variance along a direction of usual curvature if SGHMC did not make up for most of
    it; `step` sets it by hand, in units of the posterior's rough width; where all chains diverge
    they begin anew with half of it, up to three times, and a warning says so. `control` takes a
    control variate at the start (twice the gradients). `halve` runs again with half the step and
    says whether predictions change (three times the time, at least four chains).
    """

    name: Name = "sghmc"
    chains: int = 4
    warmup: int = 4000
    draws: int = 8000
    keep: int = 100
    batch_size: int = 512
    search: int = 1000
    learning_rate: float = 0.03
    widening: float = 0.1
    step: float | None = None
    control: bool = False
    halve: bool = False

    def __post_init__(self) -> None:
        if (
            self.chains < 2
            or min(self.warmup, self.draws, self.search) < 10
            or not self.chains <= self.keep <= 400
        ):
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.warmup} warm-up iterations, {self.draws} draws, {self.keep} "
                f"kept, {self.search} steps of the search. Accepted: at least 2 chains, 10 iterations each, and from "
                "one kept draw for every chain to 400."
            )
        if self.halve and self.chains < LEAST_CHAINS:
            raise ConfigError(
                f"sampler: halve with {self.chains} chains. Accepted: at least {LEAST_CHAINS} chains, whose means have "
                "standard errors."
            )
        if (
            self.batch_size < 1
            or not (self.widening > 0 and self.learning_rate > 0)
            or (self.step or 1.0) <= 0
        ):
            raise ConfigError(
                f"sampler: batch_size {self.batch_size}, widening {self.widening}, learning_rate {self.learning_rate}, "
                f"step {self.step}. Accepted: a whole number from 1, numbers above 0."
            )


def sampler_for(
    sampler: SgSampler, *, curvature: float, noise: float, slope: float = 1.0
) -> AnyConfig:
    """Return the sampler's settings with the step that its widening asks for, at this batch noise c.

    `slope` is the usual size of a batch's mean gradient of a row, at which pSGLD's metric is kept
    from growing.

    Batch noise of covariance c l along a direction of curvature l adds h c l / 2 to the variance's
    ratio (`step_size`); in the frames l is about 1, `curvature` at most. h is eta / friction for
    SGHMC, whose stability bound is on eta.
    """
    kind, noise = CONFIGS[sampler.name], max(noise, 1e-12)
    h, stable = 2.0 * sampler.widening / noise, MOST_STABLE * 2.0 / curvature
    if sampler.name == "sghmc":
        return SghmcConfig(sampler.step or min(FRICTION * h, stable), friction=FRICTION)
    added = MOMENTUM if sampler.name in ("msgld", "asgld") else 1.0
    h = sampler.step or min(h, stable) / added
    return PsgldConfig(h * slope, damping=slope) if sampler.name == "psgld" else kind(h)


@dataclass(frozen=True, eq=False)
class Started:
    """A target in its frames, positions (chain and walker, dim) to start from, curvature and batch variance there.

    `always` (k,) are the rows that bend the density most along their own gradients: every batch
    holds them, as they would not be held themselves by batches that hardly ever have them
    (`gradients`).
    """

    target: NetworkTarget
    start: Tensor
    curvature: float
    variance: Tensor
    always: Tensor

    def noise(self, batch: int) -> float:
        """Return the noise of batches of so many rows, in units of the Hessian: that of the rows that are drawn."""
        return batch_noise(self.target.n_rows - len(self.always), batch - len(self.always))

    def extras(self, **more: Any) -> Extras:
        """Return what a run from here has, and `more`: the batch variance, `always`, and the noise that can be."""
        target = self.target
        most = float(torch.log(target.net.y.std())) + MOST_NOISE

        def possible(position: Tensor) -> Tensor:
            return target.prior.log_sigma(target.state(position)) < most

        return Extras(
            **({"variance": self.variance} | more), fixed_rows=self.always, possible=possible
        )


def started(
    net: WhitenedNetwork,
    prior: PointEstimateScales,
    sampler: SgSampler,
    batch: int,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
    *,
    turn: bool,
) -> Started:
    """Search a mode for every chain, let the chains settle about it, and find frames there again and again.

    Layer scales are held in the search and in half of the settling: at a mode most z are far
    smaller than they are in the posterior, so that scales that followed them would run away. Up to
    `FEW_ROWS` frames are found where chains have been in the settling before: most of what bends
    the density there is not seen from where they are. (With 500 molecules of QM9 it is: R-hat of
    predictions was 1.06 in frames found where chains are, 1.12 in the others.)
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
    position = target.position(
        [net.inputs.new_zeros(count, *shape) for shape in target.shapes], state
    )
    target, _ = target.reframed(position[:1], rows, turn=turn)
    target = replace(target, units=torch.full_like(target.units, SCALE_UNIT))
    mask = torch.ones_like(position[0])
    mask[target.spans[-1][1] + 1 :] = 0.0  # all scales but the noise
    position = climb(
        target, target.position([net.inputs.new_zeros(count, *shape) for shape in target.shapes], state),
        steps=sampler.search, learning_rate=sampler.learning_rate, batch_size=batch, seed=seed, mask=mask,
        progress=progress,
    )  # fmt: skip
    target, position = target.reframed(position, rows, turn=turn)
    noise = torch.randn(position.shape, generator=generator, dtype=position.dtype).to(position)
    position = position + noise * target.free_share
    been: Tensor | None = None
    for number, share in enumerate(SETTLING):
        target, position = target.reframed(position, rows, frame_positions=been, turn=turn)
        begun = _judged(target, position, rows, batch, generator)
        position, been = _settled(
            begun, sampler, batch, share=share, mask=mask if 2 * number < len(SETTLING) else None, number=number,
            seed=seed,
            progress=progress,
        )  # fmt: skip
    target, position = target.reframed(position, rows, frame_positions=been, turn=turn)
    begun = _judged(target, position, rows, batch, generator)
    if part is not None:
        _write(begun, part, facts)
    return begun


def _judged(
    target: NetworkTarget, position: Tensor, rows: Tensor, batch: int, generator: torch.Generator
) -> Started:
    def gradient(at: Tensor) -> Tensor:
        return batch_gradient(target, rows.expand(at.shape[0], -1))(at).total

    found = largest_curvature(gradient, position, generator=generator, rounds=8).abs()
    if not bool(found.isfinite().any()):
        raise DivergedError(
            "sampler: no chain has a finite gradient where it starts. Take a longer search."
        )
    curvature = max(1.0, float(found[found.isfinite()].max()))
    always = most_bent(target, position, batch)
    of, drawn = target.n_rows - len(always), batch - len(always)
    variance = target.batch_variance(
        position, rows[~torch.isin(rows, always)], n_rows=of, n_drawn=drawn
    )
    return Started(target, position, curvature, variance, always)


def most_bent(target: NetworkTarget, position: Tensor, batch: int) -> Tensor:
    """Return the rows that every batch of so many should hold, by their largest curvature at positions (chain, dim)."""
    count = 0 if batch >= target.n_rows else min(ALWAYS, int(MOST_ALWAYS * batch))
    return target.row_curvature(position).amax(0).topk(count).indices.sort().values


def _settled(
    begun: Started,
    sampler: SgSampler,
    batch: int,
    *,
    share: float,
    mask: Tensor | None,
    number: int,
    seed: int,
    progress: Progress,
) -> tuple[Tensor, Tensor | None]:
    """Run SGHMC with this share of its step for a part of the warm-up's length; return where chains are and have been.

    Where they have been, (m, dim) of all chains in the run's second half but for where they are, is
    None where there are more rows than `FEW_ROWS`. Where a chain diverges all begin anew with half
    the step.
    """
    config = sampler_for(
        replace(sampler, name="sghmc", step=None),
        curvature=begun.curvature,
        noise=begun.noise(batch),
    )
    length, chains = max(1, sampler.warmup // (2 * len(SETTLING))), begun.start.shape[0]
    few = begun.target.n_rows <= FEW_ROWS
    places = min(PLACES, FRAME_ROWS // begun.target.n_rows)
    every = max(1, length // (2 * places)) if few else length

    def attempt(halvings: int) -> Tensor:
        draws, info = sample(
            begun.target, replace(config, step=share * config.step / 2**halvings), begun.start,
            config=RunConfig(0, length, every, batch, longest_move=1e4), seed=seed + number,
            extras=begun.extras(mask=None if mask is None else mask.expand_as(begun.start)),
            progress=lambda update: progress(Update("settling", number * length + update.done, len(SETTLING) * length)),
        )  # fmt: skip
        if len(info.chains) < chains:
            raise DivergedError("some chains")
        return draws.position

    found = first_that_stays(attempt)
    if found is None:
        raise DivergedError(
            f"sampler: chains diverged while they settled, {ATTEMPTS} times, each with half the step of the one "
            "before. Take a longer search."
        )
    been = found[:, found.shape[1] // 2 : -1].flatten(0, 1)
    return found[:, -1], been if len(been) else None


def _write(begun: Started, part: Checkpoint, facts: dict[str, object]) -> None:
    arrays = {
        "start": begun.start,
        "units": begun.target.units,
        "variance": begun.variance,
        "always": begun.always,
    }
    for number, frame in enumerate(begun.target.frames):
        arrays[f"frame.{number}.information"] = frame.information
        for name, side in (("left", frame.left_vectors), ("right", frame.right_vectors)):
            arrays |= {} if side is None else {f"frame.{number}.{name}": side}
    scales = [frame.log_scale for frame in begun.target.frames]
    checkpoints.write(
        part.path, arrays, facts | {"curvature": begun.curvature, "log_scales": scales}
    )


def _read(
    net: WhitenedNetwork, prior: PointEstimateScales, part: Checkpoint, facts: dict[str, object]
) -> Started:
    arrays, found = checkpoints.read(part.path, expected=facts, device=net.inputs.device)
    frames = []
    for number, log_scale in enumerate(found["log_scales"]):
        of = checkpoints.under(f"frame.{number}.", arrays)
        frames.append(LayerFrame(of.get("left"), of.get("right"), of["information"], log_scale))
    target = replace(network_target(net, prior), frames=tuple(frames), units=arrays["units"])
    return Started(
        target, arrays["start"], float(found["curvature"]), arrays["variance"], arrays["always"]
    )
