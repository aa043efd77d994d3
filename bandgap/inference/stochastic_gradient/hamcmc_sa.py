r"""HAMCMC-SA (Wang, Deng and Lin, 2021) in a form that samples the posterior, and the normalised form as published.

    theta' = theta + h v / (1 + h |v|) + sqrt(2 h / tau) S z,   v = G g,   S S' = G,

G an average of L-BFGS matrices by stochastic approximation (`mixture_metric`), omega_k = c1 (k + c2)^(-alpha), the mean
over all chains, frozen when warm-up ends: then G is constant and what is left of bias is the step's. A new matrix comes
in every `every` steps; of J kept, the oldest hands its weight to the next. The drift is tamed, the noise is not.

`normalise="as published, not the posterior"` is Algorithm 2, steps 7 to 9: v / |v| and S z / |S z|. Its law has nothing
to do with the posterior's scale: with G = I every spherical unimodal target gives a radius ~ Gamma(dim, tau dim). The
authors average factors and vectors where a matrix is meant, and write y with the wrong sign; both are corrected here.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.stochastic_gradient.gradients import Gradient
from bandgap.inference.stochastic_gradient.hamcmc import check_pairs, tamed
from bandgap.inference.stochastic_gradient.lbfgs import Factor, Pairs, factor, no_pairs
from bandgap.inference.stochastic_gradient.mixture_metric import Metric, identity_metric, mixture
from bandgap.inference.stochastic_gradient.protocol import (
    SHARED,
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    check_step,
    step_figures,
)

Normalise = Literal["", "as published, not the posterior"]

BIASED = SamplerWarning(
    "biased",
    "HAMCMC-SA goes on adapting its metric after warm-up, which leaves a bias of the order of omega. Set "
    "freeze_after_warmup to true.",
)
NOT_A_POSTERIOR = SamplerWarning(
    "not a posterior",
    "HAMCMC-SA with normalised steps, as it was published, does not sample the posterior: it is an optimiser with "
    "noise. Its draws say nothing of uncertainty.",
)


@dataclass(frozen=True)
class HamcmcSaConfig:
    """Step h, inverse temperature tau, M pairs a matrix, J matrices, omega, the pairs' lambda, r and delta.

    Two gradients a step while pairs are collected, one afterwards.
    """

    walkers: ClassVar[int] = 1

    step: float
    inverse_temperature: float = 1.0
    memory: int = 3
    snapshots: int = 8
    every: int = 50
    omega: tuple[float, float, float] = (2.0, 10.0, 0.9)  # c1, c2, alpha
    regularise: float = 1.0
    damp_below: float = 0.25
    least_curvature: float = 1.0
    freeze_after_warmup: bool = True
    normalise: Normalise = ""

    def __post_init__(self) -> None:
        check_step("hamcmc_sa", step=self.step, inverse_temperature=self.inverse_temperature)
        check_pairs("hamcmc_sa", self.regularise, self.damp_below, self.least_curvature)
        if min(self.memory, self.snapshots, self.every) < 1:
            raise ConfigError(
                f"hamcmc_sa: memory {self.memory}, {self.snapshots} snapshots, every {self.every}. Accepted: whole "
                "numbers from 1."
            )
        c1, c2, alpha = self.omega
        if not (
            c1 > 0
            and c2 > -1
            and 0.5 < alpha <= 1
            and self.omega_at(1) <= 1
            and (alpha < 1 or c1 > 0.5)
        ):
            raise ConfigError(
                f"hamcmc_sa: omega = {c1} (k + {c2})^(-{alpha}). Accepted: alpha above 0.5 up to 1, with c1 above 0.5 "
                "at 1, and omega at most 1 from k = 1."
            )

    def omega_at(self, k: int) -> float:
        """Return omega_k, k from 1."""
        c1, c2, alpha = self.omega
        return float(c1 * (k + c2) ** -alpha)

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return that an unfrozen metric is biased, and that normalised steps sample no posterior."""
        found = () if self.freeze_after_warmup else (BIASED,)
        return (*found, NOT_A_POSTERIOR) if self.normalise else found


@dataclass(frozen=True, eq=False)
class Average:
    """The kept matrices' pairs (J, chain, M, dim), their weights (J,), that of G_0 (), and how many came in ()."""

    s: Tensor = field(metadata=SHARED)
    y: Tensor = field(metadata=SHARED)
    weights: Tensor = field(metadata=SHARED)
    first: Tensor = field(metadata=SHARED)
    count: Tensor = field(metadata=SHARED)


@dataclass(frozen=True, eq=False)
class HamcmcSaState:
    """Positions (chain, dim), pairs of every chain, the average, the metric that it makes, and steps taken ()."""

    position: Tensor
    pairs: Pairs
    average: Average = field(metadata=SHARED)
    metric: Metric = field(metadata=SHARED)
    taken: Tensor = field(metadata=SHARED)


def init(config: HamcmcSaConfig, position: Tensor) -> HamcmcSaState:
    """Start at positions (chain, dim) with G_0 = I / delta."""
    pairs = no_pairs(position, config.memory)
    empty = position.new_zeros(config.snapshots, *pairs.s.shape)
    weights, counter = (
        torch.zeros(config.snapshots, dtype=torch.float64),
        torch.zeros((), dtype=torch.int64),
    )
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
    """Move every chain once; the metric follows in warm-up, and after it where it is not frozen."""
    g, metric, damped = gradient(state.position).total, state.metric, None
    v, noise = metric.times(g), metric.root_times(normals())
    if config.normalise:
        drift, noise = v / v.norm(dim=-1, keepdim=True), noise / noise.norm(dim=-1, keepdim=True)
    else:
        drift = tamed(v, h)
    position = state.position + h * drift + math.sqrt(2.0 * h / config.inverse_temperature) * noise
    pairs, average = state.pairs, state.average
    if adapt or not config.freeze_after_warmup:
        s = position - state.position
        pairs = pairs.pushed(s, g - gradient(position).total + config.regularise * s)
        if (int(state.taken) + 1) % config.every == 0:
            average = taken_in(config, average, pairs)
            f = factor_of(config, average)
            metric, damped = metric_of(config, average, f), float(f.damped[-1].mean())
    moved = step_figures(g, drift if config.normalise else v, h=h, damped=damped)
    return HamcmcSaState(position, pairs, average, metric, state.taken + 1), moved


def taken_in(config: HamcmcSaConfig, average: Average, pairs: Pairs) -> Average:
    """Return the average with one more matrix of every chain; the oldest of J leaves its weight to the next."""
    if average.s.shape[1] != pairs.s.shape[0]:  # chains have ended: what they left goes too
        average = Average(
            *_empty_like(average, pairs),
            average.weights * 0,
            average.first * 0 + 1,
            average.count * 0,
        )
    count = average.count + 1
    omega = config.omega_at(int(count))
    weights, first = average.weights * (1.0 - omega), average.first * (1.0 - omega)
    dropped = weights[0].clone()
    weights = torch.cat([weights[1:], weights.new_tensor([omega])])
    weights[0] += dropped if config.snapshots > 1 else 0.0
    if config.snapshots == 1:
        weights[-1] += dropped
    s, y = torch.cat([average.s[1:], pairs.s[None]]), torch.cat([average.y[1:], pairs.y[None]])
    return Average(s, y, weights, first, count)


def _empty_like(average: Average, pairs: Pairs) -> tuple[Tensor, Tensor]:
    empty = pairs.s.new_zeros(average.s.shape[0], *pairs.s.shape)
    return empty, empty


def factor_of(config: HamcmcSaConfig, average: Average) -> Factor:
    """Return the factors (J, chain, ...) of all kept matrices."""
    return factor(Pairs(average.s, average.y), delta=config.least_curvature, r=config.damp_below)


def metric_of(config: HamcmcSaConfig, average: Average, f: Factor) -> Metric:
    """Return the metric of the average."""
    weights = average.weights.to(f.s)
    return mixture(f, weights, first=float(average.first), first_scale=1.0 / config.least_curvature)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)
