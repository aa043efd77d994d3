"""One group of chains from its start to its last draw: records, reports and checkpoints.

A group's checkpoint contains everything that the next iteration and the result depend on. An
interrupted run resumes from it and gives the same draws, bit for bit.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import Cancelled
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.chain import Chain, Record
from bandgap.inference.network.draws import NetworkDraws, SamplerInfo
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

REPORT_EVERY = 5  # iterations between two entries on the board


@dataclass(frozen=True, eq=False)
class ChainBoard:
    """Progress of all groups, readable by other processes.

    The fields are views of one block of float64, in memory or in a file that several processes map.
    Every group writes only its own cells.

    Parameters
    ----------
    stop : (1,), set by the reader to stop all groups
    done : (group,), iterations, warm-up included
    acceptance : (group,), of the last iteration
    states : (chain, draw, width), every draw after warm-up so far, else zero
    """

    stop: Floats
    done: Floats
    acceptance: Floats
    states: Floats

    @staticmethod
    def open(
        path: Path | None, *, groups: int, chains: int, draws: int, width: int
    ) -> "ChainBoard":
        """Open a board in a file, created if it does not exist, or in memory if `path` is None."""
        size = 1 + 2 * groups + chains * draws * width
        if path is None:
            block: Floats = np.zeros(size)
        else:
            block = np.memmap(path, np.float64, mode="r+" if path.exists() else "w+", shape=(size,))
        done, acceptance = block[1 : 1 + 2 * groups].reshape(2, groups)
        states = block[1 + 2 * groups :].reshape(chains, draws, width)
        return ChainBoard(block[:1], done, acceptance, states)

    @property
    def stopped(self) -> bool:
        return bool(self.stop[0])

    def stop_all(self) -> None:
        """Stop every group at its next report."""
        self.stop[0] = 1.0

    def common_draws(self, *, warmup: int) -> Floats:
        """Return the draws after warm-up that every chain has, (chain, draw, width)."""
        n_common = max(0, int(self.done.min()) - warmup)
        return np.array(self.states[:, :n_common])


@dataclass(frozen=True)
class GroupPlace:
    """Which of `groups` groups this is, its first chain, number of chains, and seed."""

    number: int
    groups: int
    first: int
    chains: int
    seed: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Group:
    """Result of one group: kept draws and figures."""

    draws: NetworkDraws
    info: SamplerInfo


def run_group(
    net: WhitenedNetwork,
    prior: ScalePrior,
    config: SamplerConfig,
    place: GroupPlace,
    *,
    board: ChainBoard,
    report: Callable[[], None],
    checkpoint: Checkpoint | None = None,
) -> Group | None:
    """Run one group; None if the board says stop.

    Every few iterations it writes to the board and calls `report`. With `checkpoint` it resumes
    from its file if that exists. It writes the file every `checkpoint.every` iterations, when it is
    stopped, and at its end. Raises ArtifactError on a file of another run, and what `report`
    raises.
    """
    run = _GroupRun(net, prior, config, place)
    total = config.n_warmup + config.n_draws
    file = None if checkpoint is None else checkpoint.of_part(place.number)
    if file is not None and file.path.exists():
        run.resume(file, board)
    for record in run.chain.iterate():
        run.add(record, board)
        done = run.chain.iteration
        if file is not None and (done % file.every == 0 or done == total):
            run.save(file)
        if done % REPORT_EVERY == 0 or done == total:
            run.write_to(board)
            try:
                report()
            except Cancelled:
                if file is not None:
                    run.save(file)
                raise
            if board.stopped:
                if file is not None:
                    run.save(file)
                return None
    return run.result()


class _GroupRun:
    """The chains and their records after warm-up. Mutable, for one run."""

    def __init__(
        self, net: WhitenedNetwork, prior: ScalePrior, config: SamplerConfig, place: GroupPlace
    ) -> None:
        self._net = net
        self._prior = prior
        self._config = config
        self._place = place
        seeds = np.random.SeedSequence(place.seed)
        device_seed = int(seeds.generate_state(1, np.uint64)[0]) % 2**63
        host_seed = int(seeds.generate_state(2, np.uint64)[1]) % 2**63
        generator = torch.Generator(device=net.inputs.device).manual_seed(device_seed)
        host = torch.Generator().manual_seed(host_seed)
        self.chain = Chain(net, prior, config, place.chains, generator, host)
        self._stored_at = set(config.stored_draws)
        self._states: list[Tensor] = []  # each (chain, width)
        self._fitted: list[Tensor] = []  # each (chain, n)
        self._accept: list[Tensor] = []  # each (chain,)
        self._divergent: list[Tensor] = []  # each (chain,)
        self._energy: list[Tensor] = []  # each (chain,)
        # Every stored draw is a list of tensors with leading axis chain: state, output weights, and
        # z of every sampled layer.
        self._stored: list[Layers] = []
        self._acceptance = 0.0

    def add(self, record: Record, board: ChainBoard) -> None:
        """Record what the result needs of an iteration."""
        self._acceptance = float(record.accept.mean())
        draw = self.chain.iteration - 1 - self._config.n_warmup
        if draw < 0:
            return
        self._states.append(record.state.cpu())
        self._fitted.append(record.fitted.float().cpu())
        self._accept.append(record.accept.cpu())
        self._divergent.append(record.divergent.cpu())
        self._energy.append(record.energy.cpu())
        board.states[self._chains, draw] = self._states[-1].numpy()
        if draw in self._stored_at:
            z = [q.cpu() for q in self._net.stored(record.z)]
            self._stored.append([record.state.cpu(), record.output.cpu(), *z])

    def write_to(self, board: ChainBoard) -> None:
        """Write the group's progress to the board."""
        board.acceptance[self._place.number] = self._acceptance
        board.done[self._place.number] = self.chain.iteration

    def save(self, file: Checkpoint) -> None:
        """Write everything that the next iteration and the result depend on."""
        arrays = {f"chain.{name}": value for name, value in self.chain.to_arrays().items()}
        for name, values in self._records().items():
            if values:
                arrays[f"drawn.{name}"] = torch.stack(values, 1)
        for part, stacked in enumerate(self._stacked_parts()):
            arrays[f"stored.{part}"] = stacked
        facts = {"iteration": self.chain.iteration, "acceptance": self._acceptance}
        checkpoints.write(file.path, arrays, self._expected | facts)

    def resume(self, file: Checkpoint, board: ChainBoard) -> None:
        """Restore the state from the file and write the progress to the board.

        The file is of this run, or of the end of the run that it extends.
        """
        device = self._net.inputs.device
        expected = self._expected
        shorter = self._config.shorter
        if shorter is not None:
            settings = _settings(shorter)
            if checkpoints.facts_of(file.path).get("settings") == settings:
                expected = {**expected, "settings": settings}
        arrays, facts = checkpoints.read(file.path, expected=expected, device=torch.device("cpu"))
        self.chain.restore(
            checkpoints.under("chain.", arrays), iteration=int(facts["iteration"]), device=device
        )
        self._acceptance = float(facts["acceptance"])
        for name, values in self._records().items():
            if f"drawn.{name}" in arrays:
                values.extend(arrays[f"drawn.{name}"].unbind(1))
        stored = checkpoints.under("stored.", arrays)
        parts = [stored[str(part)].unbind(1) for part in range(len(stored))]
        self._stored = [list(draw) for draw in zip(*parts, strict=True)]
        if self._states:
            board.states[self._chains, : len(self._states)] = torch.stack(self._states, 1).numpy()
        self.write_to(board)

    def result(self) -> Group:
        """Return the draws and figures."""
        stored_states, output, *z = self._stacked_parts()
        states = torch.stack(self._states, 1).numpy()
        info = SamplerInfo(
            states,
            self._prior.judged(states),
            torch.stack(self._fitted, 1).numpy(),
            torch.stack(self._accept, 1).numpy(),
            torch.stack(self._divergent, 1).numpy(),
            torch.stack(self._energy, 1).double().numpy(),
            np.array([self.chain.step]),
            self.chain.n_steps,
        )
        return Group(NetworkDraws(stored_states, z, output), info)

    @property
    def _chains(self) -> slice:
        """The group's chains among all chains of the run."""
        return slice(self._place.first, self._place.first + self._place.chains)

    def _stacked_parts(self) -> list[Tensor]:
        """Return the parts of the stored draws, each (chain, draw, ...)."""
        return [torch.stack(values, 1) for values in zip(*self._stored, strict=True)]

    def _records(self) -> dict[str, list[Tensor]]:
        return {
            "state": self._states,
            "fitted": self._fitted,
            "accept": self._accept,
            "divergent": self._divergent,
            "energy": self._energy,
        }

    @functools.cached_property
    def _expected(self) -> dict[str, Any]:
        """Facts that identify this run in its file."""
        return {
            "sampler": "network",
            "settings": _settings(self._config),
            "seed": list(self._place.seed),
            "chains": self._place.chains,
            "device": self._net.inputs.device.type,
            "problem": checkpoints.content_of(self._net, self._prior),
        }


def _settings(config: SamplerConfig) -> dict[str, Any]:
    """Return the settings of a run with the lengths that are used, as plain values."""
    return to_dict(replace(config, warmup=config.n_warmup, draws=config.n_draws))
