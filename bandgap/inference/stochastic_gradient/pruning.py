r"""Magnitude pruning with rebirth: the smallest entries of weight matrices are set to 0 again and again.

Wang, Deng and Lin (2021), Algorithm 2. Every `every` iterations, from the start of warm-up, the share s_t = S (1 -
D^(t / f)) of the entries of each matrix with the smallest magnitude is set to 0, t being how often that was done.
Entries at 0 go on receiving gradient and noise, and return where they grow beyond the threshold before the next time.
It is a projection, no sampling: what has a posterior is a run with the last zeros held (`mask` of `run.sample`), which
is the posterior GIVEN these zeros.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError

Matrix = (
    tuple[int, int] | tuple[int, int, int]
)  # first, end; and the length of a row whose last entry is a bias


@dataclass(frozen=True)
class Pruning:
    """Which spans of the position are matrices; how often; S (`share`), D (`decay`), f (`slowness`).

    The share of a matrix that is 0 right after a pruning is s_t to one entry. Biases are never pruned.
    """

    matrices: tuple[Matrix, ...]
    every: int
    share: float = 0.5
    decay: float = 0.99
    slowness: float = 50.0

    def __post_init__(self) -> None:
        if not (
            0 < self.share < 1 and 0 < self.decay < 1 and self.slowness > 0 and self.every >= 1
        ):
            raise ConfigError(
                f"pruning: share {self.share}, decay {self.decay}, slowness {self.slowness}, every {self.every}. "
                "Accepted: share and decay between 0 and 1, a slowness above 0, a number of iterations from 1."
            )

    def share_at(self, count: int) -> float:
        """Return s_t after `count` prunings."""
        return self.share * float(1.0 - self.decay ** (count / self.slowness))


def zero_smallest(position: Tensor, matrices: tuple[Matrix, ...], *, share: float) -> Tensor:
    """Return positions (chain, dim) with the share of each matrix's entries of smallest magnitude set to 0."""
    result = position.clone()
    for matrix in matrices:
        places = weights_of(matrix).to(position.device)
        smallest = result[:, places].abs().argsort(dim=1)[:, : round(share * len(places))]
        result.scatter_(1, places[smallest], 0.0)
    return result


def weights_of(matrix: Matrix) -> Tensor:
    """Return the places of a matrix's entries but its biases, (n,)."""
    first, end, *row = matrix
    places = torch.arange(first, end)
    return places.reshape(-1, row[0])[:, :-1].flatten() if row else places


def pruned(state: Any, pruning: Pruning, *, iteration: int) -> Any:
    """Return the state after an iteration (from 0), its position pruned where it is time.

    Raises ConfigError where a sampler's state has no single position.
    """
    if not hasattr(state, "position"):
        raise ConfigError(
            f"pruning: {type(state).__name__} holds several positions a chain. Take another sampler."
        )
    count, early = divmod(iteration + 1, pruning.every)
    if early:
        return state
    return replace(
        state,
        position=zero_smallest(state.position, pruning.matrices, share=pruning.share_at(count)),
    )
