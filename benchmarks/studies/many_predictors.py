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
from torch.distributions import Laplace, Normal

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.gradients import batch_gradient
from bandgap.research.stochastic_gradient.protocol import select_chains
from bandgap.research.stochastic_gradient.samplers import AnyConfig, algorithm_of

NOISE_VARIANCE = 3.0
# Sum of squared residuals in units of that of beta = 0, above which a chain has diverged.
LARGEST_MISFIT = 10.0
# v1, v0, nu, lam and a of the prior; b is the number of predictors.
SLAB = 100.0
SPIKE = 0.1
NU = 1.0
LAM = 1.0
A = 1.0


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


def first_inclusion(chains: int, p: int) -> Inclusion:
    """Return the start: delta = 1/2, sigma = 1, inclusion probabilities 1/2."""
    half = torch.full((chains, p), 0.5, dtype=torch.float64)
    one = torch.ones(chains, 1, dtype=torch.float64)
    return Inclusion(half, half / SPIKE, half / SLAB, one, 0.5 * one)


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


def followed(inclusion: Inclusion, beta: Tensor, rss: Tensor, *, n: int, omega: float) -> Inclusion:
    """Return the inclusion after a step to beta (chain, p).

    Rss (chain, 1) is the sum of all n squared errors.
    """
    p = beta.shape[1]
    sigma, delta = inclusion.sigma, inclusion.delta
    normal = Normal(0.0, sigma * math.sqrt(SLAB))
    laplace = Laplace(0.0, sigma * SPIKE)
    slab = torch.log(delta) + normal.log_prob(beta)  # type: ignore[no-untyped-call]
    spike = torch.log1p(-delta) + laplace.log_prob(beta)  # type: ignore[no-untyped-call]
    new = torch.sigmoid(slab - spike)

    def smooth(old: Tensor, newest: Tensor) -> Tensor:
        return (1.0 - omega) * old + omega * newest

    rho = smooth(inclusion.rho, new)
    k0 = smooth(inclusion.spike_rate, (1.0 - new) / SPIKE)
    k1 = smooth(inclusion.slab_rate, new / SLAB)
    ra = n + p + NU + 2.0
    rb = (k0 * beta.abs()).sum(1, keepdim=True)
    rc = rss + (k1 * beta**2).sum(1, keepdim=True) + NU * LAM
    root = (rb + torch.sqrt(rb**2 + 4.0 * ra * rc)) / (2.0 * ra)
    new_delta = (new.sum(1, keepdim=True) + A - 1.0) / (A + p + p - 2.0)
    return Inclusion(rho, k0, k1, smooth(sigma, root), smooth(delta, new_delta))


@dataclass(frozen=True, eq=False)
class Selected:
    """Means over the second half of a run, beta and rho (chain, p), and errors on test rows.

    `test_error` (chain,) is that of the selected predictors, of rho above 1/2; `full_error` that of
    all: the spike's draws are narrow, not zero, and 198 of them fit part of the noise of 100 rows.
    Chains that diverged are left out.
    """

    beta: Tensor
    rho: Tensor
    test_error: Tensor
    full_error: Tensor


def select(
    problem: Regression, config: AnyConfig, *, chains: int = 4, iterations: int, seed: int
) -> Selected:
    """Sample beta by a sampler with all rows.

    A sampler with several walkers moves one of them in a step; the hyper-parameters follow the
    newest position. Raises DivergedError if all chains fit the labels far worse than beta = 0 does.
    """
    algorithm = algorithm_of(config)
    n, p = problem.x.shape
    generator = torch.Generator().manual_seed(seed)
    inclusion = first_inclusion(chains, p)
    shape = (chains, *([config.walkers] if config.walkers > 1 else []), p)
    state = algorithm.init(config, torch.zeros(shape, dtype=torch.float64))
    totals = torch.zeros(2, chains, p, dtype=torch.float64)

    def normals() -> Tensor:
        return torch.randn(totals.shape[1:], generator=generator, dtype=torch.float64)

    for k in range(iterations):
        rows = torch.arange(n).expand(totals.shape[1], n)
        gradient = batch_gradient(GivenInclusion(problem, inclusion), rows)
        adapt = 2 * k < iterations
        state, _ = algorithm.step(config, state, gradient, normals, h=config.step, adapt=adapt)
        beta = algorithm.position(state)
        rss = (problem.y - beta @ problem.x.T).square().sum(1, keepdim=True)
        sound = rss[:, 0] <= LARGEST_MISFIT * problem.y.square().sum()  # False for NaN
        if not sound.any():
            raise DivergedError(f"{type(config).__name__}: all {chains} chains diverged.")
        if not sound.all():
            state = select_chains(state, sound)
            inclusion = select_chains(inclusion, sound)
            beta, rss, totals = beta[sound], rss[sound], totals[:, sound]
        omega = min(1.0, 2.0 * (50.0 + k) ** -0.75)
        inclusion = followed(inclusion, beta, rss, n=n, omega=omega)
        if not adapt:
            totals += torch.stack([beta, inclusion.rho])
    beta, rho = totals / (iterations // 2)
    errors = [
        (problem.y_test - used @ problem.x_test.T).square().mean(1)
        for used in (torch.where(rho > 0.5, beta, 0.0), beta)
    ]
    return Selected(beta, rho, *errors)
