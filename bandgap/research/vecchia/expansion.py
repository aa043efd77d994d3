r"""Expansion of the log density about its mode, for all sites and for every site.

The observed information comes from central differences of the gradient. If the nugget is near 0, it
is several times the Fisher information in that direction.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandgap.research.vecchia.ordering import Floats, Ints
from bandgap.research.vecchia.scoring import Mode
from bandgap.research.vecchia.target import Target

# Steps of differences: as a share of the expected standard deviation, and at most.
STEP = 0.05
LONGEST = 0.1
LEAST_SHARE = 0.1  # least curvature as a share of the Fisher information


@dataclass(frozen=True, eq=False)
class Expansion:
    """Gradients (n, k + p) of every site by phi = (eta, beta) at the mode, and their slopes (n, k +
    p, k + p).
    """

    centre: Floats  # (k + p,)
    gradients: Floats
    slopes: Floats

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """Sums over all sites: (k + p,) and (k + p, k + p)."""
        return self.gradients.sum(axis=0), self.slopes.sum(axis=0)

    def correction(self, phi: Floats, index: Ints) -> Floats:
        """Return the control variate (k + p,) for a batch's gradient at phi, with mean zero."""
        displacement = phi - self.centre
        share = len(self.gradients) / len(index)
        gradient, slope = self.sums
        batch = self.gradients[index].sum(axis=0) + self.slopes[index].sum(axis=0) @ displacement
        result: Floats = gradient + slope @ displacement - share * batch
        return result


def expand(target: Target, mode: Mode) -> Expansion:
    """Return the expansion of every site's log likelihood about the mode."""
    centre = np.concatenate([mode.eta, mode.beta])
    k = mode.eta.size
    steps = _steps(mode)

    def gradients(phi: Floats) -> Floats:
        return target.site_gradients(phi[:k], phi[k:])

    slopes = [
        (gradients(centre + s) - gradients(centre - s)) / (2 * s.sum()) for s in np.diag(steps)
    ]
    return Expansion(centre, gradients(centre), np.stack(slopes, axis=-1))


def observed_information(target: Target, mode: Mode, expansion: Expansion | None = None) -> Floats:
    """Return minus the Hessian (k + p, k + p) of the log density, including the prior, at the mode.

    It is made positive definite: in every direction at least `LEAST_SHARE` of the Fisher
    information.
    """
    centre = np.concatenate([mode.eta, mode.beta])
    k = mode.eta.size

    def gradient(phi: Floats) -> Floats:
        pull = target.pull(phi[:k], phi[k:])
        return np.concatenate([pull.grad_eta, pull.grad_beta])

    if expansion is None:
        columns = [
            (gradient(centre - s) - gradient(centre + s)) / (2 * s.sum())
            for s in np.diag(_steps(mode))
        ]
        observed = np.stack(columns, axis=-1)
    else:
        observed = -expansion.sums[1]
        observed[:k, :k] += np.diag(target.prior_curvature(mode.eta))
    lower = np.linalg.cholesky(expected_information(mode))
    inverse = np.linalg.inv(lower)
    values, vectors = np.linalg.eigh(inverse @ (observed + observed.T) / 2 @ inverse.T)
    half = lower @ vectors
    result: Floats = half * np.maximum(values, LEAST_SHARE) @ half.T
    return result


def expected_information(mode: Mode) -> Floats:
    """Return the Fisher information plus the prior's curvature at the mode, (k + p, k + p)."""
    k = mode.eta.size
    p = mode.beta.size
    information = np.zeros((k + p, k + p))
    information[:k, :k] = mode.precision
    information[k:, k:] = mode.precision_beta
    return information


def _steps(mode: Mode) -> Floats:
    """Return steps of central differences (k + p,)."""
    sd = np.sqrt(np.diag(np.linalg.inv(expected_information(mode))))
    steps = STEP * sd
    steps[: mode.eta.size] = np.minimum(steps[: mode.eta.size], LONGEST)
    return np.asarray(steps, dtype=np.float64)
