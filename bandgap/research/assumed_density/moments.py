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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.special import ndtr

from bandgap.research.assumed_density.belief import Floats, Weights
from bandgap.research.assumed_density.rectified import LEAST_VARIANCE, rectified_moments

LEAST_SHARE: Final = 1e-12  # probability that an output is not zero, where all inputs are
LEAST_OFF: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of units or of the output at n rows.

    Mean and variance (n, unit) are those of the whole message, atom included; `share` (n, 1) is the
    probability of the slab, 1 without atoms.
    """

    mean: Tensor
    variance: Tensor
    share: Tensor

    def slab(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the part that is not the atom."""
        mean = self.mean / self.share
        variance = self.variance / self.share - (1.0 - self.share) * mean.square()
        return mean, variance.clamp_min(LEAST_VARIANCE)

    def row(self, number: int) -> "Moments":
        """Return the moments of one row, (unit,)."""
        return Moments(self.mean[number], self.variance[number], self.share[number])


@dataclass(frozen=True, eq=False)
class Units:
    """Inputs of a layer: mean, variance and probability of zero of every unit, (n, unit)."""

    mean: Tensor
    variance: Tensor
    off: Tensor


def output_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> Moments:
    """Return the moments of the output (n, 1) at rows x (n, p); `atoms` selects SSPBP."""
    return layer_moments(weights, x, atoms=atoms)[-1]


def layer_moments(weights: Weights, x: Floats, *, atoms: bool = False) -> list[Moments]:
    """Return the moments after every layer, before its ReLU, at rows x (n, p)."""
    means, variances = (
        [torch.tensor(layer, dtype=torch.float64) for layer in layers]
        for layers in (weights.means, weights.variances)
    )
    rows = torch.tensor(x, dtype=torch.float64)
    return propagate(means, variances, rows, biased=weights.biased, atoms=atoms)


def propagate(
    means: Sequence[Tensor], variances: Sequence[Tensor], x: Tensor, *, biased: bool, atoms: bool
) -> list[Moments]:
    """Return the moments after every layer, before its ReLU, at rows x (n, p).

    Means and variances of a layer's weights are (out, c), or (n, out, c) for weights of every row.
    """
    units = Units(x, torch.zeros_like(x), torch.zeros_like(x))
    layers: list[Moments] = []
    for mean, variance in zip(means, variances, strict=True):
        share = x.new_ones(len(x), 1)
        if layers:
            units = hidden_units(layers[-1])
            if atoms and not biased:
                log_off = units.off.clamp_min(LEAST_OFF).log().sum(1, keepdim=True)
                share = (-torch.expm1(log_off)).clamp_min(LEAST_SHARE)
        zm = pad(units.mean, (0, int(biased)), value=1.0)
        zv = pad(units.variance, (0, int(biased)))
        columns = mean.shape[-1]
        spread = _product(zv + zm.square(), variance)
        if layers:
            spread = spread + _product(zv, mean.square())
        spread = (spread / columns).clamp_min(LEAST_VARIANCE)
        layers.append(Moments(_product(zm, mean) / columns**0.5, spread, share))
    return layers


def hidden_units(before: Moments) -> Units:
    """Return the units after a ReLU, given the moments before it."""
    mean, variance = before.slab()
    share = before.share
    positive, spread = rectified_moments(mean, variance)
    off = (1.0 - share) + share * ndtr(-mean / variance.sqrt())
    return Units(share * positive, share * (spread + (1.0 - share) * positive.square()), off)


def _product(z: Tensor, w: Tensor) -> Tensor:
    """Return w z of every row.

    Rows that share the weights have one product, by numpy: torch's depends on a row's place.
    """
    if w.ndim == 2:
        return torch.from_numpy(z.numpy() @ w.numpy().T)
    return (w @ z[..., None])[..., 0]
