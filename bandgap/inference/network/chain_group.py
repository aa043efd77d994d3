"""One group of chains from its start to its last draw: what is recorded of it, told of it, and kept to go on from.

With a checkpoint the group's file holds everything that the next iteration and the result depend on, so that a run that
was cut off goes on from it and gives the same draws, bit for bit.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
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
    """What groups tell while they run, readable by other processes: iterations done, acceptance and scales.

    Views of one block of float64, in memory or in a file that several processes map: `stop` (1,), `done` and
    `acceptance` (group,), and `states` (chain, draw, width). Every group writes only its own cells; the reader sets
    `stop` to end them all. `done` counts iterations, warm-up included; `states` holds every draw after warm-up that is
    done, else zero.
    """

    stop: Floats
    done: Floats
    acceptance: Floats
    states: Floats

    @staticmethod
    def open(
        path: Path | None, *, groups: int, chains: int, draws: int, width: int
    ) -> "ChainBoard":
        """Open a board in a file, made here if there is none, or in this process's memory when `path` is None."""
        size = 1 + 2 * groups + chains * draws * width
        if path is None:
            block: Floats = np.zeros(size)
        else:
            block = np.memmap(path, np.float64, mode="r+" if path.exists() else "w+", shape=(size,))
        heads, states = block[1 : 1 + 2 * groups].reshape(2, groups), block[1 + 2 * groups :]
        return ChainBoard(block[:1], heads[0], heads[1], states.reshape(chains, draws, width))

    @property
    def stopped(self) -> bool:
        return bool(self.stop[0])

    def end(self) -> None:
        """Tell every group to end at its next report."""
        self.stop[0] = 1.0

    def drawn(self, *, warmup: int) -> Floats:
        """Return the draws after warm-up that every chain has, (chain, draw, width)."""
        common = max(0, int(self.done.min()) - warmup)
        return np.array(self.states[:, :common])


@dataclass(frozen=True)
class GroupPlace:
    """A group's number and how many there are, its first chain and its number of chains, and the words of its seed."""

    number: int
    groups: int
    first: int
    chains: int
    seed: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Group:
    """What one group leaves: its kept draws and its figures."""

    draws: NetworkDraws
    info: SamplerInfo


def run_group(
    net: WhitenedNetwork,
    prior: ScalePrior,
    config: SamplerConfig,
    place: GroupPlace,
    *,
    board: ChainBoard,
    look: Callable[[], None],
    checkpoint: Checkpoint | None = None,
) -> Group | None:
    """Run one group and tell the board of it, then call `look`, every few iterations; None when the board said stop.

    With `checkpoint` the group goes on from its file where there is one, and writes it every so many iterations, when
    it is told to stop, and at its end. Raises ArtifactError on a file of another run, and what `look` raises.
    """
    run = _GroupRun(net, prior, config, place)
    total, chain = config.n_warmup + config.n_draws, run.chain
    file = None if checkpoint is None else checkpoint.of_part(place.number)
    if file is not None and file.path.exists():
        run.resume(file, board)
    for record in chain.iterate():
        run.take(record, board)
        done = chain.iteration
        if file is not None and (done % file.every == 0 or done == total):
            run.save(file)
        if done % REPORT_EVERY == 0 or done == total:
            run.tell(board)
            try:
                look()
            except Cancelled:
                run.stop(file)
                raise
            if board.stopped:
                run.stop(file)
                return None
    return run.result()


class _GroupRun:
    """The chains and what was recorded after warm-up: mutable, alive for one run."""

    def __init__(
        self, net: WhitenedNetwork, prior: ScalePrior, config: SamplerConfig, place: GroupPlace
    ) -> None:
        self._net, self._prior, self._config, self._place = net, prior, config, place
        words = np.random.SeedSequence(place.seed)
        device = net.inputs.device
        generator = torch.Generator(device=device).manual_seed(
            int(words.generate_state(1, np.uint64)[0]) % 2**63
        )
        host = torch.Generator().manual_seed(int(words.generate_state(2, np.uint64)[1]) % 2**63)
        self.chain = Chain(net, prior, config, place.chains, generator, host)
        keep = min(config.keep // config.chains, config.n_draws)
        self._kept_at = set(
            np.linspace(0, config.n_draws - 1, num=keep).round().astype(int).tolist()
        )
        self._states: list[Tensor] = []  # each (chain, width)
        self._fitted: list[Tensor] = []  # each (chain, n)
        self._accept: list[Tensor] = []  # each (chain,)
        self._divergent: list[Tensor] = []  # each (chain,)
        self._energy: list[Tensor] = []  # each (chain,)
        self._kept: list[
            Layers
        ] = []  # state, output weights and z of every sampled layer, each with leading axis chain
        self._acceptance = 0.0

    def take(self, record: Record, board: ChainBoard) -> None:
        """Keep what the result needs of an iteration."""
        self._acceptance = float(record.accept.mean())
        draw = self.chain.iteration - 1 - self._config.n_warmup
        if draw < 0:
            return
        self._states.append(record.state.cpu())
        self._fitted.append(record.fitted.float().cpu())
        self._accept.append(record.accept.cpu())
        self._divergent.append(record.divergent.cpu())
        self._energy.append(record.energy.cpu())
        board.states[self._rows, draw] = self._states[-1].numpy()
        if draw in self._kept_at:
            kept = [q.cpu() for q in self._net.kept(record.z)]
            self._kept.append([record.state.cpu(), record.output.cpu(), *kept])

    def tell(self, board: ChainBoard) -> None:
        """Write on the board how far the group is."""
        board.acceptance[self._place.number] = self._acceptance
        board.done[self._place.number] = self.chain.iteration

    def stop(self, file: Checkpoint | None) -> None:
        """Write the file where there is one: the run ends before its end."""
        if file is not None:
            self.save(file)

    def save(self, file: Checkpoint) -> None:
        """Write everything that the next iteration and the result depend on."""
        arrays = {f"chain.{name}": value for name, value in self.chain.to_arrays().items()}
        for name, values in self._recorded().items():
            if values:
                arrays[f"drawn.{name}"] = torch.stack(values, 1)
        for part in range(len(self._kept[0]) if self._kept else 0):
            arrays[f"kept.{part}"] = torch.stack([kept[part] for kept in self._kept], 1)
        facts = {"iteration": self.chain.iteration, "acceptance": self._acceptance}
        checkpoints.write(file.path, arrays, self._expected | facts)

    def resume(self, file: Checkpoint, board: ChainBoard) -> None:
        """Take the state from the file and tell the board of it."""
        device = self._net.inputs.device
        arrays, facts = checkpoints.read(
            file.path, expected=self._expected, device=torch.device("cpu")
        )
        self.chain.restore(
            checkpoints.under("chain.", arrays), iteration=int(facts["iteration"]), device=device
        )
        self._acceptance = float(facts["acceptance"])
        for name, values in self._recorded().items():
            if f"drawn.{name}" in arrays:
                values.extend(arrays[f"drawn.{name}"].unbind(1))
        kept = checkpoints.under("kept.", arrays)
        parts = [kept[str(part)].unbind(1) for part in range(len(kept))]
        self._kept = [list(each) for each in zip(*parts, strict=True)]
        if self._states:
            board.states[self._rows, : len(self._states)] = torch.stack(self._states, 1).numpy()
        self.tell(board)

    def result(self) -> Group:
        """Return what was drawn."""
        kept = [torch.stack([k[part] for k in self._kept], 1) for part in range(len(self._kept[0]))]
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
        return Group(NetworkDraws(kept[0], kept[2:], kept[1]), info)

    @property
    def _rows(self) -> slice:
        return slice(self._place.first, self._place.first + self._place.chains)

    def _recorded(self) -> dict[str, list[Tensor]]:
        return {
            "state": self._states,
            "fitted": self._fitted,
            "accept": self._accept,
            "divergent": self._divergent,
            "energy": self._energy,
        }

    @functools.cached_property
    def _expected(self) -> dict[str, Any]:
        """Return what the file of this run says of itself."""
        return {
            "sampler": "network",
            "settings": to_dict(self._config),
            "seed": list(self._place.seed),
            "chains": self._place.chains,
            "device": self._net.inputs.device.type,
            "problem": checkpoints.content_of(self._net, self._prior),
        }
