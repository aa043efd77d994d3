r"""Langevin dynamics of an exact Gaussian process with gradients from unbiased solves.

    eta' = eta + h D^-1 g~ + sqrt(2 h) D^(-1/2) z

D is the Fisher information at the start, estimated by random signs, plus the prior's curvature. It
is fixed. There are no batches: the randomness of g~ is in the linear algebra. With one probe its
variance is about D, which widens a normal posterior by h / 2. All kernels have the preconditioner
of the start, which does not change the mean.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from bandgap.foundation.config import Count, ProperShare, Settings, WholeNumber
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import first_that_stays, part_of_checkpoint
from bandgap.research.unbiased_solves.budget import budget_of
from bandgap.research.unbiased_solves.conjugate_gradients import KernelMatrix, solve
from bandgap.research.unbiased_solves.gradient import FREE, gradient_estimate, trace_information
from bandgap.research.unbiased_solves.series import Floats, Truncation
from bandgap.research.vecchia.chains import BLOCK, Draws
from bandgap.research.vecchia.langevin import Gradient, all_diverged, run_langevin
from bandgap.research.vecchia.likelihood import Theta
from bandgap.research.vecchia.target import Priors

METRIC_PROBES = 20


@dataclass(frozen=True)
class UlisseConfig(Settings):
    """Step h, probes, truncation, rank of the preconditioner, and lengths of chains."""

    step: ProperShare = 0.1
    probes: Count = 1
    truncation: Truncation = field(default_factory=Truncation)
    rank: WholeNumber = 20
    chains: Count = 2
    warmup: WholeNumber = 50
    draws: Count = 600
    thin: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws % self.thin:
            raise ConfigError(
                f"ulisse: {self.draws} draws, thin {self.thin}. Accepted: draws a multiple of thin."
            )


@dataclass(frozen=True, eq=False)
class Problem:
    """Points (n, q), covariates (n, p), observations (n,) and the priors of theta."""

    points: Floats
    covariates: Floats
    y: Floats
    priors: Priors

    def trend(self, theta: Theta, *, rank: int) -> tuple[Floats, Floats]:
        """Return the most probable beta (p,) at theta and its precision (p, p)."""
        kernel = KernelMatrix(self.points, theta)
        precondition = kernel.preconditioner(rank) if rank else None
        solved = np.column_stack(
            [
                solve(kernel, row, terms=len(self.y), precondition=precondition).solution
                for row in self.covariates.T
            ]
        )
        precision = self.covariates.T @ solved
        return np.asarray(
            np.linalg.solve(precision, solved.T @ self.y), dtype=np.float64
        ), precision

    def draw_trend(self, theta: Theta, rng: np.random.Generator, *, rank: int) -> Floats:
        """Return a draw of beta (p,) given theta."""
        mean, precision = self.trend(theta, rank=rank)
        noise = np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(mean.size))
        return np.asarray(mean + noise, dtype=np.float64)


def sample_ulisse(
    problem: Problem,
    start: Theta,
    config: UlisseConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws of eta, the logs of sigma2, rho and tau2, near `start`; the smoothness is fixed.

    Every 25 steps the trend is drawn given eta, by complete solves. Before the chains start,
    `progress` gets the budget as the message of "planning the solves". Raises InputError if the
    error of the solves is too large.
    """
    kernel = KernelMatrix(problem.points, start)
    precondition = kernel.preconditioner(config.rank) if config.rank else None
    beta, _ = problem.trend(start, rank=config.rank)
    residual = problem.y - problem.covariates @ beta
    cut = config.truncation
    steps = config.chains * (config.warmup + config.draws)
    budget = budget_of(
        kernel,
        residual,
        cut,
        steps=steps,
        probes=config.probes,
        trends=beta.size / BLOCK,
        metric_probes=METRIC_PROBES,
        precondition=precondition,
    )
    progress(Update("planning the solves", message=str(budget)))
    rng = np.random.default_rng([seed, 0x0115])
    most = cut.most
    eta0 = np.log(np.array(start))[list(FREE)]
    metric = trace_information(
        kernel, probes=METRIC_PROBES, terms=most, rng=rng, precondition=precondition
    )
    metric = metric + np.diag(
        [problem.priors[j].curvature(e) for j, e in zip(FREE, eta0, strict=True)]
    )

    def begin(eta: Floats, rng: np.random.Generator) -> Gradient:
        residual = problem.y - problem.covariates @ problem.draw_trend(
            theta_at(eta, start), rng, rank=config.rank
        )

        def gradient(eta: Floats, rng: np.random.Generator) -> Floats:
            current = KernelMatrix(problem.points, theta_at(eta, start))
            estimate = gradient_estimate(
                current, residual, cut, rng, probes=config.probes, precondition=precondition
            )
            return estimate.gradient + [
                problem.priors[j].gradient(e) for j, e in zip(FREE, eta, strict=True)
            ]

        return gradient

    path, figures, warnings = run_langevin(
        begin,
        eta0,
        metric,
        config,
        problem=(problem, start),
        seed=seed,
        rng=rng,
        progress=progress,
        checkpoint=checkpoint,
    )
    figures |= {"products_planned": budget.total, "solve_scatter": budget.scatter}
    return Draws(path, np.empty((*path.shape[:2], 0)), figures, warnings)


def sample_by_smaller_steps(
    problem: Problem,
    start: Theta,
    config: UlisseConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws of `sample_ulisse`, with smaller steps and more probes if all diverge.

    Each attempt has its own budget. If all attempts diverge, `start` is the only draw, with the
    trend's most probable coefficients and precision there, and a warning.
    """

    def attempt(halvings: int) -> Draws:
        shorter = replace(
            config, step=config.step / 2**halvings, probes=config.probes * 2**halvings
        )
        part = part_of_checkpoint(checkpoint, halvings)
        return sample_ulisse(problem, start, shorter, seed=seed, progress=progress, checkpoint=part)

    outcome = first_that_stays(attempt)
    if outcome is not None:
        return outcome
    eta = np.log(np.array(start))[list(FREE)]
    beta, precision = problem.trend(start, rank=config.rank)
    return Draws(
        eta[None, None], beta[None, None], **all_diverged(config), precision_beta=precision
    )


def theta_at(eta: Floats, start: Theta) -> Theta:
    """Return the parameters at the logs of sigma2, rho, tau2, with the smoothness of `start`."""
    sigma2, rho, tau2 = map(float, np.exp(eta))
    return Theta(sigma2, rho, start.nu, tau2)
