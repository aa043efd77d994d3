"""Chains in blocks of iterations, from which an interrupted chain can resume.

The random numbers of a block depend on (seed, block, chain) only. A block that was interrupted is
repeated. So a resumed chain has the same draws, as has a chain on another machine with the same
number of threads. Chains are a map over engines. On a remote engine a task has several blocks,
because everything that it depends on is sent with it.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import with_own_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import (
    Checkpoint,
    content_of,
    read,
    write,
)
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.scoring import Mode

BLOCK = 25  # iterations between reports; another number changes the draws of a seed
# Seconds of a remote task from which on tasks do not grow: progress and cancelling are between
# tasks.
TASK_S = 5.0
# (state, first, last, rng) -> the state after iterations first to last, and their path
# (iteration, value).
Advance = Callable[[Floats, int, int, np.random.Generator], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of eta (chain, draw, k) and beta (chain, draw, p), figures by name, and warnings.

    If the mode is the only draw, `precision_beta` (p, p) is the precision of beta given the scales,
    over which predictions integrate.
    """

    eta: Floats
    beta: Floats
    figures: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    precision_beta: Floats | None = None


def check_thin(sampler: str, *, draws: int, thin: int) -> None:
    """Raise ConfigError unless the draws are a multiple of `thin`."""
    if draws % thin:
        raise ConfigError(
            f"{sampler}: {draws} draws, thin {thin}. Accepted: draws a multiple of thin."
        )


def at_mode(
    mode: Mode, *, figures: Mapping[str, float] | None = None, warnings: tuple[str, ...] = ()
) -> Draws:
    """Return the mode as the only draw: fixed scales, and beta given them."""
    return Draws(
        mode.eta[None, None], mode.beta[None, None], figures or {}, warnings, mode.precision_beta
    )


def run_chains(
    states: Floats,
    advance: Advance,
    warmup: int,
    draws: int,
    *,
    seed: int,
    settings: object,
    problem: tuple[object, ...],
    block: int = BLOCK,
    phase: str = "sampling the covariance",
    movable: bool = True,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Floats, Floats]:
    """Return the paths of chains after the warm-up (chain, draw, value) and their last states.

    Parameters
    ----------
    states
        First states, (chain, state).
    advance
        Advances a chain by some iterations.
    warmup, draws
        Iterations before and while the path is recorded.
    seed
        Seed of all random numbers.
    settings, problem
        Everything that `advance` depends on, as dataclasses or tuples of them. Chains resume only
        from a checkpoint of the same.
    block
        Iterations with the same random stream.
    phase
        Message of the progress.
    movable
        Whether other machines can compute; False for data on this machine's GPU.
    progress
        Called after every task.
    checkpoint
        File of the states and paths.

    Raises
    ------
    ForeignCheckpointError
        If the checkpoint is of other chains.
    """
    total = warmup + draws
    paths = []
    expected = {
        "settings": repr(settings),
        "seed": seed,
        "warmup": warmup,
        "draws": draws,
        "block": block,
        "start": content_of(torch.from_numpy(states)),
    }
    first = 0
    if checkpoint is not None:
        expected["problem"] = content_of(*problem)
    if checkpoint is not None and checkpoint.path.exists():
        arrays, facts = read(checkpoint.path, expected=expected, device=torch.device("cpu"))
        states = arrays["states"].numpy()
        first = int(facts["done"])
        paths = [arrays["path"].numpy()]
    is_remote = movable and engine_in_use().remote
    every = block if checkpoint is None else max(checkpoint.every // block, 1) * block
    task_length = block
    while first < total:
        last = min(first + task_length, total)
        tasks = [
            (advance, state, first, last, block, warmup, (seed, chain))
            for chain, state in enumerate(states)
        ]
        results = list(
            mapped(partial(with_own_threads, _advance_blocks), tasks)
            if is_remote
            else itertools.starmap(_advance_blocks, tasks)
        )
        ends, new_paths, seconds = zip(*results, strict=True)
        states = np.array(ends)
        paths.append(np.stack(new_paths))
        if checkpoint is not None and (last == total or last // every > first // every):
            _write_checkpoint(checkpoint, states, paths, expected | {"done": last})
        first = last
        if is_remote and max(seconds) < TASK_S:
            task_length *= 2
        try:
            progress(Update(phase, first, total))
        except BaseException:
            if checkpoint is not None:
                _write_checkpoint(checkpoint, states, paths, expected | {"done": first})
            raise
    return np.concatenate(paths, axis=1), states


def _advance_blocks(
    advance: Advance,
    state: Floats,
    first: int,
    last: int,
    block: int,
    warmup: int,
    name: tuple[int, int],
) -> tuple[Floats, Floats, float]:
    """Return the state after iterations first to last, the path after warm-up, and seconds."""
    started = time.monotonic()
    seed, chain = name
    paths = []
    for start in range(first, last, block):
        rng = np.random.default_rng([seed, start, chain, 0xC4A1])
        state, path = advance(state, start, min(start + block, last), rng)
        paths.append(path[max(warmup - start, 0) :])
    return state, np.concatenate(paths), time.monotonic() - started


def _write_checkpoint(
    checkpoint: Checkpoint, states: Floats, paths: list[Floats], facts: dict[str, Any]
) -> None:
    arrays = {
        "states": torch.from_numpy(states),
        "path": torch.from_numpy(np.concatenate(paths, axis=1)),
    }
    write(checkpoint.path, arrays, facts)
