"""The loop around one transition of a sampler: warm-up, adaptation, records, checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import Cancelled, ConfigError, InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from tests.hamiltonian import windows
from tests.hamiltonian.leapfrog import LogDensity, Point, evaluate, reasonable_step
from tests.hamiltonian.windows import Adaptation, AdaptationConfig

Statistics = dict[str, Tensor]  # figures of one transition, each (chain,); "accept" is one of them


@dataclass(frozen=True)
class SamplingConfig:
    """Settings of a run.

    Parameters
    ----------
    sampler : "hmc" or "nuts"
    length : leapfrog steps of a path of HMC, varied by a fifth up and down; or the largest depth of
        a tree of NUTS (2^depth - 1 leapfrog steps)
    warmup, draws : iterations of every chain
    start_step : first step
    target_accept : acceptance that the step is adapted to
    adaptation : what warm-up adapts
    """

    sampler: Literal["hmc", "nuts"]
    length: int
    warmup: int = 250
    draws: int = 400
    start_step: float = 0.1
    target_accept: float = 0.8
    adaptation: AdaptationConfig = AdaptationConfig()

    def __post_init__(self) -> None:
        if (
            self.sampler not in ("hmc", "nuts")
            or min(self.warmup, self.draws, self.length) < 1
            or not 0 < self.target_accept < 1
            or self.start_step <= 0
        ):
            raise ConfigError(
                f"{self.sampler}: {self}. Accepted: sampler hmc or nuts, at least one warm-up "
                "iteration and draw, a length of at least 1, a start step above 0 and a target "
                "acceptance between 0 and 1."
            )


@dataclass(frozen=True, eq=False)
class Tuning:
    """Input of a transition.

    Step (chain,), inverse mass (chain, dimension), and generators on the device and on the host.
    """

    step: Tensor
    inverse_mass: Tensor
    generator: torch.Generator
    host: torch.Generator


Move = Callable[[Point, Tuning], tuple[Point, Statistics]]


@dataclass(frozen=True, eq=False)
class ChainRun:
    """Draws (chain, draw, dimension), figures (chain, draw) by name, and the last adaptation."""

    draws: Tensor
    statistics: Statistics
    adaptation: Adaptation


def run_chains(
    log_density: LogDensity,
    initial: Tensor,
    *,
    config: SamplingConfig,
    move: Move,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> ChainRun:
    """Run every chain from its row of `initial` (chain, dimension) or from the checkpoint's file.

    A resumed run gives the draws of a run without a break. Its settings must be those of the file,
    but for `draws`, which may be more. Raises InputError where a start has no density,
    ArtifactError on a file of another run, and what `progress` raises.
    """
    loop = _Loop(log_density, initial.detach(), config, seed)
    if checkpoint is not None and checkpoint.path.exists():
        loop.resume(checkpoint)
    else:
        loop.start()
    total = config.warmup + config.draws
    while loop.iteration < total:
        statistics = loop.iterate(move)
        if checkpoint is not None and (
            loop.iteration % checkpoint.every == 0 or loop.iteration == total
        ):
            loop.save(checkpoint)
        phase = "warm-up" if loop.iteration <= config.warmup else "sampling"
        try:
            values = {"acceptance": float(statistics["accept"].mean())}
            progress(Update(phase, loop.iteration, total, values=values))
        except Cancelled:
            if checkpoint is not None:
                loop.save(checkpoint)
            raise
    return loop.result()


class _Loop:
    """The only mutable state, for one run: position, adaptation, generators and draws so far."""

    def __init__(
        self, log_density: LogDensity, initial: Tensor, config: SamplingConfig, seed: int
    ) -> None:
        self._log_density = log_density
        self._initial = initial
        self._config = config
        self._generator = torch.Generator(device=initial.device).manual_seed(seed)
        self._host = torch.Generator().manual_seed(seed)
        has_windows = config.adaptation.mass == "diagonal"
        self._marks = windows.slow_windows(config.warmup) if has_windows else ()
        self._draws: list[Tensor] = []
        self._records: list[Statistics] = []
        settings = to_dict(config)
        self._expected: dict[str, Any] = {
            "sampler": settings.pop("sampler"),
            "settings": {key: value for key, value in settings.items() if key != "draws"},
            "seed": seed,
            "shape": list(initial.shape),
        }
        self.iteration = 0

    def start(self) -> None:
        """Start at the initial positions."""
        self._at = evaluate(self._log_density, self._initial)
        bad = ~(torch.isfinite(self._at.value) & torch.isfinite(self._at.gradient).all(-1))
        if bool(bad.any()):
            chain = int(bad.nonzero()[0])
            raise InputError(
                f"{self._config.sampler}: chain {chain} starts where the log density is "
                f"{float(self._at.value[chain]):g} or its gradient is not finite. Start every "
                "chain at a point of positive density."
            )
        self._adaptation = windows.begin(self._initial, step=self._config.start_step)
        if self._marks:
            self._search_step()

    def iterate(self, move: Move) -> Statistics:
        """Make one transition of every chain and return its figures."""
        adaptation = self._adaptation
        in_warmup = self.iteration < self._config.warmup
        step = adaptation.step if in_warmup else adaptation.final
        tuning = Tuning(
            step.to(self._initial.dtype), adaptation.inverse_mass, self._generator, self._host
        )
        self._at, statistics = move(self._at, tuning)
        if in_warmup:
            self._adapt(statistics["accept"])
        else:
            self._draws.append(self._at.q)
            self._records.append(statistics)
        self.iteration += 1
        return statistics

    def _adapt(self, accept: Tensor) -> None:
        config = self._config.adaptation
        if config.step == "adapted":
            target = self._config.target_accept
            self._adaptation = windows.follow_acceptance(
                self._adaptation, accept, target=target, pooled=config.pooled
            )
        if not self._marks or not self._marks[0] <= self.iteration < self._marks[-1]:
            return
        self._adaptation = windows.follow_positions(self._adaptation, self._at.q)
        if self.iteration + 1 in self._marks[1:]:
            self._adaptation = windows.end_window(self._adaptation, pooled=config.pooled)
            self._search_step()

    def _search_step(self) -> None:
        config = self._config.adaptation
        if config.step == "fixed":
            return
        step = reasonable_step(
            self._log_density,
            self._at,
            step=self._adaptation.step.to(self._initial.dtype),
            inverse_mass=self._adaptation.inverse_mass,
            generator=self._generator,
        ).double()
        if config.pooled:
            step = torch.exp(torch.log(step).mean()).expand_as(step)
        self._adaptation = windows.with_step(self._adaptation, step)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write everything that the next iteration and the result depend on."""
        arrays = {
            "at.q": self._at.q,
            "at.value": self._at.value,
            "at.gradient": self._at.gradient,
            "generator": self._generator.get_state(),
            "host": self._host.get_state(),
        }
        arrays |= {
            f"adaptation.{key}": value for key, value in self._adaptation.to_arrays().items()
        }
        if self._draws:
            arrays["draws"] = torch.stack(self._draws, 1)
            arrays |= {f"statistics.{key}": value for key, value in self._stacked().items()}
        checkpoints.write(checkpoint.path, arrays, self._expected | {"iteration": self.iteration})

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore the state from the file."""
        device = self._initial.device
        arrays, facts = checkpoints.read(checkpoint.path, expected=self._expected, device=device)
        self.iteration = int(facts["iteration"])
        self._at = Point(arrays["at.q"], arrays["at.value"], arrays["at.gradient"])
        self._generator.set_state(arrays["generator"].cpu())
        self._host.set_state(arrays["host"].cpu())
        self._adaptation = Adaptation.from_arrays(checkpoints.under("adaptation.", arrays))
        if "draws" in arrays:
            n_draws = self._config.draws
            self._draws = list(arrays["draws"].unbind(1))[:n_draws]
            statistics = checkpoints.under("statistics.", arrays)
            by_draw = zip(*(value.unbind(1) for value in statistics.values()), strict=True)
            records = [dict(zip(statistics, values, strict=True)) for values in by_draw]
            self._records = records[:n_draws]

    def _stacked(self) -> Statistics:
        return {
            key: torch.stack([record[key] for record in self._records], 1)
            for key in self._records[0]
        }

    def result(self) -> ChainRun:
        """Return the draws and their figures."""
        return ChainRun(torch.stack(self._draws, 1), self._stacked(), self._adaptation)
