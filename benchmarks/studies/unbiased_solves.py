"""The poster of Filippone and Engler: traditional linear solvers against ULISSE, and inference.

The poster's figures are lost, and it states no data. Here a Matern field of smoothness 1.5 at
random points of the unit square. All solvers are truncations of the series of conjugate gradients:
complete, after a fixed number of products, or random (`bandgap.research.unbiased_solves`). The
posterior is compared with Metropolis on the exact likelihood.
"""

import math

import numpy as np

from bandgap.research.unbiased_solves.conjugate_gradients import KernelMatrix
from bandgap.research.unbiased_solves.gradient import FREE, gradient_estimate
from bandgap.research.unbiased_solves.langevin import Problem, UlisseConfig, sample_ulisse
from bandgap.research.unbiased_solves.series import Truncation
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.gp import weak_priors
from bandgap.research.vecchia.likelihood import Theta
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from benchmarks.studies.study import Floats, Key, Part, Statement, Values, mean_part, study_of

TRUTH = Theta(1.0, 0.1, 1.5, 0.1)
# Where gradients are compared: far from the mode, so that the exact gradient is not near 0.
ELSEWHERE = Theta(0.6, 0.07, 1.5, 0.15)
BETAS = (0.02, 0.05, 0.1, 0.2)
COMPLETE = "CG to 1e-10"
PLAIN = "no preconditioner"
RANK = 20
PRECONDITIONED = f"pivoted Cholesky, rank {RANK}"
# A rate at which the next term has a probability of 1e-22.
NEVER = 50.0
SOLVERS = {
    COMPLETE: Truncation(NEVER, always=5000, most=5001),
    **{f"CG, {n} products": Truncation(NEVER, always=n, most=n + 1) for n in (5, 10, 20)},
    **{
        f"ULISSE {reading}, beta {beta:g}": Truncation(beta, always=10, reading=reading)
        for reading in ("geometric", "quadratic")
        for beta in BETAS
    },
}
NORM = "relative square norm of the gradient's error"
BIAS = "relative square norm of the gradient's bias"
SCORE = "largest deviation of the mean in standard errors"
PRODUCTS = "products with K of a solve"
MEANS = "posterior mean (in standard deviations from Metropolis)"
SPREADS = "posterior standard deviation (ratio to Metropolis)"
ULISSE = "SGLD with ULISSE"


def compute(seed: int, *, n: int, replicates: int, draws: int, metropolis: int) -> Values:
    """Compare gradients of all solvers, and the posterior with Metropolis."""
    rng = np.random.default_rng([seed, n])
    points = rng.random((n, 2))
    y = np.linalg.cholesky(KernelMatrix(points, TRUTH)(np.eye(n))) @ rng.standard_normal(n)
    kernel = KernelMatrix(points, ELSEWHERE)
    exact = exact_gradient(kernel, y)
    size = float(exact @ exact)
    values: Values = {}
    for title, rank in ((PLAIN, 0), (PRECONDITIONED, RANK)):
        precondition = kernel.preconditioner(rank) if rank else None
        for name, cut in SOLVERS.items():
            estimates = [
                gradient_estimate(kernel, y, cut, rng, precondition=precondition)
                for _ in range(replicates)
            ]
            errors = np.array([estimate.gradient for estimate in estimates]) - exact
            mean = errors.mean(0)
            score = np.abs(mean) / (errors.std(0, ddof=1) / math.sqrt(replicates))
            products = np.array([estimate.products / 3 for estimate in estimates])
            values[Key(name, title, NORM)] = (errors**2).sum(1) / size
            # Their mean is the squared bias, their spread that of its first-order error.
            values[Key(name, title, BIAS)] = (2 * errors @ mean - mean @ mean) / size
            values[Key(name, title, SCORE)] = score.max(keepdims=True)
            values[Key(name, title, PRODUCTS)] = products
    return values | posteriors(points, y, draws=draws, metropolis=metropolis, seed=seed)


def exact_gradient(kernel: KernelMatrix, y: Floats) -> Floats:
    """Return the exact gradient (3,) from a dense inverse."""
    inverse = np.linalg.inv(kernel(np.eye(len(y))))
    solved = inverse @ y
    slopes = [kernel.slope(j, np.eye(len(y))) for j in FREE]
    return np.array([0.5 * (solved @ slope @ solved - (inverse * slope).sum()) for slope in slopes])


def posteriors(points: Floats, y: Floats, *, draws: int, metropolis: int, seed: int) -> Values:
    """Return mean and spread of ULISSE's chains, in units of the posterior by Metropolis."""
    covariates = np.ones((len(y), 1))
    priors = weak_priors(TRUTH)
    config = UlisseConfig(chains=6, draws=draws, warmup=max(20, draws // 10))
    ulisse = sample_ulisse(Problem(points, covariates, y, priors), TRUTH, config, seed=seed).eta
    target = Target(DenseSites(points, covariates, y), priors, nu=1.5)
    mode = find_mode(target, target.eta(TRUTH))
    lengths = MetropolisConfig(chains=2, draws=metropolis)
    exact = sample_metropolis(target, mode, lengths, seed=seed).eta
    sd = exact.std((0, 1))
    values: Values = {}
    for j, name in enumerate(target.names):
        chains = ulisse[..., j]
        values[Key(f"log {name}", ULISSE, MEANS)] = (chains.mean(1) - exact[..., j].mean()) / sd[j]
        values[Key(f"log {name}", ULISSE, SPREADS)] = chains.std(1) / sd[j]
    return values


def statements(values: Values) -> list[Statement]:
    """Return what the poster says."""
    geometric = [f"ULISSE geometric, beta {beta:g}" for beta in BETAS]

    def means(quantity: str, title: str = PRECONDITIONED) -> dict[str, float]:
        return {name: float(values[Key(name, title, quantity)].mean()) for name in SOLVERS}

    def near(quantity: str, low: float, high: float) -> list[Part]:
        return [
            mean_part(f"{quantity}, {key.setting}", part, low=low, high=high)
            for key, part in values.items()
            if key.quantity == quantity
        ]

    scores = [means(SCORE, title)[name] for title in (PLAIN, PRECONDITIONED) for name in geometric]
    norm = means(NORM)
    products = means(PRODUCTS)
    accurate = [products[name] for name in geometric if norm[name] < 1.25 * norm[COMPLETE]]
    share = min(accurate, default=math.inf) / products[COMPLETE]
    largest = max(norm[name] for name in geometric)
    return [
        Statement(
            "The solution, and with it the gradient, is unbiased.",
            [mean_part("largest deviation in standard errors", np.array([max(scores)]), high=4.0)],
            f"{3 * len(scores)} means, geometric reading",
        ),
        Statement(
            "The relative error of the gradient is small.",
            [mean_part("largest relative square norm", np.array([largest]), high=0.25)],
            "with a preconditioner, geometric reading; read as small if below 1/4",
        ),
        Statement(
            "ULISSE is faster than a complete solve for about the same error of the gradient.",
            [mean_part("share of the products", np.array([share]), high=0.5)],
            f"{PRECONDITIONED}. Faster is read as half the products at an error below 1.25 times "
            "that of complete solves; solves of a fixed number of products are biased",
        ),
        Statement(
            "SGLD with ULISSE is accurate for the posterior of the covariance's parameters.",
            [*near(MEANS, -0.3, 0.3), *near(SPREADS, 0.75, 1.25)],
            "read as accurate below 0.3 and 25 %",
        ),
    ]


STUDY = study_of("ulisse", compute, statements=statements)
