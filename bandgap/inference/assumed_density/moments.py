r"""Mean and variance of a network's output under independent normal weights: PBP's messages, and SSPBP's with atoms.

Hernandez-Lobato and Adams (2015), section 3.1; "Probabilistic neural networks" (thesis, 2022), chapter 3. Independent
inputs of means zm and variances zv go through a layer, and a hidden unit through the ReLU (`rectified`):

    am = zm M' / sqrt(c),   av = [zv (M o M + V)' + (zm o zm) V'] / c

SSPBP's message of a unit has an atom at 0: with probability rho it is N(m, v), else 0. A layer asks its inputs for mean
and variance alone, of which this has rho m and rho v + rho (1 - rho) m^2; behind it no unit has an atom unless all of
its inputs are zero, rho' = 1 - prod (1 - rho), one number for all of them, and the part that is not zero has m' = am /
rho' and v' = av / rho' - (1 - rho') m'^2. The ReLU then acts on that part: rho' Phi(t), t = m' / sqrt(v').

With one hidden layer mean and variance of the output are exact; with two they are not, because units of a layer share
uncertain inputs. With biases rho' = 1 behind every layer and SSPBP's messages are PBP's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bandgap.inference.assumed_density.belief import Floats, Weights
from bandgap.inference.assumed_density.rectified import LEAST_VARIANCE, rectified_moments

LEAST_SHARE = 1e-12  # of an output that is not zero, where all inputs of a layer are off


@dataclass(frozen=True, eq=False)
class Moments:
    """Of units or of the output at n rows: mean and variance, (n, unit), and the probability (n,) of the slab.

    Mean and variance are those of the whole message, atom included; `share` is 1 without atoms.
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
    """What a layer is given: mean and variance of every unit (n, unit), and the probability that it is zero."""

    mean: Floats
    variance: Floats
    off: Floats


def output_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> Moments:
    """Return the moments of the output (n, 1) at rows x (n, p); with `atoms` by SSPBP's messages."""
    return layer_moments(weights, x, atoms=atoms)[-1]


def layer_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> list[Moments]:
    """Return the moments behind every layer, before its ReLU, at rows x (n, p)."""
    units = Units(x, np.zeros_like(x), np.zeros_like(x))
    found: list[Moments] = []
    for mean, variance in zip(weights.means, weights.variances, strict=True):
        units = hidden_units(found[-1]) if found else units
        found.append(
            _through_layer(
                mean, variance, units, biased=weights.biased, atoms=atoms and bool(found)
            )
        )
    return found


def hidden_units(before: Moments) -> Units:
    """Return the units behind a ReLU, given the moments before it."""
    mean, variance = before.slab()
    share = before.share[:, None]
    positive, spread = rectified_moments(mean, variance)
    off = (1.0 - share) + share * ndtr(-mean / np.sqrt(variance))
    second: Floats = share * (spread + (1.0 - share) * positive**2)
    return Units(share * positive, second, off)


def _through_layer(
    mean: Floats, variance: Floats, units: Units, *, biased: bool, atoms: bool
) -> Moments:
    zm, zv, n = units.mean, units.variance, len(units.mean)
    if biased:
        zm, zv = np.hstack([zm, np.ones((n, 1))]), np.hstack([zv, np.zeros((n, 1))])
    columns = mean.shape[1]
    centre = zm @ mean.T / np.sqrt(columns)
    spread = (zv @ (mean**2 + variance).T + zm**2 @ variance.T) / columns
    share = np.ones(n)
    if atoms and not biased:
        share = np.maximum(-np.expm1(np.log(np.maximum(units.off, 1e-300)).sum(1)), LEAST_SHARE)
    return Moments(centre, np.maximum(spread, LEAST_VARIANCE), share)
