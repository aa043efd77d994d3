"""Fisher scoring for the mode of a Gaussian process, with all sites in every step (Guinness 2019).

beta is profiled out: at every theta it has its best value, and the gradient by theta is evaluated
there. Steps are F^-1 gradient on the log scale, where F is the Fisher information plus the prior's
curvature. Their root mean square is limited to 1. If the density decreases, a quarter of the step
is tried, then the gradient over the mean and over the largest diagonal entry of F.
"""

from dataclasses import dataclass

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.target import Target, log_likelihood

LARGEST_CONDITION = 1e10
FLOOR = 1e-5


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode: eta (k,), beta (p,), precisions there, log density, its gradient, and the search.

    `squared_step` is the squared length of the next step in posterior standard deviations.
    """

    eta: Floats
    beta: Floats
    precision: Floats
    precision_beta: Floats
    value: float
    gradient: Floats
    iterations: int
    converged: bool
    jitters: int
    squared_step: float


def find_mode(
    target: Target,
    start: Floats,
    *,
    tolerance: float = 1e-10,
    iterations: int = 40,
    phase: str = "searching the mode",
    progress: Progress = no_progress,
) -> Mode:
    """Return the mode, searched from `start` (k,) until step'gradient is below `tolerance`.

    Raises InputError if the density is not finite at the start.
    """
    eta = np.asarray(start, dtype=np.float64)
    value, beta = _profile(target, eta)
    if not np.isfinite(value):
        raise InputError(
            f"log density at the start {target.theta(eta)} is {value}. Give a start inside its "
            "support."
        )
    done = 0
    converged = False
    pull = target.pull(eta, beta)
    while done < iterations and not converged:
        progress(Update(phase))
        newton = _limited(np.asarray(np.linalg.solve(_conditioned(pull.precision), pull.grad_eta)))
        diagonal = np.diag(pull.precision)
        steps = (
            newton,
            newton / 4,
            _limited(pull.grad_eta / diagonal.mean()),
            _limited(pull.grad_eta / diagonal.max()),
        )
        for step in steps:
            new, new_beta = _profile(target, eta + step)
            if new >= value - 1e-12 * abs(value):
                eta = eta + step
                value = new
                beta = new_beta
                pull = target.pull(eta, beta)
                converged = bool(abs(step @ pull.grad_eta) < tolerance)
                break
        else:
            break
        done += 1
    size = abs(float(pull.grad_eta @ np.linalg.solve(_conditioned(pull.precision), pull.grad_eta)))
    return Mode(
        eta,
        beta,
        pull.precision,
        pull.terms.p4,
        value,
        pull.grad_eta,
        done,
        converged or size < tolerance,
        pull.terms.jitters,
        size,
    )


def _profile(target: Target, eta: Floats) -> tuple[float, Floats]:
    """Return the log density at the best beta, and that beta."""
    nowhere = (-np.inf, np.zeros(target.sites.p))
    terms = target.terms_if_any(eta)
    if terms is None:
        return nowhere
    try:
        beta = terms.beta_hat
    except np.linalg.LinAlgError:  # covariates are collinear there
        return nowhere
    value = log_likelihood(terms, beta, n=target.sites.n) + target.log_prior(eta)
    return (value, beta) if np.isfinite(value) else nowhere


def _limited(step: Floats) -> Floats:
    """Return a step of a root mean square of at most 1."""
    size = float(np.sqrt(np.mean(step**2)))
    return step / max(size, 1.0)


def _conditioned(precision: Floats) -> Floats:
    """Return the matrix with its eigenvalues floored where it is nearly singular."""
    values, vectors = np.linalg.eigh(precision)
    if values[0] > 0 and values[-1] / values[0] <= LARGEST_CONDITION:
        return precision
    result: Floats = (vectors * np.maximum(values, FLOOR * values[-1])) @ vectors.T
    return result
