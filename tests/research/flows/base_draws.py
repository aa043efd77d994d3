"""Draws of the mean of a flow's base density, as the thesis makes them."""

from collections.abc import Callable

import torch
from torch import Tensor

from bandgap.inference.base_measure import dirichlet_weights


def base_draws(
    u: Tensor,
    pseudo: Callable[[], Tensor],
    *,
    alpha: float,
    n_draws: int,
    generator: torch.Generator,
) -> Tensor:
    """Return draws of mu (n_draws, D) for one flow: phase B of algorithm 3.

    `u` (n, D) are the rows and `pseudo` draws fresh pseudo-observations (m, D), both in the base
    space.
    """
    draws = []
    for _ in range(n_draws):
        atoms = torch.cat([u, pseudo()])
        weights = dirichlet_weights(
            len(u), len(atoms) - len(u), alpha=alpha, n_draws=1, generator=generator
        )
        draws.append((weights[0, :, None] * atoms).sum(0))
    return torch.stack(draws)
