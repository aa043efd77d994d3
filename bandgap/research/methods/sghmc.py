"""Stochastic-gradient Hamiltonian Monte Carlo from the source, with a Gaussian prior.

Chen, Fox and Guestrin (2014), with cyclical learning rates (Zhang and others, 2020). Chains start
at the source's hidden layers and the linear probe. Every cycle follows a cosine from
`learning_rate` to 0, has noise in its last quarter and ends with one draw. The energy is

    U = (n / s^2) (sum_i (y_i - f(x_i))^2 / (2 n) + (w / 2) |phi - phi*|^2)

at temperature T, with s^2 the probe's residual variance and phi the hidden layers, whose prior is
N(phi*, s^2 I / (w n)): L2SP, around the source phi*, or with zero mean (phi* = 0), which knows the
source by the start alone. With PTYL (Shwartz-Ziv and others, 2022) the prior is N(mu, s^2 S), from
snapshots of the source's training (`ptyl.py`), and the last term in the brackets is
(phi - mu)'S^-1(phi - mu) / (2 n). Priors in units of the noise, as the conjugate prior of a linear
model has, leave U's minimum to `l2sp` and `ptyl`, whatever s^2 is.
`inference/batch/updates.py` has the update, whose learning rate is that of the mean loss.

With L2SP the row space of the training rows is exact, because prior and noise are isotropic. The
component orthogonal to it follows the same recursion without likelihood: a Gaussian whose variance
at the end of each cycle is computed here. With zero mean it also moves towards zero, from a
different place for each weight, and the prior of PTYL is not isotropic, so that chains run in full
coordinates.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation import citations
from bandgap.foundation.config import Count, NonNegative, Positive, ShareBelowOne
from bandgap.inference.batch.penalties import PTYL, Isotropic, Penalty
from bandgap.inference.batch.training import NOISY_SHARE, Cycles, StackTraining
from bandgap.inference.batch.updates import annealed, velocity_noise_variance
from bandgap.inference.divergence import ATTEMPTS, DivergedError, first_that_stays
from bandgap.networks.swag import SnapshotPrior, snapshot_prior
from bandgap.posterior import Floats, NetworkPosterior
from bandgap.research.methods.ptyl import snapshots_of
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut, Start, first_weights
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import Members, Plan, Sample, Setting
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior

DIVERGED: Final = (
    "Chains diverged at a learning rate of {rate:g} and were restarted, the last time with "
    "{last_rate:g}."
)
LEAST_VARIANCE = 1e-3  # of the energy, in squared standardised gaps

Prior = Literal["l2sp", "zero_mean", "ptyl"]


@dataclass(frozen=True)
class SghmcConfig(Scales):
    """Chains and cycles (one draw each), settings of the update, prior, held-out rows, scales.

    `epochs` are those of a cycle. `prior` is "l2sp" or "zero_mean", around the source's hidden
    layers or zero with `strength` w, or "ptyl" with `gamma` and `eps` of its covariance.

    Parameters
    ----------
    eps
        The paper has 0.1; 0.001 because weights of about 0.03 have a flat prior at 0.1.
    """

    chains: Count = 5
    cycles: Count = 6
    epochs: Count = 20
    batch_size: Count = 32
    learning_rate: Positive = 1e-3
    momentum: ShareBelowOne = 0.9
    temperature: NonNegative = 1e-4
    strength: NonNegative = 1.0
    sigma: HeldOut = "auto"
    prior: Prior = "l2sp"
    gamma: NonNegative = 1.0
    eps: Positive = 1e-3


def fit(
    source: SourceModel, data: TargetData, config: SghmcConfig, fitting: Fitting
) -> NetworkPosterior:
    """Run all chains on the training rows (features (n, p), gaps in eV).

    Where one diverges, all restart with a quarter of the learning rate, with a warning. Half of a
    rate that is too large can be barely stable, and such chains are wider than the posterior.

    Raises InputError for the prior "ptyl" where the source has no snapshots, and DivergedError
    where chains diverge at every rate.
    """
    setting = Setting("strength", (config.strength,), config.strength)
    cycles = Cycles(config.cycles, config.temperature)
    is_isotropic = config.prior == "l2sp"
    recipe = recipe_of(source, config)

    def attempt(number: int) -> NetworkPosterior:
        rate = config.learning_rate / 4**number
        slower = replace(config, learning_rate=rate)
        plan = Plan(
            config.chains, 1, setting, config.sigma, config.scales, training_of(slower), cycles
        )
        trained = fit_stacked(source, data, recipe, plan, fitting)
        start = trained.start
        outside = np.zeros(config.cycles)  # full coordinates have no outside
        if is_isotropic:
            outside = outside_sd(
                slower, n_rows=start.n_trained, n_all=start.y.size, variance=noise_variance(start)
            )
        restarted = DIVERGED.format(rate=config.learning_rate, last_rate=rate)
        return stacked_posterior(
            source,
            trained,
            seed=fitting.seed,
            scale_1=np.tile(outside, (config.chains, 1)),
            warnings=(restarted,) if number else (),
        )

    posterior = first_that_stays(attempt)
    if posterior is None:
        raise DivergedError(
            f"sghmc: chains diverged at learning rates from {config.learning_rate:g} down to "
            f"{config.learning_rate / 4 ** (ATTEMPTS - 1):g}. Take a smaller learning_rate."
        )
    return posterior


def recipe_of(source: SourceModel, config: SghmcConfig) -> "SghmcRecipe":
    """Return the recipe with what its prior needs of the source."""
    if config.prior == "l2sp":
        return SghmcRecipe()
    first = first_weights(source).T
    if config.prior == "zero_mean":
        return SghmcRecipe(first)
    around_snapshots = snapshot_prior(
        snapshots_of(source, "sghmc with the prior ptyl"),
        gamma=config.gamma,
        eps=config.eps,
        layers=tuple(range(1, source.network.n_layers)),
        dtype=training_of(config).dtype,
    )
    return SghmcRecipe(first, around_snapshots)


@dataclass(frozen=True, eq=False)
class SghmcRecipe:
    """All rows with the noise variance of the probe, and the pull of the prior.

    `first` is theta_hat_1 (p + 1, width), None for L2SP; `around_snapshots` is the prior of PTYL.
    """

    first: Tensor | None = None
    around_snapshots: SnapshotPrior | None = None

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Return the rows of a chain."""
        y = start.y[start.trained]
        return Sample(np.full(y.size, 2.0), y, start.probe.head, noise_variance(start))

    def penalty(self, members: Members) -> Penalty:
        """Return the pull of the prior, on the scale of the mean loss."""
        if self.first is None:
            return Isotropic(members.values, [0.0, *members.between])
        if self.around_snapshots is not None:
            return PTYL.build(
                [self.around_snapshots],
                first=self.first,
                which=torch.zeros_like(members.n_rows),
                n_rows=members.n_rows,
            )
        first = -self.first.to(members.values)
        return Isotropic(members.values, [first, *[0.0] * len(members.between)])


def noise_variance(start: Start) -> float:
    """Return s^2 of the energy in squared standardised gaps."""
    return max(start.probe.residual_variance, LEAST_VARIANCE)


def outside_sd(config: SghmcConfig, *, n_rows: int, n_all: int, variance: float) -> Floats:
    """Return the sd (cycle,) of first-layer weights outside the row space at each cycle's end.

    `n_rows` are trained on, `n_all` make the mini-batches; `variance` is that of the energy's
    noise. (v, theta) has mean 0 and a covariance that each step maps by the matrix of the update,
    plus the noise that enters both.
    """
    steps = config.epochs * math.ceil(n_all / config.batch_size)
    covariance = np.zeros((2, 2))
    sds = []
    for _ in range(config.cycles):
        for step in range(steps):
            rate = annealed(config.learning_rate, share=step / steps)
            pull = -rate * config.strength
            move = np.array([[config.momentum, pull], [config.momentum, 1.0 + pull]])
            noise = velocity_noise_variance(
                1 - config.momentum, step=rate, temperature=config.temperature * variance / n_rows
            )
            covariance = move @ covariance @ move.T
            if step / steps >= 1 - NOISY_SHARE:
                covariance = covariance + noise
        sds.append(math.sqrt(covariance[1, 1]))
    return np.array(sds)


def training_of(config: SghmcConfig) -> StackTraining:
    """Return how a cycle is trained; raises ConfigError for invalid values."""
    return StackTraining(
        optimiser="sgd",
        learning_rate=config.learning_rate,
        momentum=config.momentum,
        epochs=config.epochs,
        batch_size=config.batch_size,
        clip=0.0,
        coordinates="row_space" if config.prior == "l2sp" else "full",
    )


METHOD: Final = Method(
    name="sghmc",
    family="many trained networks",
    standing="research",
    title="Stochastic-gradient sampling (SGHMC)",
    summary=(
        "Samples all layers around the source model with gradients of small batches, at a low"
        " temperature."
    ),
    references=(
        citations.SGHMC,
        'R. Zhang et al., "Cyclical stochastic gradient MCMC for Bayesian deep learning", ICLR '
        "2020.",
    ),
    duration="seconds",
    cost=Cost(1.2, 5.7),
    config=SghmcConfig,
    fit=fit,
    new_elements=True,
)
