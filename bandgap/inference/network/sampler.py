"""Draws from the joint posterior of a network's weights and scales, from several chains.

One iteration moves weights and scales along one path (`joint_hmc`) and then the scales alone
(`scale_moves`), both with the output layer integrated out. The output layer is drawn exactly when a
state is recorded.

Chains run in groups of a fixed size, each group as one batch with one torch thread, so that results
do not depend on the number of cores. Groups of a long run are separate processes: as threads they
would wait for each other in Python.
"""

import math
import os
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandgap.foundation.engines import engine_in_use, inside_map, mapped
from bandgap.foundation.machine import cores, few_blas_threads, set_threads
from bandgap.foundation.progress import Progress, Update
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.chain_group import ChainBoard, Group, GroupPlace, run_group
from bandgap.inference.network.draws import NetworkDraws, SamplerInfo, running_figures
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import WhitenedNetwork

CHAINS_PER_GROUP = 2
POLL_S = 0.2  # between two readings of the board
RHAT_EVERY_S = 2.0  # between two computations of R-hat
# Work of a run, in products of a weight and a row, above which starting processes (about 3 s) pays.
PROCESSES_FROM = 3e9
ITERATION_WORK = 3e6  # an iteration of the smallest problem costs as much as so many products


def sample_network(
    net: WhitenedNetwork,
    prior: ScalePrior,
    *,
    config: SamplerConfig,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[NetworkDraws, SamplerInfo]:
    """Sample weights and scales.

    Parameters
    ----------
    net, prior : the problem
    config : length and coordinates of the run
    seed : of all random numbers
    progress : receives updates with the mean acceptance and, after warm-up, the largest R-hat of
        the scales
    checkpoint : every group of chains writes a file next to this path and resumes from it if it
        exists; the draws are those of a run without a break, bit for bit

    Returns
    -------
    The kept draws, and figures of all draws.

    Raises
    ------
    Cancelled
        If `progress` raises it.
    ArtifactError
        If a file is of another problem, other settings or another seed.
    """
    first_chains = range(0, config.chains, CHAINS_PER_GROUP)
    places = [
        GroupPlace(
            i, len(first_chains), first, min(CHAINS_PER_GROUP, config.chains - first), (seed, i)
        )
        for i, first in enumerate(first_chains)
    ]
    config = config.planned(isotropic=net.isotropic)
    remote = engine_in_use().remote and not net.y.is_cuda
    workers = 1 if net.y.is_cuda or inside_map() else min(cores(), len(places))
    if (workers == 1 and not remote) or _work(net, config) < PROCESSES_FROM:
        board = _open_board(None, prior, config, groups=len(places))
        reporter = _Reporter(board, prior, config, progress)
        with few_blas_threads():
            results = [
                run_group(
                    net,
                    prior,
                    config,
                    place,
                    board=board,
                    report=reporter.report,
                    checkpoint=checkpoint,
                )
                for place in places
            ]
        reporter.report()
        return _joined(net, [group for group in results if group is not None])
    with tempfile.TemporaryDirectory(prefix="bandgap-chains-") as folder:
        path = Path(folder) / "board"
        board = _open_board(path, prior, config, groups=len(places))
        reporter = _Reporter(board, prior, config, progress)
        parent = None if remote else os.getpid()
        tasks = [(net, prior, config, place, path, parent, checkpoint) for place in places]
        with ThreadPoolExecutor(1) as pool:
            future: Future[list[Group | None]] = pool.submit(
                lambda: list(mapped(_run_in_process, tasks, n_jobs=workers, ahead=len(places)))
            )
            try:
                while not future.done():
                    reporter.report()
                    time.sleep(POLL_S)
            except BaseException:
                board.stop_all()
                raise
            groups = [group for group in future.result() if group is not None]
        reporter.report()
    return _joined(net, groups)


def _work(net: WhitenedNetwork, config: SamplerConfig) -> float:
    """Return the work of a run in the unit of `PROCESSES_FROM`."""
    weights = sum(math.prod(shape) for shape in net.shapes)
    groups = -(-config.chains // CHAINS_PER_GROUP)
    iterations = config.n_warmup + config.n_draws
    return iterations * (groups * ITERATION_WORK + config.chains * float(net.n_rows) * weights)


def _open_board(
    path: Path | None, prior: ScalePrior, config: SamplerConfig, *, groups: int
) -> ChainBoard:
    width = prior.units.shape[0]
    return ChainBoard.open(
        path, groups=groups, chains=config.chains, draws=config.n_draws, width=width
    )


class _Reporter:
    """Turns what is new on the board into updates."""

    def __init__(
        self, board: ChainBoard, prior: ScalePrior, config: SamplerConfig, progress: Progress
    ) -> None:
        self._board = board
        self._prior = prior
        self._config = config
        self._progress = progress
        self._total = len(board.done) * (config.n_warmup + config.n_draws)
        self._reported = 0  # iterations of all groups
        self._judged_at = -math.inf
        self._figures: dict[str, float] = {}

    def report(self) -> None:
        """Send an update if iterations were added; raises what `progress` raises."""
        board = self._board
        done = int(board.done.sum())
        if done == self._reported:
            return
        self._reported = done
        values = {"acceptance": float(board.acceptance[board.done > 0].mean())}
        if time.monotonic() - self._judged_at > RHAT_EVERY_S:
            draws = board.common_draws(warmup=self._config.n_warmup)
            self._figures = running_figures(self._prior.judged(draws))
            self._judged_at = time.monotonic()
        values |= self._figures
        phase = "warm-up" if done <= len(board.done) * self._config.n_warmup else "sampling"
        self._progress(Update(phase, done, self._total, values=values))


def _joined(net: WhitenedNetwork, groups: list[Group]) -> tuple[NetworkDraws, SamplerInfo]:
    """Join the chains of all groups."""
    draws = NetworkDraws(
        torch.cat([group.draws.state for group in groups]),
        [torch.cat([group.draws.z[i] for group in groups]) for i in range(len(net.shapes))],
        torch.cat([group.draws.output for group in groups]),
    )

    def joined_array(name: str) -> Any:
        return np.concatenate([getattr(group.info, name) for group in groups])

    names = ("state", "fitted", "accept", "divergent", "energy", "step")
    arrays = {name: joined_array(name) for name in names}
    judged = {
        name: np.concatenate([group.info.judged[name] for group in groups])
        for name in groups[0].info.judged
    }
    n_steps = int(np.median([group.info.n_steps for group in groups]))
    return draws, SamplerInfo(judged=judged, n_steps=n_steps, **arrays)


def _run_in_process(
    net: WhitenedNetwork,
    prior: ScalePrior,
    config: SamplerConfig,
    place: GroupPlace,
    path: Path,
    parent: int | None,
    checkpoint: Checkpoint | None,
) -> Group | None:
    """Run a group in a separate process until the board says stop or the parent process has ended.

    `parent` is None for a worker of an engine on another machine, which may not see the board's
    file. Such a group reports nothing before its end and writes no checkpoints.
    """
    set_threads()
    has_board = path.exists()
    board = _open_board(path if has_board else None, prior, config, groups=place.groups)

    def stop_if_abandoned() -> None:
        if parent is None:
            if has_board and not path.exists():
                board.stop_all()
        elif os.getppid() != parent:
            board.stop_all()

    with few_blas_threads():
        return run_group(
            net,
            prior,
            config,
            place,
            board=board,
            report=stop_if_abandoned,
            checkpoint=checkpoint if has_board else None,
        )
