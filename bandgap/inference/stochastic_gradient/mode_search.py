"""Where chains start: near a mode of the log posterior, found by Adam (Kingma and Ba, 2015) on mini-batches."""

import math

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.stochastic_gradient.gradients import RowTarget, batch_gradient, draw_rows

MOMENTS, DAMPING = (0.9, 0.999), 1e-8


def climb(
    target: RowTarget,
    start: Tensor,
    *,
    steps: int,
    learning_rate: float,
    batch_size: int | None,
    seed: int,
    mask: Tensor | None = None,
    progress: Progress = no_progress,
) -> Tensor:
    """Move positions (chain, dim) uphill; the learning rate falls to 0 by a cosine. Deterministic for a seed.

    `mask` (dim,) is 1 where a position may move and 0 where it stays.
    """
    position, mean, square = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    rng, every = np.random.default_rng(seed), max(1, steps // 50)
    for k in range(steps):
        rows = draw_rows(target.n_rows, batch_size, start.shape[0], rng=rng).to(start.device)
        g = batch_gradient(target, rows)(position).total
        g = g if mask is None else g * mask
        mean.lerp_(g, 1.0 - MOMENTS[0])
        square.lerp_(g.square(), 1.0 - MOMENTS[1])
        first, second = (1.0 - m ** (k + 1) for m in MOMENTS)
        rate = learning_rate * 0.5 * (1.0 + math.cos(math.pi * k / steps))
        position += rate * (mean / first) / (torch.sqrt(square / second) + DAMPING)
        if (k + 1) % every == 0 or k + 1 == steps:
            progress(Update("searching for a start", k + 1, steps))
    return position
