"""The loop around one transition of a general-purpose sampler: warm-up, adaptation, records, checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import Cancelled, InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from tests.hamiltonian import windows
from tests.hamiltonian.leapfrog import LogDensity, Point, evaluate, reasonable_step
from tests.hamiltonian.windows import Adaptation, AdaptationConfig

Statistics = dict[str, Tensor]  # figures of one transition, each (chain,); "accept" is one of them


class Settings(Protocol):
    """What the settings of every sampler here say: length, first step, acceptance wanted and what is adapted."""

    @property
    def warmup(self) -> int: ...
    @property
    def draws(self) -> int: ...
    @property
    def start_step(self) -> float: ...
    @property
    def target_accept(self) -> float: ...
    @property
    def adaptation(self) -> AdaptationConfig: ...


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a transition is given: step (chain,), inverse mass (chain, dimension), generators on device and host."""

    step: Tensor
    inverse_mass: Tensor
    generator: torch.Generator
    host: torch.Generator


Move = Callable[[Point, Tuning], tuple[Point, Statistics]]


@dataclass(frozen=True, eq=False)
class ChainRun:
    """Draws (chain, draw, dimension), figures of every draw (chain, draw) by name, and the adaptation's last state."""

    draws: Tensor
    statistics: Statistics
    adaptation: Adaptation


def run_chains(
    log_density: LogDensity,
    initial: Tensor,
    *,
    name: str,
    settings: Settings,
    move: Move,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> ChainRun:
    """Run every chain from its row of `initial` (chain, dimension), or go on from the file of `checkpoint`.

    A run that goes on gives the draws that it would have given without the break. Its settings must be those of the
    file, but for `draws`, which may be more. Raises InputError where a start has no density, ArtifactError on a file
    that does not fit, and what `progress` raises.
    """
    loop = _Loop(log_density, initial.detach(), name, settings, seed)
    if checkpoint is not None and checkpoint.path.exists():
        loop.resume(checkpoint)
    else:
        loop.start()
    total = settings.warmup + settings.draws
    while loop.iteration < total:
        statistics = loop.iterate(move)
        if checkpoint is not None and (
            loop.iteration % checkpoint.every == 0 or loop.iteration == total
        ):
            loop.save(checkpoint)
        phase = "warm-up" if loop.iteration <= settings.warmup else "sampling"
        try:
            values = {"acceptance": float(statistics["accept"].mean())}
            progress(Update(phase, loop.iteration, total, values=values))
        except Cancelled:
            if checkpoint is not None:
                loop.save(checkpoint)
            raise
    return loop.result()


class _Loop:
    """The only mutable state, alive for one run: position, adaptation, generators and draws so far."""

    def __init__(
        self, log_density: LogDensity, initial: Tensor, name: str, settings: Settings, seed: int
    ) -> None:
        self._log_density, self._initial, self._name, self._settings = (
            log_density,
            initial,
            name,
            settings,
        )
        self._generator = torch.Generator(device=initial.device).manual_seed(seed)
        self._host = torch.Generator().manual_seed(seed)
        self._marks = (
            windows.slow_windows(settings.warmup) if settings.adaptation.mass == "diagonal" else ()
        )
        self._draws: list[Tensor] = []
        self._records: list[Statistics] = []
        self._expected: dict[str, Any] = {
            "sampler": name,
            "settings": {key: value for key, value in to_dict(settings).items() if key != "draws"},
            "seed": seed,
            "shape": list(initial.shape),
        }
        self.iteration = 0

    def start(self) -> None:
        """Begin at the initial positions."""
        self._at = evaluate(self._log_density, self._initial)
        bad = ~(torch.isfinite(self._at.value) & torch.isfinite(self._at.gradient).all(-1))
        if bool(bad.any()):
            chain = int(bad.nonzero()[0])
            raise InputError(
                f"{self._name}: chain {chain} starts where the log density is {float(self._at.value[chain]):g} or its "
                "gradient is not finite. Start every chain at a point of positive density."
            )
        self._adaptation = windows.begin(self._initial, step=self._settings.start_step)
        if self._marks:
            self._search_step()

    def iterate(self, move: Move) -> Statistics:
        """Make one transition of every chain and return its figures."""
        adaptation, warm = self._adaptation, self.iteration < self._settings.warmup
        step = adaptation.step if warm else adaptation.final
        tuning = Tuning(
            step.to(self._initial.dtype), adaptation.inverse_mass, self._generator, self._host
        )
        self._at, statistics = move(self._at, tuning)
        if warm:
            self._adapt(statistics["accept"])
        else:
            self._draws.append(self._at.q)
            self._records.append(statistics)
        self.iteration += 1
        return statistics

    def _adapt(self, accept: Tensor) -> None:
        wanted = self._settings.adaptation
        if wanted.step == "adapted":
            target = self._settings.target_accept
            self._adaptation = windows.follow_acceptance(
                self._adaptation, accept, target=target, pooled=wanted.pooled
            )
        if not self._marks or not self._marks[0] <= self.iteration < self._marks[-1]:
            return
        self._adaptation = windows.follow_positions(self._adaptation, self._at.q)
        if self.iteration + 1 in self._marks[1:]:
            self._adaptation = windows.end_window(self._adaptation, pooled=wanted.pooled)
            self._search_step()

    def _search_step(self) -> None:
        wanted = self._settings.adaptation
        if wanted.step == "fixed":
            return
        found = reasonable_step(
            self._log_density,
            self._at,
            step=self._adaptation.step.to(self._initial.dtype),
            inverse_mass=self._adaptation.inverse_mass,
            generator=self._generator,
        ).double()
        if wanted.pooled:
            found = torch.exp(torch.log(found).mean()).expand_as(found)
        self._adaptation = windows.with_step(self._adaptation, found)

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
        """Take the state from the file."""
        device = self._initial.device
        arrays, facts = checkpoints.read(checkpoint.path, expected=self._expected, device=device)
        self.iteration = int(facts["iteration"])
        self._at = Point(arrays["at.q"], arrays["at.value"], arrays["at.gradient"])
        self._generator.set_state(arrays["generator"].cpu())
        self._host.set_state(arrays["host"].cpu())
        self._adaptation = Adaptation.from_arrays(checkpoints.under("adaptation.", arrays))
        if "draws" in arrays:
            wanted = self._settings.draws
            self._draws = list(arrays["draws"].unbind(1))[:wanted]
            named = checkpoints.under("statistics.", arrays)
            each = zip(*(value.unbind(1) for value in named.values()), strict=True)
            self._records = [dict(zip(named, values, strict=True)) for values in each][:wanted]

    def _stacked(self) -> Statistics:
        return {
            key: torch.stack([record[key] for record in self._records], 1)
            for key in self._records[0]
        }

    def result(self) -> ChainRun:
        """Return what was drawn."""
        return ChainRun(torch.stack(self._draws, 1), self._stacked(), self._adaptation)
