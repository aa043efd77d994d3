"""Chains of a sampler in separate processes of one thread, run until a condition or a time limit.

CPU time is measured for each process. The limit is on wall-clock time. Compilation before the first
iteration is not counted in either.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import BandgapError

Floats = NDArray[np.float64]
CHECK_EVERY_S = 10.0  # Between two evaluations of the condition.


class ChainSide(Protocol):
    """A chain that can be run block by block."""

    def prepare(self) -> None:
        """Compile code before the time is measured."""

    def warm_up(self) -> None:
        """Run warm-up."""

    def block(self) -> Floats:
        """Return the next draws, (draw, quantity)."""


MakeChain = Callable[..., ChainSide]


@dataclass(frozen=True, eq=False)
class ChainRun:
    """Draws (chain, draw, quantity), CPU seconds as means over chains, and wall-clock seconds."""

    draws: Floats
    prepare_s: float
    warmup_s: float
    sampling_s: float
    wall_s: float


@dataclass
class _Progress:
    """Messages that a process has sent."""

    prepare_s: float = 0.0
    warmup_s: float = 0.0
    ready: bool = False
    blocks: list[Floats] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def take(self, kind: str, spent: float, block: Floats | None) -> None:
        if kind == "prepared":
            self.prepare_s = spent
            self.ready = True
        elif kind == "warm":
            self.warmup_s = spent
        elif block is not None:
            self.blocks.append(block)
            self.seconds.append(spent)


def run_chains(
    make: MakeChain,
    problem: object,
    *,
    seeds: Sequence[int],
    warmup: int,
    limit_s: float,
    enough: Callable[[Floats], bool],
    on_progress: Callable[[float], None],
) -> ChainRun:
    """Run a chain for each seed until `enough(draws)` is true or `limit_s` is reached.

    Parameters
    ----------
    make
        Function that makes a chain.
    limit_s
        Limit of wall-clock time after all chains are compiled.
    enough
        Condition on the draws (chain, draw, quantity).
    on_progress
        Called with the seconds so far.

    Raises
    ------
    BandgapError
        If a process ends early, or a chain has no draws at the limit.
    """
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in seeds]
    processes = [
        context.Process(target=_work, args=(theirs, make, problem, seed, warmup), daemon=True)
        for (_, theirs), seed in zip(pipes, seeds, strict=True)
    ]
    ours = [pipe[0] for pipe in pipes]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        return _collect(ours, limit_s=limit_s, enough=enough, on_progress=on_progress)
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _collect(
    ours: list[Connection],
    *,
    limit_s: float,
    enough: Callable[[Floats], bool],
    on_progress: Callable[[float], None],
) -> ChainRun:
    chains = [_Progress() for _ in ours]
    while not all(chain.ready for chain in chains):
        _receive(ours, chains, timeout=CHECK_EVERY_S)
    for pipe in ours:
        pipe.send("go")  # No chain starts while another one compiles.
    started = checked = time.perf_counter()
    while (now := time.perf_counter()) - started < limit_s:
        _receive(ours, chains, timeout=min(CHECK_EVERY_S, limit_s - (now - started)))
        if time.perf_counter() - checked > CHECK_EVERY_S:
            on_progress(time.perf_counter() - started)
            checked = time.perf_counter()
            if all(chain.blocks for chain in chains) and enough(_draws(chains)):
                break
    if not all(chain.blocks for chain in chains):
        raise BandgapError(
            f"benchmark posterior: after {limit_s / 60:g} minutes a chain had no draw after "
            "warm-up. Raise --minutes or lower --warmup."
        )
    return _finished(chains, time.perf_counter() - started)


def _finished(chains: list[_Progress], wall_s: float) -> ChainRun:
    draws = _draws(chains)
    shares = [sum(len(b) for b in c.blocks) for c in chains]
    sampling = [
        sum(c.seconds) * draws.shape[1] / share for c, share in zip(chains, shares, strict=True)
    ]
    return ChainRun(
        draws,
        float(np.mean([c.prepare_s for c in chains])),
        float(np.mean([c.warmup_s for c in chains])),
        float(np.mean(sampling)),
        wall_s,
    )


def _draws(chains: list[_Progress]) -> Floats:
    """Return draws (chain, draw, quantity), cut to the length of the shortest chain."""
    draws_of_chains = [np.concatenate(c.blocks) for c in chains]
    least = min(len(draws) for draws in draws_of_chains)
    return np.stack([draws[:least] for draws in draws_of_chains])


def _receive(ours: list[Connection], chains: list[_Progress], *, timeout: float) -> None:
    for pipe in connection.wait(ours, timeout=timeout):
        try:
            message = ours[ours.index(pipe)].recv()  # type: ignore[arg-type]
        except EOFError as error:
            raise BandgapError(
                "benchmark posterior: the process of a chain ended early; its error is above."
            ) from error
        chains[ours.index(pipe)].take(*message)  # type: ignore[arg-type]


def _work(pipe: Connection, make: MakeChain, problem: Any, seed: int, warmup: int) -> None:
    chain = make(problem, seed=seed, warmup=warmup)
    _, spent = _timed(chain.prepare)
    pipe.send(("prepared", spent, None))
    pipe.recv()
    _, spent = _timed(chain.warm_up)
    pipe.send(("warm", spent, None))
    while True:
        block, spent = _timed(chain.block)
        pipe.send(("block", spent, block))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    result = work()
    return result, time.process_time() - started
