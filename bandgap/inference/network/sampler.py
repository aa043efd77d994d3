"""Draws from the joint posterior of a network's weights and scales: warm-up, adaptation, several chains side by side.

One iteration moves weights and scales along one path (joint_hmc), then the scales alone (scale_moves), both with the
output layer integrated out; the output layer is drawn exactly when a state is recorded. On a CPU every chain of a batch
is followed for itself (`joint_hmc.LeanPath`): its arrays stay in the processor's cache. Chains run in groups of a fixed
size, each group as one batch with one torch thread, so that results do not depend on how many cores there are. Groups
of a long run are processes: as threads they waited for each other's Python half of the time (measured on 2 cores: 7.7 s
against 4.7 s).
"""

import math
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandgap.foundation.engines import engine_in_use, inside_map, mapped
from bandgap.foundation.machine import cores, few_blas_threads, set_threads
from bandgap.foundation.progress import Progress, Update
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.chain_group import ChainBoard, Group, GroupPlace, run_group
from bandgap.inference.network.draws import NetworkDraws, SamplerInfo, running_figures
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import WhitenedNetwork

CHAINS_PER_GROUP = 2
POLL_S, RHAT_EVERY_S = 0.2, 2.0  # how often the board is read, and R-hat computed from it
# of products of a weight and a row in the whole run, above which starting processes (about 3 s) pays; an iteration of
# the smallest problem costs as much as ITERATION of them
PROCESSES_FROM, ITERATION = 3e9, 3e6


def sample_network(
    net: WhitenedNetwork,
    prior: ScalePrior,
    *,
    config: SamplerConfig,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[NetworkDraws, SamplerInfo]:
    """Sample weights and scales; raises Cancelled when `progress` does.

    Updates hold the mean acceptance and, after warm-up, the largest R-hat of the scales. With `checkpoint` every group
    of chains has a file beside its path, from which it goes on where there is one: the draws are then those of a run
    without the break, bit for bit. Raises ArtifactError on a file of another problem, other settings or another seed.
    """
    firsts = range(0, config.chains, CHAINS_PER_GROUP)
    places = [
        GroupPlace(i, len(firsts), first, min(CHAINS_PER_GROUP, config.chains - first), (seed, i))
        for i, first in enumerate(firsts)
    ]
    files = (
        [] if checkpoint is None else [checkpoint.of_part(place.number).path for place in places]
    )
    config = _planned(config, net, files)
    remote = engine_in_use().remote and not net.y.is_cuda
    workers = 1 if net.y.is_cuda or inside_map() else min(cores(), len(places))
    if (workers == 1 and not remote) or _work(net, config) < PROCESSES_FROM:
        board = _open_board(None, prior, config, groups=len(places))
        watch = _Watch(board, prior, config, progress)
        with few_blas_threads():
            results = [
                run_group(
                    net, prior, config, place, board=board, look=watch.look, checkpoint=checkpoint
                )
                for place in places
            ]
        watch.look()
        return _joined(net, [group for group in results if group is not None])
    with tempfile.TemporaryDirectory(prefix="bandgap-chains-") as folder:
        path = Path(folder) / "board"
        board = _open_board(path, prior, config, groups=len(places))
        watch = _Watch(board, prior, config, progress)
        parent = None if remote else os.getpid()
        tasks = [(net, prior, config, place, path, parent, checkpoint) for place in places]
        with ThreadPoolExecutor(1) as pool:
            future: Future[list[Group | None]] = pool.submit(
                lambda: list(mapped(_run_in_process, tasks, n_jobs=workers, ahead=len(places)))
            )
            try:
                while not future.done():
                    watch.look()
                    time.sleep(POLL_S)
            except BaseException:
                board.end()
                raise
            groups = [group for group in future.result() if group is not None]
        watch.look()
    return _joined(net, groups)


def _planned(config: SamplerConfig, net: WhitenedNetwork, files: Sequence[Path]) -> SamplerConfig:
    """Return the settings with the coordinates that suit the problem, where they are left to the sampler.

    A run that goes on keeps those of its files: earlier versions chose others under inverse gamma scales.
    """
    for path in files if config.coordinates == "auto" else ():
        if (settings := checkpoints.facts_of(path).get("settings")) is not None:
            return replace(config, coordinates=settings["coordinates"])
    return config.planned(can_frame=net.isotropic)


def _work(net: WhitenedNetwork, config: SamplerConfig) -> float:
    weights = sum(math.prod(shape) for shape in net.shapes)
    groups = -(-config.chains // CHAINS_PER_GROUP)
    iterations = config.n_warmup + config.n_draws
    return iterations * (groups * ITERATION + config.chains * float(net.n_rows) * weights)


def _open_board(
    path: Path | None, prior: ScalePrior, config: SamplerConfig, *, groups: int
) -> ChainBoard:
    return ChainBoard.open(
        path, groups=groups, chains=config.chains, draws=config.n_draws, width=prior.units.shape[0]
    )


class _Watch:
    """Turns the board into updates; the only state is what has been reported already."""

    def __init__(
        self, board: ChainBoard, prior: ScalePrior, config: SamplerConfig, progress: Progress
    ) -> None:
        self._board, self._prior, self._config, self._progress = board, prior, config, progress
        self._total = len(board.done) * (config.n_warmup + config.n_draws)
        self._reported, self._judged_at = 0, -math.inf
        self._figures: dict[str, float] = {}

    def look(self) -> None:
        """Report what is new on the board; raises what `progress` raises."""
        board, done = self._board, int(self._board.done.sum())
        if done == self._reported:
            return
        self._reported = done
        begun = board.done > 0
        values = {"acceptance": float(board.acceptance[begun].mean())}
        if time.monotonic() - self._judged_at > RHAT_EVERY_S:
            drawn = board.drawn(warmup=self._config.n_warmup)
            self._figures, self._judged_at = (
                running_figures(self._prior.judged(drawn)),
                time.monotonic(),
            )
        values |= self._figures
        phase = "warm-up" if done <= len(board.done) * self._config.n_warmup else "sampling"
        self._progress(Update(phase, done, self._total, values=values))


def _joined(net: WhitenedNetwork, groups: list[Group]) -> tuple[NetworkDraws, SamplerInfo]:
    draws = NetworkDraws(
        torch.cat([g.draws.state for g in groups]),
        [torch.cat([g.draws.z[i] for g in groups]) for i in range(len(net.shapes))],
        torch.cat([g.draws.output for g in groups]),
    )

    def every(name: str) -> Any:
        return np.concatenate([getattr(group.info, name) for group in groups])

    arrays = {
        name: every(name) for name in ("state", "fitted", "accept", "divergent", "energy", "step")
    }
    judged = {
        name: np.concatenate([g.info.judged[name] for g in groups])
        for name in groups[0].info.judged
    }
    info = SamplerInfo(
        judged=judged, n_steps=int(np.median([g.info.n_steps for g in groups])), **arrays
    )
    return draws, info


def _run_in_process(
    net: WhitenedNetwork,
    prior: ScalePrior,
    config: SamplerConfig,
    place: GroupPlace,
    path: Path,
    parent: int | None,
    checkpoint: Checkpoint | None,
) -> Group | None:
    """Run a group in a process of its own; it ends when the board says so or when its parent is gone.

    A worker of an engine elsewhere has another parent, and may not see the board's file: then nobody hears of the group
    until it is done, and it leaves no checkpoints.
    """
    set_threads()
    seen = path.exists()
    kept = checkpoint if seen else None
    board = _open_board(path if seen else None, prior, config, groups=place.groups)

    def look() -> None:
        left = seen and not path.exists() if parent is None else os.getppid() != parent
        if left:
            board.end()

    with few_blas_threads():
        return run_group(net, prior, config, place, board=board, look=look, checkpoint=kept)
