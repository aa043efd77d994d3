"""Mean and variance of a network's output under independent normal weights: PBP and SSPBP.

Hernandez-Lobato and Adams (2015), section 3.1; "Probabilistic neural networks" (thesis, 2022),
chapter 3. Independent inputs of means zm and variances zv pass a layer, and a hidden unit the ReLU
(`rectified`):

    am = zm M' / sqrt(c),   av = [zv (M o M + V)' + (zm o zm) V'] / c

SSPBP's message of a unit has an atom at 0: with probability rho it is N(m, v), otherwise 0. A layer
uses only mean and variance of its inputs, which are rho m and rho v + rho (1 - rho) m^2. After the
layer a unit is 0 only if all of its inputs are: rho' = 1 - prod (1 - rho), the same for all units.
The part that is not zero has m' = am / rho' and v' = av / rho' - (1 - rho') m'^2. The ReLU acts on
that part: rho' Phi(t), t = m' / sqrt(v').

With one hidden layer mean and variance of the output are exact. With two they are not, because the
units of a layer share uncertain inputs. With biases rho' = 1 after every layer, and SSPBP's
messages are those of PBP.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bandgap.inference.assumed_density.belief import Floats, Weights
from bandgap.inference.assumed_density.rectified import LEAST_VARIANCE, rectified_moments

LEAST_SHARE = 1e-12  # probability that an output is not zero, where all inputs are


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of units or of the output at n rows.

    Mean and variance (n, unit) are those of the whole message, atom included; `share` (n,) is the
    probability of the slab, 1 without atoms.
    """

    mean: Floats
    variance: Floats
    share: Floats

    def slab(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the part that is not the atom."""
        share = self.share[:, None]
        mean = self.mean / share
        return mean, np.maximum(self.variance / share - (1.0 - share) * mean**2, LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class Units:
    """Inputs of a layer: mean, variance and probability of zero of every unit, (n, unit)."""

    mean: Floats
    variance: Floats
    off: Floats


def output_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> Moments:
    """Return the moments of the output (n, 1) at rows x (n, p); `atoms` selects SSPBP."""
    return layer_moments(weights, x, atoms=atoms)[-1]


def layer_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> list[Moments]:
    """Return the moments after every layer, before its ReLU, at rows x (n, p)."""
    units = Units(x, np.zeros_like(x), np.zeros_like(x))
    layers: list[Moments] = []
    for mean, variance in zip(weights.means, weights.variances, strict=True):
        if layers:
            units = hidden_units(layers[-1])
        moments = _through_layer(
            mean, variance, units, biased=weights.biased, atoms=atoms and bool(layers)
        )
        layers.append(moments)
    return layers


def hidden_units(before: Moments) -> Units:
    """Return the units after a ReLU, given the moments before it."""
    mean, variance = before.slab()
    share = before.share[:, None]
    positive, spread = rectified_moments(mean, variance)
    off = (1.0 - share) + share * ndtr(-mean / np.sqrt(variance))
    second: Floats = share * (spread + (1.0 - share) * positive**2)
    return Units(share * positive, second, off)


def _through_layer(
    mean: Floats, variance: Floats, units: Units, *, biased: bool, atoms: bool
) -> Moments:
    zm = units.mean
    zv = units.variance
    n = len(zm)
    if biased:
        zm = np.hstack([zm, np.ones((n, 1))])
        zv = np.hstack([zv, np.zeros((n, 1))])
    columns = mean.shape[1]
    centre = zm @ mean.T / np.sqrt(columns)
    spread = (zv @ (mean**2 + variance).T + zm**2 @ variance.T) / columns
    share = np.ones(n)
    if atoms and not biased:
        share = np.maximum(-np.expm1(np.log(np.maximum(units.off, 1e-300)).sum(1)), LEAST_SHARE)
    return Moments(centre, np.maximum(spread, LEAST_VARIANCE), share)
