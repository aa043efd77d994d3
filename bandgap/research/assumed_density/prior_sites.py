"""EP step of the prior factors N(w | centre, 1 / lambda) after a pass; lambda is learned too.

Hernandez-Lobato and Adams (2015), section 3.3. Of a weight without its own factor, N(mc, vc) and
Gamma(Ac, Bc), the factor is added as a row whose noise precision is lambda; the change is the new
factor. There g_m^2 - 2 g_v is 1 / (vc + n), n = Bc / (Ac - 1), so that the new normal is N(mc, vc)
times N(centre, n) exactly, and is computed as such: the published vc - vc^2 / (vc + n) loses all
digits where n is small.

The authors go weight by weight and change (A, B) after each ("one by one"). Here all weights of a
layer may start from the same (A, B), after which A = A0 + the sum of their parts ("together"). This
has the same fixed point in practice and suits many weights.

By matching two moments, a weight far from its centre takes more from A than it gives. If rows are
not counted twice this accumulates: A falls below A0 after some 30 passes, and B / (A - 1) and the
weights grow without limit. All weights together can only make lambda better known than its prior: A
stays at A0 or above.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.research.assumed_density.belief import (
    Belief,
    Floats,
    Gamma,
    PriorSites,
    Weights,
    flattened,
    unflattened,
)
from bandgap.research.assumed_density.moments import Moments
from bandgap.research.assumed_density.noise import noise_step

Order = Literal["one by one", "together"]

MOST_VARIANCE: Final = 1e6  # of a weight without its prior factor
HALVINGS: Final = 20  # of a change of (A, B) before it is rejected


@dataclass(eq=False)
class _Working:
    """Copies of what a step changes: means and variances of q, and the sites."""

    m: Floats
    v: Floats
    sites: PriorSites


def refine_prior(belief: Belief, *, order: Order = "together") -> Belief:
    """Return the belief after one step of every weight's prior factor.

    Raises ConfigError for "one by one" on a belief with an averaged factor: there the weights may
    grow without limit within one step.
    """
    if order == "one by one" and belief.likelihood is not None:
        raise ConfigError(
            'the prior step "one by one" is not stable with an averaged factor. Use "together".'
        )
    weights = belief.weights
    before = belief.prior
    sites = replace(
        before,
        precision=before.precision.copy(),
        shift=before.shift.copy(),
        shapes=before.shapes.copy(),
        rates=before.rates.copy(),
    )
    work = _Working(flattened(weights.means), flattened(weights.variances), sites)
    step = _one_by_one if order == "one by one" else _together
    precisions = tuple(
        step(work, members, gamma, start.shape)
        for members, gamma, start in zip(
            _groups(belief), belief.precisions, belief.before, strict=True
        )
    )
    like = weights.means
    moved = Weights(unflattened(work.m, like), unflattened(work.v, like), weights.biased)
    return replace(belief, weights=moved, precisions=precisions, prior=work.sites)


def _groups(belief: Belief) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of the weights of every prior precision."""
    owner = np.repeat(np.array(belief.prior.group), belief.weights.sizes)
    for group in range(len(belief.precisions)):
        yield np.flatnonzero(owner == group)


def _one_by_one(work: _Working, members: NDArray[np.int64], gamma: Gamma, least: float) -> Gamma:
    sites = work.sites
    shapes = sites.shapes[members]
    rates = sites.rates[members]
    moved = gamma
    for k in range(members.size):
        moved = _together(work, members[k : k + 1], moved, 0.0)
    if moved.shape >= least:
        return moved
    sites.shapes[members] = shapes
    sites.rates[members] = rates
    return gamma


def _together(work: _Working, members: NDArray[np.int64], gamma: Gamma, least: float) -> Gamma:
    sites = work.sites
    precision = 1.0 / work.v[members] - sites.precision[members]
    shift = work.m[members] / work.v[members] - sites.shift[members]
    a = gamma.shape - sites.shapes[members]
    b = gamma.rate - sites.rates[members]
    used = (MOST_VARIANCE * precision > 1.0) & (b > 0) & (a > 1)
    members = members[used]
    precision = precision[used]
    shift = shift[used]
    a = a[used]
    b = b[used]
    parts = (shift / precision, 1.0 / precision, np.ones_like(a))
    slab = Moments(*map(torch.from_numpy, parts))
    centres = torch.from_numpy(sites.centres[members])
    _, new_shapes, new_rates = noise_step(centres, slab, torch.from_numpy(a), torch.from_numpy(b))
    new_a = new_shapes.numpy()
    new_b = new_rates.numpy()
    site_precision = (a - 1.0) / b
    sites.precision[members] = site_precision
    sites.shift[members] = site_precision * sites.centres[members]
    work.v[members] = 1.0 / (precision + site_precision)
    work.m[members] = work.v[members] * (shift + sites.shift[members])
    by_shape = new_a - a - sites.shapes[members]
    by_rate = new_b - b - sites.rates[members]
    for halving in range(HALVINGS):
        share = 0.5**halving
        proposal = Gamma(
            gamma.shape + share * float(by_shape.sum()), gamma.rate + share * float(by_rate.sum())
        )
        if proposal.shape >= least and proposal.rate > 0:
            sites.shapes[members] += share * by_shape
            sites.rates[members] += share * by_rate
            return proposal
    return gamma
