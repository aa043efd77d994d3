"""Runs of any of the samplers: warm-up, draws, figures of the run, typed warnings, and files to go on from.

What is random in iteration k depends on the seed and k alone: rows and normal numbers come from streams of their own.
So a run goes on from a state and the number of its iteration, bit for bit. No chain is ever clipped: one whose state is
not finite, whose drift is longer than `longest_move`, or which is where no draw can be (`possible`), ends there, with a
warning, and leaves no draws.
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
from bandgap.inference.stochastic_gradient.gradients import (
    RowTarget,
    Slopes,
    batch_gradient,
    draw_rows,
    others_than,
)
from bandgap.inference.stochastic_gradient.outcomes import Draws, Extras, Info, RunConfig
from bandgap.inference.stochastic_gradient.protocol import (
    SamplerWarning,
    StepFigures,
    arrays_of,
    of_chains,
    with_arrays,
)
from bandgap.inference.stochastic_gradient.pruning import pruned
from bandgap.inference.stochastic_gradient.samplers import AnyConfig, algorithm_of

MOST_DAMPED = 0.9  # share of pairs, above which their signs or the step are wrong
REPORT_EVERY_S = 0.2

NONE = Extras()
_OF_THE_PROBLEM = ("control", "mask", "variance", "always")  # of the extras


def sample(
    target: RowTarget,
    sampler: AnyConfig,
    start: Tensor,
    *,
    config: RunConfig,
    seed: int,
    extras: Extras = NONE,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Draws, Info]:
    """Run chains from positions (chain, dim), or (chain, walker, dim) where a sampler has several walkers a chain.

    With `checkpoint` the run goes on from its file where there is one, to the same draws, bit for bit. Raises
    DivergedError where every chain has diverged, ArtifactError on a file of another run, Cancelled when `progress`
    does.
    """
    run = _Run(target, sampler, start, config=config, seed=seed, extras=extras)
    if checkpoint is not None:
        run.go_on_from(checkpoint)
    return run.to_the_end(progress, checkpoint)


class _Run:
    """A run between two iterations: all that the next one needs, and what is kept so far."""

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
                f"start of shape {tuple(start.shape)} for {sampler.walkers} walkers a chain. Accepted: (chain, dim), "
                "or (chain, walker, dim) with all walkers of a chain."
            )
        self._target, self._sampler, self._config, self._seed = target, sampler, config, seed
        self._extras, self._start = extras, start
        self._others = others_than(extras.always, target.n_rows)
        self._algorithm = algorithm_of(sampler)
        self._state: Any = self._algorithm.init(sampler, start)
        self._chains = torch.arange(start.shape[0])
        self._done, self._seconds = 0, 0.0
        self._positions: list[Tensor] = []
        self._recorded: list[Tensor] = []
        self._figures = {"norm": 0.0, "low": math.inf, "high": 0.0, "damped": 0.0}
        self._ended: list[tuple[int, int]] = []  # chain, iteration

    def to_the_end(self, progress: Progress, checkpoint: Checkpoint | None) -> tuple[Draws, Info]:
        """Run all iterations that are left."""
        total, began, reported = (
            self._config.warmup + self._config.draws,
            time.perf_counter(),
            -math.inf,
        )
        self._refuse_no_chains()
        try:
            while self._done < total:
                self._iterate()
                now = time.perf_counter()
                if checkpoint is not None and self._done % checkpoint.every == 0:
                    self._write(checkpoint, self._seconds + now - began)
                if now - reported > REPORT_EVERY_S or self._done == total:
                    reported = now
                    phase = "warm-up" if self._done <= self._config.warmup else "sampling"
                    progress(Update(phase, self._done, total))
        except BaseException:
            if checkpoint is not None:
                self._write(checkpoint, self._seconds + time.perf_counter() - began)
            raise
        self._seconds += time.perf_counter() - began
        if checkpoint is not None:
            self._write(checkpoint, self._seconds)
        return self._draws(), self._info()

    def _iterate(self) -> None:
        k, config, dim = self._done, self._config, self._start.shape[-1]
        normal_seed, row_seed = np.random.SeedSequence([self._seed, k]).generate_state(2, np.uint64)
        generator = torch.Generator().manual_seed(int(normal_seed) % 2**63)
        rows = self._rows(np.random.default_rng(int(row_seed)))[self._chains].to(self._start.device)

        def normals() -> Tensor:
            drawn = torch.randn(
                self._start.shape[0], dim, generator=generator, dtype=self._start.dtype
            )
            return self._moving(drawn[self._chains].to(self._start.device))

        h = self._sampler.step * config.schedule.factor(k)
        adapt = k < config.warmup
        extras = self._extras
        of_batch = batch_gradient(
            self._target, rows, extras.control, always=extras.always, variance=extras.variance
        )

        def gradient(position: Tensor) -> Slopes:
            found = of_batch(position)
            if self._extras.mask is None:
                return found
            return Slopes(self._moving(found.total), self._moving(found.of_a_row), found.variance)

        state, said = self._algorithm.step(
            self._sampler, self._state, gradient, normals, h=h, adapt=adapt
        )
        self._done += 1
        self._state = self._without_diverged(state, said, k)
        if self._extras.pruning is not None:
            self._state = pruned(self._state, self._extras.pruning, iteration=k)
        position = self._algorithm.position(self._state)
        if config.keeps(k, config.thin):
            self._positions.append(self._spread(position))
        if self._extras.record is not None and config.keeps(k, config.record_every):
            self._recorded.append(self._spread(self._extras.record(position)))

    def _rows(self, rng: np.random.Generator) -> Tensor:
        """Draw the rows of an iteration but for those that every batch holds, (chain, n)."""
        size, others, chains = self._config.batch_size, self._others, self._start.shape[0]
        if others is None:
            return draw_rows(self._target.n_rows, size, chains, rng=rng)
        drawn = len(others) if size is None else size - (self._target.n_rows - len(others))
        return others[draw_rows(len(others), drawn, chains, rng=rng)]

    def _moving(self, values: Tensor) -> Tensor:
        """Return values (chain, dim) of chains that go on, zero where a position stays."""
        return values if self._extras.mask is None else values * self._extras.mask[self._chains]

    def _spread(self, values: Tensor) -> Tensor:
        """Return values (chain, ...) of chains that go on as (all chains, ...), zero for those that ended."""
        if len(self._chains) == self._start.shape[0]:
            return values.clone()
        full = values.new_zeros(self._start.shape[0], *values.shape[1:])
        full[self._chains] = values
        return full

    def _without_diverged(self, state: Any, said: StepFigures, iteration: int) -> Any:
        position = self._algorithm.position(state)
        there = position.isfinite().all(-1) & (
            said.move <= self._config.longest_move
        )  # False for a move that is NaN
        if self._extras.possible is not None:
            there = there & self._extras.possible(position).to(there.device)
        fine = there.cpu()
        figures = self._figures
        if bool(fine.any()):
            stretch = said.stretch.cpu()[fine]
            figures["low"], figures["high"] = (
                min(figures["low"], float(stretch.min())),
                max(figures["high"], float(stretch.max())),
            )
            if iteration >= self._config.warmup:
                figures["norm"] += float(said.gradient_norm.cpu()[fine].mean()) / self._config.draws
            if said.damped is not None:
                figures["damped"] = max(figures["damped"], said.damped)
        if bool(fine.all()):
            return state
        self._ended += [(int(chain), iteration) for chain in self._chains[~fine]]
        self._chains = self._chains[fine]
        self._refuse_no_chains()
        return of_chains(state, fine.to(self._start.device))

    def _refuse_no_chains(self) -> None:
        if not len(self._chains):
            raise DivergedError(
                f"{type(self._sampler).__name__}: all {self._start.shape[0]} chains diverged by iteration "
                f"{self._ended[-1][1] + 1}. The step {self._sampler.step} is too long; try a tenth of it."
            )

    def _draws(self) -> Draws:
        config, total = self._config, self._config.warmup + self._config.draws
        steps = [self._sampler.step * config.schedule.factor(k) for k in range(total)]

        def kept(values: list[Tensor], every: int) -> tuple[Tensor, Tensor]:
            if not values:
                raise ConfigError(
                    f"run: none of {config.draws} iterations leaves a draw, of which every {every}-th would. Ask for "
                    "more of them, or for a lower thin."
                )
            of = torch.tensor(
                [steps[k] for k in range(total) if config.keeps(k, every)], dtype=torch.float64
            )
            return torch.stack(values, 1)[self._chains], of

        position, position_steps = kept(self._positions, config.thin)
        recorded = (
            kept(self._recorded, config.record_every)
            if self._extras.record is not None
            else (None, None)
        )
        return Draws(position, position_steps, *recorded)

    def _info(self) -> Info:
        figures, warnings = self._figures, list(self._sampler.warnings())
        if self._ended:
            chains = ", ".join(f"{chain + 1} in iteration {k + 1}" for chain, k in self._ended[:5])
            warnings.append(
                SamplerWarning(
                    "diverged",
                    f"{len(self._ended)} of {self._start.shape[0]} chains diverged and were left out: {chains}. "
                    "Shorten the step.",
                )
            )
        if figures["damped"] > MOST_DAMPED:
            warnings.append(
                SamplerWarning(
                    "damped pairs",
                    f"{figures['damped']:.0%} of the pairs had to be damped: curvature along them is not positive. The "
                    "gradient may have the wrong sign, the batches may be too small, or the step too long.",
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
        """Digits of all rows and of what else never changes: found once, not with every file."""
        extras = (getattr(self._extras, name) for name in _OF_THE_PROBLEM)
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

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Take up the state of a file, where there is one; raises ArtifactError on one of another run."""
        if not checkpoint.path.exists():
            return
        arrays, facts = checkpoints.read(
            checkpoint.path, expected=self._facts(), device=self._start.device
        )
        self._state = with_arrays(self._state, checkpoints.under("state.", arrays))
        self._chains = arrays["chains"].cpu()
        kept = checkpoints.under("position.", arrays)
        self._positions = [kept[str(i)] for i in range(len(kept))]
        self._recorded = list(arrays["recorded"]) if "recorded" in arrays else []
        self._done, self._seconds = facts["done"], facts["seconds"]
        self._figures |= facts["figures"]
        self._ended = [(chain, iteration) for chain, iteration in facts["ended"]]
