"""The distribution of a new observation under a belief: a normal, or with atoms a mixture of two.

With share rho of the slab N(m, v) and noise n = b / (a - 1), in the labels' own units (mean_y,
sd_y): the atom gives N(mean_y, sd_y^2 n) with probability 1 - rho, the slab N(mean_y + sd_y m,
sd_y^2 (v + n)) with rho. The mean of both is mean_y + sd_y rho m. The slab's mean alone, which the
thesis' script takes, is wrong where all units of a network without biases may be zero.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bandgap.foundation.errors import InputError
from bandgap.research.assumed_density.belief import Belief, Floats
from bandgap.research.assumed_density.moments import output_moments

STEPS = 200  # steps of a bisection: to the last digit from any bracket of doubles


@dataclass(frozen=True, eq=False)
class Predictive:
    """Predictive distributions of n rows.

    Share (n,) of the slab, its mean and variance (n,), and mean and variance of the atom, noise
    included.
    """

    share: Floats
    slab_mean: Floats
    slab_variance: Floats
    atom_mean: float
    atom_variance: float
    weights_share: Floats  # share (n,) of the variance that is not noise

    @property
    def mean(self) -> Floats:
        """Mean (n,)."""
        return self.share * self.slab_mean + (1.0 - self.share) * self.atom_mean

    @property
    def variance(self) -> Floats:
        """Variance (n,)."""
        between = self.share * (1.0 - self.share) * (self.slab_mean - self.atom_mean) ** 2
        return self.share * self.slab_variance + (1.0 - self.share) * self.atom_variance + between

    def log_density(self, y: Floats) -> Floats:
        """Return the log density (n,) of labels (n,)."""
        with np.errstate(divide="ignore"):
            slab = np.log(self.share) + _log_normal(y - self.slab_mean, self.slab_variance)
            atom = np.log1p(-self.share) + _log_normal(y - self.atom_mean, self.atom_variance)
        result: Floats = np.logaddexp(slab, atom)
        return result

    def cdf(self, y: Floats) -> Floats:
        """Return the distribution function (n,) at labels (n,)."""
        slab = ndtr((y - self.slab_mean) / np.sqrt(self.slab_variance))
        atom = ndtr((y - self.atom_mean) / np.sqrt(self.atom_variance))
        result: Floats = self.share * slab + (1.0 - self.share) * atom
        return result

    def quantile(self, probability: float) -> Floats:
        """Return the quantile (n,), by bisection.

        Raises InputError for a probability outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InputError(f"probability {probability}. Accepted: a number inside (0, 1).")
        reach = 40.0 * np.sqrt(max(self.atom_variance, float(self.slab_variance.max(initial=0.0))))
        low = np.minimum(self.slab_mean, self.atom_mean) - reach
        high = np.maximum(self.slab_mean, self.atom_mean) + reach
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < probability
            low = np.where(below, middle, low)
            high = np.where(below, high, middle)
        result: Floats = 0.5 * (low + high)
        return result


def predict(
    belief: Belief, x: Floats, *, atoms: bool = False, y_mean: float = 0.0, y_sd: float = 1.0
) -> Predictive:
    """Return the distribution of new observations at standardised rows x (n, p).

    `y_mean` and `y_sd` are mean and standard deviation of the labels, whose units the result has.
    """
    moments = output_moments(belief.weights, x, atoms=atoms)
    mean, variance, share, spread = (
        part[:, 0].numpy() for part in (*moments.slab(), moments.share, moments.variance)
    )
    noise = belief.noise.variance
    return Predictive(
        share,
        y_mean + y_sd * mean,
        y_sd**2 * (variance + noise),
        y_mean,
        y_sd**2 * noise,
        spread / (spread + noise),
    )


def _log_normal(distance: Floats, variance: Floats | float) -> Floats:
    result: Floats = -0.5 * np.log(2.0 * np.pi * variance) - 0.5 * distance**2 / variance
    return result
