r"""The prior made anew after a pass: an EP step of every factor N(w | centre, 1 / lambda), lambda being learned too.

Hernandez-Lobato and Adams (2015), section 3.3. Of a weight with its own factor taken out, N(mc, vc) and Gamma(Ac, Bc),
the factor is put in as a row is whose noise precision is lambda; what this changes is the new factor. There g_m^2 - 2
g_v is 1 / (vc + n), n = Bc / (Ac - 1), so that the new normal is N(mc, vc) times N(centre, n) exactly, and is written
so: the published vc - vc^2 / (vc + n) loses all digits where n is small. The authors go weight by weight and change (A,
B) at once ("one by one"); here all weights of a layer may start from the same (A, B), after which A = A0 + sum of their
parts ("together"): the same fixed point in practice, and made for many weights.

Matching two moments, a weight far out takes more from A than it gives. Where rows are not counted twice this adds up:
A falls below A0 after some 30 passes, B / (A - 1) grows without end, and the weights with it (yacht and Boston
housing). What all weights say can only make lambda better known than its prior: A stays at A0 or above.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.inference.assumed_density.belief import (
    Belief,
    Floats,
    Gamma,
    PriorSites,
    Weights,
    flattened,
    unflattened,
)
from bandgap.inference.assumed_density.row_kernels import noise_step, noise_steps

Order = Literal["one by one", "together"]

MOST_VARIANCE: Final = 1e6  # of a weight without its prior
HALVINGS: Final = 20  # of a change of (A, B) before it is left out


@dataclass(eq=False)
class _Working:
    """Copies of what a step changes: means and variances of q, and the sites."""

    m: Floats
    v: Floats
    sites: PriorSites


def refine_prior(belief: Belief, *, order: Order = "together") -> Belief:
    """Return the belief after one step of every weight's prior factor.

    Raises ConfigError for "one by one" on a belief that counts no row twice: there the weights may grow without end
    within one step (yacht, 40 passes).
    """
    if order == "one by one" and belief.likelihood is not None:
        raise ConfigError(
            'the prior step "one by one" is not stable with an averaged factor. Use "together".'
        )
    weights, before = belief.weights, belief.prior
    sites = replace(
        before,
        precision=before.precision.copy(),
        shift=before.shift.copy(),
        shapes=before.shapes.copy(),
        rates=before.rates.copy(),
    )
    work = _Working(flattened(weights.means), flattened(weights.variances), sites)
    step = _one_by_one if order == "one by one" else _together
    found = tuple(
        step(work, members, gamma, start.shape)
        for members, gamma, start in zip(
            _groups(belief), belief.precisions, belief.before, strict=True
        )
    )
    like = weights.means
    moved = Weights(unflattened(work.m, like), unflattened(work.v, like), weights.biased)
    return replace(belief, weights=moved, precisions=found, prior=work.sites)


def _groups(belief: Belief) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the weights of every prior precision."""
    owner = np.repeat(np.array(belief.prior.group), belief.weights.sizes)
    for group in range(len(belief.precisions)):
        yield np.flatnonzero(owner == group)


def _one_by_one(work: _Working, members: NDArray[np.int64], gamma: Gamma, least: float) -> Gamma:
    sites, a, b = work.sites, gamma.shape, gamma.rate
    shapes, rates = sites.shapes[members], sites.rates[members]
    for k in members.tolist():
        precision = 1.0 / work.v[k] - sites.precision[k]
        shift = work.m[k] / work.v[k] - sites.shift[k]
        own_a, own_b = a - sites.shapes[k], b - sites.rates[k]
        if not (MOST_VARIANCE * precision > 1.0 and own_b > 0 and own_a > 1):
            continue
        *_, new_a, new_b = noise_step(
            sites.centres[k], shift / precision, 1.0 / precision, 1.0, own_a, own_b
        )
        sites.precision[k] = (own_a - 1.0) / own_b
        sites.shift[k] = sites.precision[k] * sites.centres[k]
        work.v[k] = 1.0 / (precision + sites.precision[k])
        work.m[k] = work.v[k] * (shift + sites.shift[k])
        a, b = float(new_a), float(new_b)
        sites.shapes[k], sites.rates[k] = a - own_a, b - own_b
    if a >= least:
        return Gamma(a, b)
    sites.shapes[members], sites.rates[members] = shapes, rates
    return gamma


def _together(work: _Working, members: NDArray[np.int64], gamma: Gamma, least: float) -> Gamma:
    sites = work.sites
    precision = 1.0 / work.v[members] - sites.precision[members]
    shift = work.m[members] / work.v[members] - sites.shift[members]
    a, b = gamma.shape - sites.shapes[members], gamma.rate - sites.rates[members]
    used = (MOST_VARIANCE * precision > 1.0) & (b > 0) & (a > 1)
    members = members[used]
    precision, shift, a, b = (part[used] for part in (precision, shift, a, b))
    new_a, new_b = noise_steps(sites.centres[members], shift / precision, 1.0 / precision, a, b)
    sites.precision[members] = own = (a - 1.0) / b
    sites.shift[members] = own * sites.centres[members]
    work.v[members] = 1.0 / (precision + own)
    work.m[members] = work.v[members] * (shift + sites.shift[members])
    by_shape, by_rate = new_a - a - sites.shapes[members], new_b - b - sites.rates[members]
    for halving in range(HALVINGS):
        share = 0.5**halving
        found = Gamma(
            gamma.shape + share * float(by_shape.sum()), gamma.rate + share * float(by_rate.sum())
        )
        if found.shape >= least and found.rate > 0:
            sites.shapes[members] += share * by_shape
            sites.rates[members] += share * by_rate
            return found
    return gamma
