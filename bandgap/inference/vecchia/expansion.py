r"""The log density about its mode: its curvature, and what every site adds to gradient and curvature there.

Curvature is the observed information, by central differences of the gradient. At the mode of a process whose nugget is
near 0 it is several times the Fisher information in that direction, which is what the model expects of other data.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandgap.inference.vecchia.ordering import Floats, Ints
from bandgap.inference.vecchia.scoring import Mode
from bandgap.inference.vecchia.target import Target

STEP, LONGEST = (
    0.05,
    0.1,
)  # of differences: as a share of the expected standard deviation, and at most
LEAST_SHARE = 0.1  # of the Fisher information that a curvature has at least: beyond it the density is not normal


@dataclass(frozen=True, eq=False)
class Expansion:
    """Gradients (n, k + p) of every site by phi = (eta, beta) at the mode, and their slopes (n, k + p, k + p)."""

    at: Floats  # (k + p,)
    gradients: Floats
    slopes: Floats

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """Sums over all sites: (k + p,) and (k + p, k + p)."""
        return self.gradients.sum(axis=0), self.slopes.sum(axis=0)

    def correction(self, phi: Floats, index: Ints) -> Floats:
        """Return what makes a batch's gradient at phi one with control variates: zero on average, (k + p,)."""
        away, share = phi - self.at, len(self.gradients) / len(index)
        gradient, slope = self.sums
        batch = self.gradients[index].sum(axis=0) + self.slopes[index].sum(axis=0) @ away
        result: Floats = gradient + slope @ away - share * batch
        return result


def expand(target: Target, mode: Mode) -> Expansion:
    """Return the expansion of every site's log likelihood about the mode."""
    at = np.concatenate([mode.eta, mode.beta])
    k, steps = mode.eta.size, _steps(mode)

    def gradients(phi: Floats) -> Floats:
        return target.site_gradients(phi[:k], phi[k:])

    slopes = [(gradients(at + s) - gradients(at - s)) / (2 * s.sum()) for s in np.diag(steps)]
    return Expansion(at, gradients(at), np.stack(slopes, axis=-1))


def observed_information(target: Target, mode: Mode, expansion: Expansion | None = None) -> Floats:
    """Return minus the curvature (k + p, k + p) of the log density at the mode, prior included, positive definite.

    In no direction below `LEAST_SHARE` of the Fisher information there.
    """
    at, k = np.concatenate([mode.eta, mode.beta]), mode.eta.size

    def gradient(phi: Floats) -> Floats:
        here = target.pull(phi[:k], phi[k:])
        return np.concatenate([here.grad_eta, here.grad_beta])

    if expansion is None:
        columns = [
            (gradient(at - s) - gradient(at + s)) / (2 * s.sum()) for s in np.diag(_steps(mode))
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
    """Return the Fisher information (k + p, k + p) at the mode and the prior's curvature."""
    k, p = mode.eta.size, mode.beta.size
    whole = np.zeros((k + p, k + p))
    whole[:k, :k], whole[k:, k:] = mode.precision, mode.precision_beta
    return whole


def _steps(mode: Mode) -> Floats:
    """Return steps of central differences (k + p,)."""
    sd = np.sqrt(np.diag(np.linalg.inv(expected_information(mode))))
    steps = STEP * sd
    steps[: mode.eta.size] = np.minimum(steps[: mode.eta.size], LONGEST)
    return np.asarray(steps, dtype=np.float64)
