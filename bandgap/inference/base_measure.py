"""Base measure and weights of a nonparametric posterior, DP(alpha, F_pi) given n rows.

A draw of the unknown distribution has the n rows and m pseudo-observations of the base measure F_pi
as atoms, with weights from Dirichlet(1, ..., 1, alpha/m, ..., alpha/m) (Lyddon, Walker and Holmes
2018; Fong, Lyddon and Holmes 2019; Ott 2022, section 4). With alpha = 0 this is the weighted
likelihood bootstrap.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import NonNegative, Settings
from bandgap.foundation.errors import InputError


@dataclass(frozen=True)
class BaseMeasure(Settings):
    """The base measure F_pi of the prior and its weight alpha in numbers of observations.

    Parameters
    ----------
    alpha
        Concentration: 100 with 100 rows gives F_pi half of the weight. 0: no base measure.
    rows
        Historical rows (m_h, D) that are drawn with replacement. None: the normal distribution with
        mean and covariance of the training rows.
    """

    alpha: NonNegative = 0.0
    rows: Tensor | None = None

    @property
    def n_pseudo(self) -> int:
        """Number m of pseudo-observations, large enough that their own sampling hardly counts."""
        return max(500, math.ceil(10 * self.alpha)) if self.alpha > 0 else 0

    def draw(self, training: Tensor, *, generator: torch.Generator) -> Tensor:
        """Return m pseudo-observations (m, D) for training rows (n, D)."""
        m = self.n_pseudo
        if m == 0:
            return training[:0]
        if self.rows is not None:
            drawn = torch.randint(len(self.rows), (m,), generator=generator)
            return torch.index_select(self.rows, 0, drawn)
        if len(training) < 2:
            raise InputError("A normal base measure needs at least two training rows.")
        mean = training.mean(0)
        covariance = torch.cov(training.T).reshape(training.shape[1], training.shape[1])
        eigenvalues, vectors = torch.linalg.eigh(covariance)
        normal = torch.randn(m, training.shape[1], generator=generator, dtype=training.dtype)
        scaled: Tensor = normal * eigenvalues.clamp(min=0).sqrt()
        return torch.addmm(mean, scaled, vectors.T)


def dirichlet_weights(
    n: int, m: int, *, alpha: float, n_draws: int, generator: torch.Generator
) -> Tensor:
    """Return weights (n_draws, n + m) of Dirichlet(1, ..., 1, alpha/m, ..., alpha/m).

    They are normalised gamma variables, which are drawn from numpy's generator in double precision
    with a seed of `generator`.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    random = np.random.default_rng(seed)
    shapes = np.concatenate([np.ones(n), np.full(m, alpha / m if m else 1.0)])
    gammas = torch.from_numpy(random.gamma(shapes, size=(n_draws, n + m)))
    return gammas / gammas.sum(1, keepdim=True)
