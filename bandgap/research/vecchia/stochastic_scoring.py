"""Stochastic-gradient Fisher scoring (SGFS): SGRLD without noise, drift and prior.

It ends after `epochs`, or when the mean inner product of successive gradients over an epoch is
negative (Chee and Toulis 2018), because steps then oscillate about the maximum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bandgap.foundation.config import Count, Settings, ShareAboveZero
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint, content_of, read, write
from bandgap.research.vecchia.langevin import batch_of
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.target import Target


@dataclass(frozen=True)
class ScoringConfig(Settings):
    """Step h, sites a batch, and largest number of passes over all sites."""

    step: ShareAboveZero = 0.2
    batch: Count = 250
    epochs: Count = 10


def score_by_batches(
    target: Target,
    eta: Floats,
    beta: Floats,
    config: ScoringConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Floats, Floats, int]:
    """Return eta and beta near the maximum of the likelihood, and the number of epochs.

    eta and beta are means over the last epoch. With `checkpoint` every epoch is saved, and the
    search resumes from a file of the same settings and rows. Raises ForeignCheckpointError for
    another file.
    """
    rng = np.random.default_rng(seed)
    n = target.sites.n
    free = target.free
    k = eta.size
    per_epoch = max(1, -(-n // config.batch))
    last = np.zeros(k)
    mean = np.concatenate([eta, beta])
    done = 0
    ended = False
    expected: dict[str, Any] = {"settings": repr(config), "seed": seed}
    if checkpoint is not None:
        expected["problem"] = content_of(target, eta, beta)
        if checkpoint.path.exists():
            arrays, facts = read(checkpoint.path, expected=expected, device=torch.device("cpu"))
            eta, beta, last, mean = (
                arrays[name].numpy() for name in ("eta", "beta", "last", "mean")
            )
            rng.bit_generator.state = facts["random"]
            done = int(facts["done"])
            ended = bool(facts["ended"])
    while done < config.epochs and not ended:
        progress(Update("searching the maximum by batches", done, config.epochs))
        path = []
        product = 0.0
        for _ in range(per_epoch):
            index = batch_of(n, config.batch, rng)
            pull = target.terms(eta, beta, index)
            beta = beta + config.step * np.linalg.solve(pull.p4, pull.grad_beta)
            fisher = pull.fisher_log_theta[np.ix_(free, free)]
            gradient = pull.grad_log_theta[free]
            move = np.linalg.solve(fisher, gradient)
            eta = eta + config.step * move / max(1.0, float(np.sqrt(np.mean(move**2))))
            product += float(gradient @ last)
            last = gradient
            path.append(np.concatenate([eta, beta]))
        done = done + 1
        ended = product < 0
        mean = np.mean(path, axis=0)
        if checkpoint is not None:
            state = {"eta": eta, "beta": beta, "last": last, "mean": mean}
            facts = {"done": done, "ended": ended, "random": rng.bit_generator.state}
            write(
                checkpoint.path,
                {name: torch.from_numpy(a) for name, a in state.items()},
                expected | facts,
            )
    progress(Update("searching the maximum by batches", config.epochs, config.epochs))
    return mean[:k], mean[k:], done
