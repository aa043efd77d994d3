"""HAMCMC-SA (Wang, Deng and Lin, 2021), corrected so that it samples the posterior.

    theta' = theta + h v / (1 + h |v|) + sqrt(2 h / tau) S z,   v = G g,   S S' = G,

G is an average of L-BFGS matrices of all chains by stochastic approximation (`mixture_metric`),
with omega_k = c1 (k + c2)^(-alpha). It is frozen when warm-up ends, so that only the bias of the
step length remains. A new matrix is added every `every` steps. J matrices are stored; the oldest
one passes its weight to the next. The drift is tamed, the noise is not.

`normalise="normalised steps, not the posterior"` is Algorithm 2, steps 7 to 9: v / |v| and
S z / |S z|. Its law does not depend on the scale of the posterior: with G = I every spherical
unimodal target gives a radius ~ Gamma(dim, tau dim). The other steps of Algorithm 2 are not as
printed: the authors average factors and vectors where the matrix must be averaged, and print y with
the wrong sign. Both are corrected here, whatever `normalise` is.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import torch
from torch import Tensor

from bandgap.foundation.config import Count, NonNegative, Positive, ProperShare, Settings
from bandgap.foundation.errors import ConfigError
from bandgap.research.stochastic_gradient.gradients import Gradient
from bandgap.research.stochastic_gradient.hamcmc import tamed
from bandgap.research.stochastic_gradient.lbfgs import Factor, Pairs, factor, no_pairs
from bandgap.research.stochastic_gradient.mixture_metric import Metric, identity_metric, mixture
from bandgap.research.stochastic_gradient.protocol import (
    SHARED,
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    step_figures,
)

Normalise = Literal["", "normalised steps, not the posterior"]

BIASED = SamplerWarning(
    "biased",
    "HAMCMC-SA keeps adapting its metric after warm-up, which leaves a bias of the order of "
    "omega. Set freeze_after_warmup to true.",
)
NOT_A_POSTERIOR = SamplerWarning(
    "not a posterior",
    "HAMCMC-SA with normalised steps, as in the publication, does not sample the posterior: it is "
    "an optimiser with noise. Its draws say nothing of uncertainty.",
)


@dataclass(frozen=True)
class HamcmcSaConfig(Settings):
    """Settings of HAMCMC-SA: two gradients per step while pairs are collected, one afterwards.

    Parameters
    ----------
    step
        h.
    inverse_temperature
        tau; the target is exp(tau L).
    memory
        Number M of pairs of each matrix, as in section 5.1 of the paper.
    snapshots
        Number J of stored matrices. The paper does not state it; 8 because the matrices themselves
        are averaged, which needs memory for 2 J M dim numbers.
    every
        Steps from one new matrix to the next. The paper has 1; 50 because with 1 all stored
        matrices would come from the last 10 steps.
    omega
        c1, c2 and alpha of omega_k, as in section 5.1 of the paper.
    regularise
        lambda of the pairs (`lbfgs`). The paper has 0; 1 because without it, and without a tamed
        drift, chains on the density of section 5.1 diverge (study `hamcmc-1`).
    damp_below
        r of the pairs. The paper does not state it; 0.25 because Wang, Ma, Goldfarb and Liu (2017),
        whose damping it takes, have this value.
    least_curvature
        delta of the pairs.
    freeze_after_warmup
        Whether the metric is constant after warm-up. The paper has False; True because a metric
        that adapts leaves a bias of the order of omega.
    normalise
        Whether steps are normalised. The paper has normalised steps; "" because normalised steps
        do not sample the posterior.
    """

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0
    memory: Count = 3
    snapshots: Count = 8
    every: Count = 50
    omega: tuple[float, float, float] = (2.0, 10.0, 0.9)  # c1, c2, alpha
    regularise: NonNegative = 1.0
    damp_below: ProperShare = 0.25
    least_curvature: Positive = 1.0
    freeze_after_warmup: bool = True
    normalise: Normalise = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        c1, c2, alpha = self.omega
        if not (
            c1 > 0
            and c2 > -1
            and 0.5 < alpha <= 1
            and self.omega_at(1) <= 1
            and (alpha < 1 or c1 > 0.5)
        ):
            raise ConfigError(
                f"hamcmc_sa: omega = {c1} (k + {c2})^(-{alpha}). Accepted: alpha above 0.5 up to "
                "1, with c1 above 0.5 at 1, and omega at most 1 from k = 1."
            )

    def omega_at(self, k: int) -> float:
        """Return omega_k, k from 1."""
        c1, c2, alpha = self.omega
        return float(c1 * (k + c2) ** -alpha)

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return warnings for a metric that is not frozen and for normalised steps."""
        biased = () if self.freeze_after_warmup else (BIASED,)
        return (*biased, NOT_A_POSTERIOR) if self.normalise else biased


@dataclass(frozen=True, eq=False)
class Average:
    """Stored matrices and their weights.

    Pairs s and y (J, chain, M, dim), weights (J,), the weight of G_0 (), and the number of matrices
    that were added ().
    """

    s: Tensor = field(metadata=SHARED)
    y: Tensor = field(metadata=SHARED)
    weights: Tensor = field(metadata=SHARED)
    first: Tensor = field(metadata=SHARED)
    count: Tensor = field(metadata=SHARED)


@dataclass(frozen=True, eq=False)
class HamcmcSaState:
    """Positions (chain, dim), pairs of every chain, average, its metric, and number of steps ()."""

    position: Tensor
    pairs: Pairs
    average: Average = field(metadata=SHARED)
    metric: Metric = field(metadata=SHARED)
    n_steps: Tensor = field(metadata=SHARED)


def init(config: HamcmcSaConfig, position: Tensor) -> HamcmcSaState:
    """Start at positions (chain, dim) with G_0 = I / delta."""
    pairs = no_pairs(position, config.memory)
    empty = position.new_zeros(config.snapshots, *pairs.s.shape)
    weights = torch.zeros(config.snapshots, dtype=torch.float64)
    counter = torch.zeros((), dtype=torch.int64)
    average = Average(empty, empty, weights, torch.ones((), dtype=torch.float64), counter)
    metric = identity_metric(position, scale=1.0 / config.least_curvature)
    return HamcmcSaState(position, pairs, average, metric, counter)


def step(
    config: HamcmcSaConfig,
    state: HamcmcSaState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[HamcmcSaState, StepFigures]:
    """Move every chain once; the metric adapts in warm-up, and afterwards unless it is frozen."""
    g = gradient(state.position).total
    metric = state.metric
    damped = None
    v = metric.times(g)
    noise = metric.root_times(normals())
    if config.normalise:
        drift = v / v.norm(dim=-1, keepdim=True)
        noise = noise / noise.norm(dim=-1, keepdim=True)
    else:
        drift = tamed(v, h)
    position = state.position + h * drift + math.sqrt(2.0 * h / config.inverse_temperature) * noise
    pairs = state.pairs
    average = state.average
    if adapt or not config.freeze_after_warmup:
        s = position - state.position
        pairs = pairs.pushed(s, g - gradient(position).total + config.regularise * s)
        if (int(state.n_steps) + 1) % config.every == 0:
            average = with_matrix(config, average, pairs)
            f = snapshot_factors(config, average)
            metric = average_metric(config, average, f)
            damped = float(f.damped[-1].mean())
    figures = step_figures(g, drift if config.normalise else v, h=h, damped=damped)
    return HamcmcSaState(position, pairs, average, metric, state.n_steps + 1), figures


def with_matrix(config: HamcmcSaConfig, average: Average, pairs: Pairs) -> Average:
    """Return the average with one more matrix of every chain.

    The oldest of J matrices passes its weight to the next.
    """
    if average.s.shape[1] != pairs.s.shape[0]:  # chains have ended: drop the matrices of all chains
        average = Average(
            *_empty_like(average, pairs),
            average.weights * 0,
            average.first * 0 + 1,
            average.count * 0,
        )
    count = average.count + 1
    omega = config.omega_at(int(count))
    weights = average.weights * (1.0 - omega)
    first = average.first * (1.0 - omega)
    dropped = weights[0].clone()
    weights = torch.cat([weights[1:], weights.new_tensor([omega])])
    weights[0] += dropped if config.snapshots > 1 else 0.0
    if config.snapshots == 1:
        weights[-1] += dropped
    s = torch.cat([average.s[1:], pairs.s[None]])
    y = torch.cat([average.y[1:], pairs.y[None]])
    return Average(s, y, weights, first, count)


def _empty_like(average: Average, pairs: Pairs) -> tuple[Tensor, Tensor]:
    empty = pairs.s.new_zeros(average.s.shape[0], *pairs.s.shape)
    return empty, empty


def snapshot_factors(config: HamcmcSaConfig, average: Average) -> Factor:
    """Return the factors (J, chain, ...) of the stored matrices."""
    return factor(Pairs(average.s, average.y), delta=config.least_curvature, r=config.damp_below)


def average_metric(config: HamcmcSaConfig, average: Average, f: Factor) -> Metric:
    """Return the metric of the average."""
    weights = average.weights.to(f.s)
    return mixture(f, weights, first=float(average.first), first_scale=1.0 / config.least_curvature)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)
