"""A linear regression with more predictors than rows and a spike-and-slab prior.

Wang, Deng and Lin (2021), section 5.2: n = 100, p = 200, rows ~ N(0, 0.8^|i - j|), beta = (3, 1, 0,
...), noise variance 3. Prior: beta_j ~ gamma_j N(0, sigma^2 v1) + (1 - gamma_j) Laplace(0, scale
sigma v0), gamma_j ~ Bernoulli(delta), delta ~ Beta(a, b), sigma^2 ~ IG(nu / 2, nu lam / 2). gamma,
sigma and delta are updated by empirical Bayes after every step, omega_k = 2 (50 + k)^(-0.75); beta
is sampled given them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.gradients import batch_gradient
from bandgap.research.stochastic_gradient.protocol import select_chains
from bandgap.research.stochastic_gradient.samplers import AnyConfig, algorithm_of
from bandgap.research.stochastic_gradient.sgld import SgldConfig

NOISE_VARIANCE = 3.0
# Sum of squared residuals in units of that of beta = 0, above which a chain has diverged.
LARGEST_MISFIT = 10.0


@dataclass(frozen=True, eq=False)
class Regression:
    """Rows x (n, p) and labels y (n,), test rows and labels, and the true coefficients (p,)."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    truth: Tensor


def made_regression(
    *, seed: int, n: int = 100, p: int = 200, n_test: int = 50, correlation: float = 0.8
) -> Regression:
    """Draw the problem from a seed."""
    generator = torch.Generator().manual_seed(seed)
    distance = (torch.arange(p)[:, None] - torch.arange(p)[None]).abs().double()
    root = torch.linalg.cholesky(torch.tensor(correlation, dtype=torch.float64) ** distance)
    x = torch.randn(n + n_test, p, generator=generator, dtype=torch.float64) @ root.T
    truth = torch.zeros(p, dtype=torch.float64)
    truth[0], truth[1] = 3.0, 1.0
    noise = torch.randn(n + n_test, generator=generator, dtype=torch.float64)
    y = x @ truth + math.sqrt(NOISE_VARIANCE) * noise
    return Regression(x[:n], y[:n], x[n:], y[n:], truth)


@dataclass(frozen=True)
class SpikeAndSlab:
    """v1, v0, nu, lam, a of the prior; b is the number of predictors."""

    slab: float = 100.0
    spike: float = 0.1
    nu: float = 1.0
    lam: float = 1.0
    a: float = 1.0


@dataclass(frozen=True, eq=False)
class Inclusion:
    """What empirical Bayes follows for every chain: rho, k0, k1 (chain, p).

    Sigma and delta (chain, 1).
    """

    rho: Tensor
    spike_rate: Tensor
    slab_rate: Tensor
    sigma: Tensor
    delta: Tensor


def first_inclusion(chains: int, p: int, prior: SpikeAndSlab) -> Inclusion:
    """Return the start: delta = 1/2, sigma = 1, inclusion probabilities 1/2."""
    half = torch.full((chains, p), 0.5, dtype=torch.float64)
    one = torch.ones(chains, 1, dtype=torch.float64)
    return Inclusion(half, half / prior.spike, half / prior.slab, one, 0.5 * one)


@dataclass(frozen=True, eq=False)
class GivenInclusion:
    """The log posterior of beta (chain, p) given the values of empirical Bayes."""

    problem: Regression
    inclusion: Inclusion

    @property
    def n_rows(self) -> int:
        return int(self.problem.y.shape[0])

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return -k1 beta / sigma^2 - k0 sign(beta) / sigma."""
        of = self.inclusion
        return -of.slab_rate * position / of.sigma**2 - of.spike_rate * position.sign() / of.sigma

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return X_B'(y_B - X_B beta) / sigma^2."""
        x = self.problem.x[rows]
        residual = self.problem.y[rows] - (x @ position.unsqueeze(-1)).squeeze(-1)
        return (x.mT @ residual.unsqueeze(-1)).squeeze(-1) / self.inclusion.sigma**2


def followed(
    inclusion: Inclusion, beta: Tensor, rss: Tensor, *, prior: SpikeAndSlab, n: int, omega: float
) -> Inclusion:
    """Return the inclusion after a step to beta (chain, p).

    Rss (chain, 1) is the sum of all n squared errors.
    """
    p = beta.shape[1]
    sigma = inclusion.sigma
    delta = inclusion.delta
    slab_sd = sigma * math.sqrt(prior.slab)
    slab = (
        torch.log(delta)
        - 0.5 * (beta / slab_sd) ** 2
        - torch.log(slab_sd)
        - 0.5 * math.log(2 * math.pi)
    )
    spike = (
        torch.log1p(-delta)
        - beta.abs() / (sigma * prior.spike)
        - torch.log(2.0 * sigma * prior.spike)
    )
    new = torch.sigmoid(slab - spike)

    def smooth(old: Tensor, newest: Tensor) -> Tensor:
        return (1.0 - omega) * old + omega * newest

    rho = smooth(inclusion.rho, new)
    k0 = smooth(inclusion.spike_rate, (1.0 - new) / prior.spike)
    k1 = smooth(inclusion.slab_rate, new / prior.slab)
    ra = n + p + prior.nu + 2.0
    rb = (k0 * beta.abs()).sum(1, keepdim=True)
    rc = rss + (k1 * beta**2).sum(1, keepdim=True) + prior.nu * prior.lam
    root = (rb + torch.sqrt(rb**2 + 4.0 * ra * rc)) / (2.0 * ra)
    new_delta = (new.sum(1, keepdim=True) + prior.a - 1.0) / (prior.a + p + p - 2.0)
    return Inclusion(rho, k0, k1, smooth(sigma, root), smooth(delta, new_delta))


@dataclass(frozen=True, eq=False)
class Selected:
    """Means over the second half of a run: beta, rho (chain, p) and sigma (chain,).

    Mean squared errors on test rows.

    `test_error` (chain,) is that of the selected predictors, of rho above 1/2; `full_error` that of
    all: the spike's draws are narrow, not zero, and 198 of them fit part of the noise of 100 rows.
    Chains that diverged are left out; `diverged` has their numbers and iterations.
    """

    beta: Tensor
    rho: Tensor
    sigma: Tensor
    test_error: Tensor
    full_error: Tensor
    diverged: tuple[tuple[int, int], ...] = ()


def select(
    problem: Regression,
    *,
    chains: int = 4,
    iterations: int = 20_000,
    sampler: AnyConfig | None = None,
    batch_size: int | None = None,
    prior: SpikeAndSlab | None = None,
    seed: int = 0,
) -> Selected:
    """Sample beta by a sampler (default: SGLD with step 1e-3).

    A sampler with several walkers moves one of them in a step; the hyper-parameters follow the
    newest position.

    Raises
    ------
    DivergedError
        If all chains diverge: they fit the labels far worse than beta = 0 does.
    """
    config = sampler or SgldConfig(1e-3)
    algorithm = algorithm_of(config)
    prior = prior or SpikeAndSlab()
    n, p = problem.x.shape
    generator = torch.Generator().manual_seed(seed)
    inclusion = first_inclusion(chains, p, prior)
    shape = (chains, p) if config.walkers == 1 else (chains, config.walkers, p)
    state = algorithm.init(config, torch.zeros(shape, dtype=torch.float64))
    sums = [torch.zeros(chains, width, dtype=torch.float64) for width in (p, p, 1)]
    numbers = torch.arange(chains)
    diverged: list[tuple[int, int]] = []

    def normals() -> Tensor:
        return torch.randn(len(numbers), p, generator=generator, dtype=torch.float64)

    for k in range(iterations):
        target = GivenInclusion(problem, inclusion)
        rows = (
            torch.arange(n).expand(len(numbers), n)
            if batch_size is None
            else torch.rand(len(numbers), n, generator=generator).topk(batch_size).indices
        )
        state, _ = algorithm.step(
            config,
            state,
            batch_gradient(target, rows),
            normals,
            h=config.step,
            adapt=2 * k < iterations,
        )
        beta = algorithm.position(state)
        residual = problem.y[rows] - (problem.x[rows] @ beta.unsqueeze(-1)).squeeze(-1)
        rss = (n / rows.shape[1]) * residual.square().sum(1, keepdim=True)
        sound = rss[:, 0] <= LARGEST_MISFIT * float(problem.y.square().sum())  # False for NaN
        if not bool(sound.all()):
            diverged += [(int(chain), k) for chain in numbers[~sound]]
            if not bool(sound.any()):
                raise DivergedError(
                    f"{type(config).__name__}: all {chains} chains diverged by iteration {k + 1}. "
                    f"The step {config.step} is too long; try a tenth of it."
                )
            numbers = numbers[sound]
            state = select_chains(state, sound)
            inclusion = select_chains(inclusion, sound)
            beta = beta[sound]
            rss = rss[sound]
            sums = [total[sound] for total in sums]
        omega = min(1.0, 2.0 * (50.0 + k) ** -0.75)
        inclusion = followed(inclusion, beta, rss, prior=prior, n=n, omega=omega)
        if 2 * k >= iterations:
            sums = [
                old + new
                for old, new in zip(sums, (beta, inclusion.rho, inclusion.sigma), strict=True)
            ]
    beta, rho, sigma = (total / (iterations - (iterations + 1) // 2) for total in sums)
    errors = [
        (problem.y_test - used @ problem.x_test.T).square().mean(1)
        for used in (torch.where(rho > 0.5, beta, 0.0), beta)
    ]
    return Selected(beta, rho, sigma[:, 0], errors[0], errors[1], tuple(diverged))
