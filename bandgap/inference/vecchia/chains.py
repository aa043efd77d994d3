"""Chains in blocks of iterations, every block with its own random numbers: they go on after a break bit for bit.

A block's numbers come from (seed, block, chain) alone: what was cut off in the middle of a block is done again, and a
chain is the same wherever it runs with as many threads. Chains are a map over engines; elsewhere they take stretches of
several blocks, as what they depend on is sent with each.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.machine import with_own_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import (
    Checkpoint,
    ForeignCheckpointError,
    content_of,
    facts_of,
    read,
    write,
)
from bandgap.inference.vecchia.ordering import Floats
from bandgap.inference.vecchia.scoring import Mode

BLOCK = 25  # iterations between reports; part of what a seed means
STRETCH_S = 5.0  # from when on the stretches of chains elsewhere grow no more: they report and can be cancelled between
Advance = Callable[[Floats, int, int, np.random.Generator], tuple[Floats, Floats]]
"""(state, first, last, rng) -> the state after iterations first to last, and what they passed (iteration, value)."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of eta (chain, draw, k) and beta (chain, draw, p), figures by name, sentences to show with the result.

    Where the mode is the only draw, `precision_beta` (p, p) is that of beta given its scales, to be integrated out.
    """

    eta: Floats
    beta: Floats
    figures: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    precision_beta: Floats | None = None


def at_mode(
    mode: Mode, *, figures: Mapping[str, float] | None = None, warnings: tuple[str, ...] = ()
) -> Draws:
    """Return the mode as the only draw: scales that are taken as known, and beta given them."""
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
    """Return what chains from `states` (chain, state) passed after the warm-up (chain, draw, value), and their ends.

    `settings` and `problem`, dataclasses or tuples of them, are all that `advance` depends on: chains go on from a file
    of the same alone. What is not `movable`, as it lies on this machine's GPU, runs here whatever the engine. Raises
    ForeignCheckpointError on another's file.
    """
    total, made = warmup + draws, []
    whole = {
        "settings": repr(settings),
        "seed": seed,
        "warmup": warmup,
        "draws": draws,
        "block": block,
        "start": content_of(torch.from_numpy(states)),
    }
    first = 0
    if checkpoint is not None:
        whole["problem"] = content_of(*problem)
    if checkpoint is not None and checkpoint.path.exists():
        _refuse_unknown_settings(checkpoint.path)
        arrays, facts = read(checkpoint.path, expected=whole, device=torch.device("cpu"))
        states, first = arrays["states"].numpy(), int(facts["done"])
        made = [arrays["path"].numpy()]
    elsewhere = movable and engine_in_use().remote
    every = block if checkpoint is None else max(checkpoint.every // block, 1) * block
    stretch = block
    while first < total:
        last = min(first + stretch, total)
        tasks = [
            (advance, state, first, last, block, warmup, (seed, chain))
            for chain, state in enumerate(states)
        ]
        moved = list(
            mapped(partial(with_own_threads, _along), tasks)
            if elsewhere
            else itertools.starmap(_along, tasks)
        )
        ends, paths, seconds = zip(*moved, strict=True)
        states = np.array(ends)
        made.append(np.stack(paths))
        if checkpoint is not None and (last == total or last // every > first // every):
            _keep(checkpoint, states, made, whole | {"done": last})
        first = last
        if elsewhere and max(seconds) < STRETCH_S:
            stretch *= 2
        try:
            progress(Update(phase, first, total))
        except BaseException:
            if checkpoint is not None:
                _keep(checkpoint, states, made, whole | {"done": first})
            raise
    return np.concatenate(made, axis=1), states


def _along(
    advance: Advance,
    state: Floats,
    first: int,
    last: int,
    block: int,
    warmup: int,
    name: tuple[int, int],
) -> tuple[Floats, Floats, float]:
    """Return a chain's state after iterations first to last, what it passed after the warm-up, and the seconds."""
    begun, (seed, chain) = time.monotonic(), name
    passed = []
    for begin in range(first, last, block):
        rng = np.random.default_rng([seed, begin, chain, 0xC4A1])
        state, path = advance(state, begin, min(begin + block, last), rng)
        passed.append(path[max(warmup - begin, 0) :])
    return state, np.concatenate(passed), time.monotonic() - begun


def _refuse_unknown_settings(path: Path) -> None:
    """Raise ForeignCheckpointError on a file of the time before files knew the settings of their chains."""
    facts = facts_of(path)
    if "start" in facts and "settings" not in facts:
        raise ForeignCheckpointError(
            f"{path}: an earlier version wrote this file without the settings of its chains, which may be others than "
            "these. Delete it to start anew."
        )


def _keep(
    checkpoint: Checkpoint, states: Floats, made: list[Floats], facts: dict[str, Any]
) -> None:
    arrays = {
        "states": torch.from_numpy(states),
        "path": torch.from_numpy(np.concatenate(made, axis=1)),
    }
    write(checkpoint.path, arrays, facts)
