"""The sampling loop: warm-up, draws, figures of a run, typed warnings, and checkpoint files.

The random numbers of iteration k depend on the seed and k alone; rows and normal numbers come from
separate streams. A run therefore resumes from a state and its iteration number with bit-identical
draws. Chains are never clipped. A chain diverges if its state is not finite, if its drift is longer
than `longest_move`, or if its position is not `possible`. It then ends with a warning and gives no
draws.
"""

import math
import time
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.gradients import (
    RowTarget,
    Slopes,
    batch_gradient,
    draw_rows,
    free_rows,
)
from bandgap.research.stochastic_gradient.outcomes import Draws, Extras, Info, RunConfig
from bandgap.research.stochastic_gradient.protocol import (
    SamplerWarning,
    StepFigures,
    arrays_of,
    select_chains,
    with_arrays,
)
from bandgap.research.stochastic_gradient.pruning import pruned
from bandgap.research.stochastic_gradient.samplers import AnyConfig, algorithm_of

MOST_DAMPED = 0.9  # share of pairs above which the signs or the step are likely to be wrong
REPORT_EVERY_S = 0.2

NO_EXTRAS = Extras()
_CONSTANT_EXTRAS = ("control", "mask", "variance", "fixed_rows")


def sample(
    target: RowTarget,
    sampler: AnyConfig,
    start: Tensor,
    *,
    config: RunConfig,
    seed: int,
    extras: Extras = NO_EXTRAS,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Draws, Info]:
    """Run chains from positions `start`.

    Parameters
    ----------
    target
        The log posterior.
    sampler
        Settings of the sampler.
    start
        Positions (chain, dim), or (chain, walker, dim) for samplers with several walkers per chain.
    config
        Length of the run.
    seed
        Seed of all random numbers.
    extras
        Quantities to record, a control variate, pruning and others.
    progress
        Called with the progress; may raise Cancelled.
    checkpoint
        File from which the run resumes if it exists, with bit-identical draws; or None.

    Raises
    ------
    DivergedError
        All chains have diverged.
    ArtifactError
        The checkpoint is a file of another run.
    """
    run = _Run(target, sampler, start, config=config, seed=seed, extras=extras)
    if checkpoint is not None:
        run.resume(checkpoint)
    return run.finish(progress, checkpoint)


class _Run:
    """A run between two iterations: all that the next one needs, and the results so far."""

    def __init__(
        self,
        target: RowTarget,
        sampler: AnyConfig,
        start: Tensor,
        *,
        config: RunConfig,
        seed: int,
        extras: Extras,
    ) -> None:
        if start.ndim != (3 if sampler.walkers > 1 else 2) or (
            start.ndim == 3 and start.shape[1] != sampler.walkers
        ):
            raise ConfigError(
                f"start of shape {tuple(start.shape)} for {sampler.walkers} walkers a chain. "
                "Accepted: (chain, dim), or (chain, walker, dim) with all walkers of a chain."
            )
        self._target = target
        self._sampler = sampler
        self._config = config
        self._seed = seed
        self._extras = extras
        self._start = start
        self._free_rows = free_rows(extras.fixed_rows, target.n_rows)
        self._algorithm = algorithm_of(sampler)
        self._state: Any = self._algorithm.init(sampler, start)
        self._chains = torch.arange(start.shape[0])
        self._done = 0
        self._seconds = 0.0
        self._positions: list[Tensor] = []
        self._recorded: list[Tensor] = []
        self._figures = {"norm": 0.0, "low": math.inf, "high": 0.0, "damped": 0.0}
        self._ended: list[tuple[int, int]] = []  # chain, iteration

    def finish(self, progress: Progress, checkpoint: Checkpoint | None) -> tuple[Draws, Info]:
        """Run the remaining iterations."""
        total = self._config.warmup + self._config.draws
        started = time.perf_counter()
        reported = -math.inf
        self._refuse_no_chains()
        try:
            while self._done < total:
                self._iterate()
                now = time.perf_counter()
                if checkpoint is not None and self._done % checkpoint.every == 0:
                    self._write(checkpoint, self._seconds + now - started)
                if now - reported > REPORT_EVERY_S or self._done == total:
                    reported = now
                    phase = "warm-up" if self._done <= self._config.warmup else "sampling"
                    progress(Update(phase, self._done, total))
        except BaseException:
            if checkpoint is not None:
                self._write(checkpoint, self._seconds + time.perf_counter() - started)
            raise
        self._seconds += time.perf_counter() - started
        if checkpoint is not None:
            self._write(checkpoint, self._seconds)
        return self._draws(), self._info()

    def _iterate(self) -> None:
        k = self._done
        config = self._config
        dim = self._start.shape[-1]
        normal_seed, row_seed = np.random.SeedSequence([self._seed, k]).generate_state(2, np.uint64)
        generator = torch.Generator().manual_seed(int(normal_seed) % 2**63)
        rows = self._rows(np.random.default_rng(int(row_seed)))[self._chains].to(self._start.device)

        def normals() -> Tensor:
            numbers = torch.randn(
                self._start.shape[0], dim, generator=generator, dtype=self._start.dtype
            )
            return self._moving(numbers[self._chains].to(self._start.device))

        h = self._sampler.step * config.schedule.factor(k)
        adapt = k < config.warmup
        extras = self._extras
        batch = batch_gradient(
            self._target,
            rows,
            extras.control,
            fixed_rows=extras.fixed_rows,
            variance=extras.variance,
        )

        def gradient(position: Tensor) -> Slopes:
            slopes = batch(position)
            if extras.mask is None:
                return slopes
            total = self._moving(slopes.total)
            return Slopes(total, self._moving(slopes.row_mean), slopes.variance)

        state, figures = self._algorithm.step(
            self._sampler, self._state, gradient, normals, h=h, adapt=adapt
        )
        self._done += 1
        self._state = self._without_diverged(state, figures, k)
        if self._extras.pruning is not None:
            self._state = pruned(self._state, self._extras.pruning, iteration=k)
        position = self._algorithm.position(self._state)
        if config.keeps(k, config.thin):
            self._positions.append(self._spread(position))
        if self._extras.record is not None and config.keeps(k, config.record_every):
            self._recorded.append(self._spread(self._extras.record(position)))

    def _rows(self, rng: np.random.Generator) -> Tensor:
        """Draw the rows of an iteration without the fixed rows, (chain, n)."""
        size = self._config.batch_size
        chains = self._start.shape[0]
        n_rows = self._target.n_rows
        free = self._free_rows
        if free is None:
            return draw_rows(n_rows, size, chains, rng=rng)
        n_drawn = len(free) if size is None else size - (n_rows - len(free))
        return free[draw_rows(len(free), n_drawn, chains, rng=rng)]

    def _moving(self, values: Tensor) -> Tensor:
        """Return values (chain, dim) of running chains, set to 0 for masked entries."""
        return values if self._extras.mask is None else values * self._extras.mask[self._chains]

    def _spread(self, values: Tensor) -> Tensor:
        """Return values (chain, ...) of running chains as (all chains, ...), 0 for ended chains."""
        if len(self._chains) == self._start.shape[0]:
            return values.clone()
        full = values.new_zeros(self._start.shape[0], *values.shape[1:])
        full[self._chains] = values
        return full

    def _without_diverged(self, state: Any, step: StepFigures, iteration: int) -> Any:
        """Update the figures and return the state without chains that have diverged."""
        position = self._algorithm.position(state)
        short = step.move <= self._config.longest_move  # False for a move that is NaN
        sound = position.isfinite().all(-1) & short
        if self._extras.possible is not None:
            sound = sound & self._extras.possible(position).to(sound.device)
        running = sound.cpu()
        figures = self._figures
        if bool(running.any()):
            stretch = step.stretch.cpu()[running]
            figures["low"] = min(figures["low"], float(stretch.min()))
            figures["high"] = max(figures["high"], float(stretch.max()))
            if iteration >= self._config.warmup:
                norms = step.gradient_norm.cpu()[running]
                figures["norm"] += float(norms.mean()) / self._config.draws
            if step.damped is not None:
                figures["damped"] = max(figures["damped"], step.damped)
        if bool(running.all()):
            return state
        self._ended += [(int(chain), iteration) for chain in self._chains[~running]]
        self._chains = self._chains[running]
        self._refuse_no_chains()
        return select_chains(state, running.to(self._start.device))

    def _refuse_no_chains(self) -> None:
        if not len(self._chains):
            raise DivergedError(
                f"{type(self._sampler).__name__}: all {self._start.shape[0]} chains diverged by "
                f"iteration {self._ended[-1][1] + 1}. The step {self._sampler.step} is too long; "
                "try a tenth of it."
            )

    def _draws(self) -> Draws:
        position, position_steps = self._stored(self._positions, self._config.thin)
        recorded = None
        recorded_steps = None
        if self._extras.record is not None:
            recorded, recorded_steps = self._stored(self._recorded, self._config.record_every)
        return Draws(position, position_steps, recorded, recorded_steps)

    def _stored(self, values: list[Tensor], every: int) -> tuple[Tensor, Tensor]:
        """Return values (chain, draw, ...) of the running chains, and their steps (draw,)."""
        config = self._config
        if not values:
            raise ConfigError(
                f"run: none of {config.draws} iterations gives a draw, of which every {every}-th "
                "would. Set more draws, or a lower thin."
            )
        steps = [
            self._sampler.step * config.schedule.factor(k)
            for k in range(config.warmup + config.draws)
            if config.keeps(k, every)
        ]
        return torch.stack(values, 1)[self._chains], torch.tensor(steps, dtype=torch.float64)

    def _info(self) -> Info:
        figures = self._figures
        warnings = list(self._sampler.warnings())
        if self._ended:
            chains = ", ".join(f"{chain + 1} in iteration {k + 1}" for chain, k in self._ended[:5])
            warnings.append(
                SamplerWarning(
                    "diverged",
                    f"{len(self._ended)} of {self._start.shape[0]} chains diverged and were left "
                    f"out: {chains}. Shorten the step.",
                )
            )
        if figures["damped"] > MOST_DAMPED:
            warnings.append(
                SamplerWarning(
                    "damped pairs",
                    f"{figures['damped']:.0%} of the pairs had to be damped: curvature along them "
                    "is not positive. The gradient may have the wrong sign, the batches may be "
                    "too small, or the step too long.",
                )
            )
        return Info(
            seconds=self._seconds,
            iterations=self._done,
            chains=tuple(self._chains.tolist()),
            gradient_norm=figures["norm"],
            stretch=(figures["low"], figures["high"]),
            damped_share=figures["damped"],
            zero_share=float((self._algorithm.position(self._state) == 0).double().mean()),
            divergences=len(self._ended),
            warnings=tuple(warnings),
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "sampler": repr(self._sampler),
            "run": repr(self._config),
            "pruning": repr(self._extras.pruning),
            "seed": self._seed,
            "problem": self._problem,
        }

    @cached_property
    def _problem(self) -> str:
        """Digest of the rows and of all other constants of a run, computed once."""
        extras = (getattr(self._extras, name) for name in _CONSTANT_EXTRAS)
        return checkpoints.content_of(self._target, self._start, *extras)

    def _write(self, checkpoint: Checkpoint, seconds: float) -> None:
        arrays = {f"state.{name}": value for name, value in arrays_of(self._state).items()}
        arrays["chains"] = self._chains
        arrays |= {f"position.{i}": value for i, value in enumerate(self._positions)}
        if self._recorded:
            arrays["recorded"] = torch.stack(self._recorded)
        figures = {name: value for name, value in self._figures.items() if math.isfinite(value)}
        facts = {"done": self._done, "seconds": seconds, "figures": figures, "ended": self._ended}
        checkpoints.write(checkpoint.path, arrays, self._facts() | facts)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Read the state from a checkpoint if it exists; ArtifactError if it is of another run."""
        if not checkpoint.path.exists():
            return
        arrays, facts = checkpoints.read(
            checkpoint.path, expected=self._facts(), device=self._start.device
        )
        self._state = with_arrays(self._state, checkpoints.under("state.", arrays))
        self._chains = arrays["chains"].cpu()
        positions = checkpoints.under("position.", arrays)
        self._positions = [positions[str(i)] for i in range(len(positions))]
        self._recorded = list(arrays["recorded"]) if "recorded" in arrays else []
        self._done = facts["done"]
        self._seconds = facts["seconds"]
        self._figures |= facts["figures"]
        self._ended = [(chain, iteration) for chain, iteration in facts["ended"]]
