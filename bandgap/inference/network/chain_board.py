"""What groups of chains tell while they run: iterations done, acceptance and scales, readable by other processes.

One block of float64, in memory or in a file that several processes map. Every group writes only its own cells; the
reader sets `stop` to end them all.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChainBoard:
    """Views of one block: `stop` (1,), `done` and `acceptance` (group,), and `states` (chain, draw, width).

    `done` counts iterations, warm-up included; `states` holds every draw after warm-up that is done, else zero.
    """

    stop: Floats
    done: Floats
    acceptance: Floats
    states: Floats

    @staticmethod
    def open(path: Path | None, *, groups: int, chains: int, draws: int, width: int) -> "ChainBoard":
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
