"""Search of a mode of the log posterior by Adam (Kingma and Ba, 2015), as a start of chains."""

import math

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.stochastic_gradient.gradients import RowTarget, batch_gradient, draw_rows

MOMENTS = (0.9, 0.999)
DAMPING = 1e-8


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
    """Move positions (chain, dim) to higher densities; the learning rate falls to 0 by a cosine.

    The result is a function of the arguments and the seed. `mask` (dim,) is 1 for entries that may
    move and 0 for entries that stay.
    """
    position = start.clone()
    mean = torch.zeros_like(start)
    square = torch.zeros_like(start)
    rng = np.random.default_rng(seed)
    report_every = max(1, steps // 50)
    for k in range(steps):
        rows = draw_rows(target.n_rows, batch_size, start.shape[0], rng=rng).to(start.device)
        g = batch_gradient(target, rows)(position).total
        g = g if mask is None else g * mask
        mean.lerp_(g, 1.0 - MOMENTS[0])
        square.lerp_(g.square(), 1.0 - MOMENTS[1])
        mean_correction, square_correction = (1.0 - m ** (k + 1) for m in MOMENTS)
        rate = learning_rate * 0.5 * (1.0 + math.cos(math.pi * k / steps))
        root = torch.sqrt(square / square_correction)
        position += rate * (mean / mean_correction) / (root + DAMPING)
        if (k + 1) % report_every == 0 or k + 1 == steps:
            progress(Update("searching for a start", k + 1, steps))
    return position
