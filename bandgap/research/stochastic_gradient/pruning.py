"""Magnitude pruning with rebirth: the smallest entries of weight matrices are set to 0 repeatedly.

Wang, Deng and Lin (2021), Algorithm 2. Every `every` iterations, from the start of warm-up, the
share s_t = S (1 - D^(t / f)) of the entries of each matrix with the smallest magnitude is set to 0;
t counts the prunings. Entries at 0 still receive gradient and noise, and return if they exceed the
threshold before the next pruning.

This is a projection and samples no posterior. A run in which the last zeros stay (`Extras.mask`)
samples the posterior given these zeros.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bandgap.foundation.config import Count, Positive, ProperShare, Settings
from bandgap.foundation.errors import ConfigError

# First index and end of the matrix; and the length of its rows if their last entry is a bias.
Matrix = tuple[int, int] | tuple[int, int, int]


@dataclass(frozen=True)
class Pruning(Settings):
    """Matrices of a position, and how they are pruned.

    Parameters
    ----------
    matrices
        Spans of the position that are matrices. Biases are never pruned.
    every
        Iterations from one pruning to the next.
    share, decay, slowness
        S, D and f. Right after a pruning the share of zeros of a matrix is s_t to one entry.
    """

    matrices: tuple[Matrix, ...]
    every: Count
    share: ProperShare = 0.5
    decay: ProperShare = 0.99
    slowness: Positive = 50.0

    def share_at(self, count: int) -> float:
        """Return s_t after `count` prunings."""
        return self.share * float(1.0 - self.decay ** (count / self.slowness))


def zero_smallest(position: Tensor, matrices: tuple[Matrix, ...], *, share: float) -> Tensor:
    """Return positions (chain, dim) with this share of each matrix's smallest entries set to 0."""
    result = position.clone()
    for matrix in matrices:
        places = weights_of(matrix).to(position.device)
        smallest = result[:, places].abs().argsort(dim=1)[:, : round(share * len(places))]
        result.scatter_(1, places[smallest], 0.0)
    return result


def weights_of(matrix: Matrix) -> Tensor:
    """Return the indices (n,) of a matrix's entries without its biases."""
    first, end, *row = matrix
    places = torch.arange(first, end)
    return places.reshape(-1, row[0])[:, :-1].flatten() if row else places


def pruned(state: Any, pruning: Pruning, *, iteration: int) -> Any:
    """Return the state after an iteration (from 0), its position pruned if a pruning is due.

    Raises ConfigError for samplers whose state has several positions.
    """
    if not hasattr(state, "position"):
        raise ConfigError(
            f"pruning: {type(state).__name__} has several positions per chain. Use another sampler."
        )
    count, early = divmod(iteration + 1, pruning.every)
    if early:
        return state
    share = pruning.share_at(count)
    return replace(state, position=zero_smallest(state.position, pruning.matrices, share=share))
