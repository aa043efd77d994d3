r"""The first layer's inputs in two parts: the leading ones, which long paths move, and the others, which hardly matter.

In the row space of the training inputs the singular values fall fast: of 394 inputs of 500 crystals, the first 64 carry
99 % of the variance. The weights of the others are almost as the prior has them. A path with them held fixed needs a
third of the arithmetic; a short path of their own, with all else fixed, moves them as far as they can go (a Gibbs step;
both leave the joint posterior as it is).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bandgap.inference.network.joint_density import in_range, log_density, log_force
from bandgap.inference.network.joint_hmc import Transition, judge, rotate
from bandgap.inference.network.lean_density import LeanDensity, can_be_lean, of_chain
from bandgap.inference.network.lean_force import LeanForce
from bandgap.inference.network.partial_centring import square_norm
from bandgap.inference.network.scales import ScalePrior, Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork, hidden_features

LEFT_OUT = 0.01  # share of the inputs' variance in the trailing part
WORTH = 0.7  # of all inputs: with more leading ones than that, nothing is split
TRAILING_ANGLE = 1.5  # radians of a path of the trailing weights

Way = Callable[[Tensor], Tensor]  # of the first layer's trailing z (chain, out, in)


def leading_inputs(net: WhitenedNetwork) -> int:
    """Return how many inputs lead; all of them where splitting does not pay or the weights are not alike.

    The row space's inputs come in the order of falling variance.
    """
    r = net.inputs.shape[1]
    if not net.isotropic:
        return r
    variance = (net.inputs.double() ** 2).sum(0)
    left = 1.0 - torch.cumsum(variance, 0) / variance.sum()
    k = int((left > LEFT_OUT).sum()) + 1
    return k if k < WORTH * r else r


def unit_spans(
    net: WhitenedNetwork, z: Layers, scales: Scales, *, usual: Tensor, leading: int
) -> list[float]:
    """Return what a path of one radian adds to a unit's input, by hidden layer: a root mean square.

    The inputs are those at weights z and `scales`, of the first layer the leading ones; the layers' scales are `usual`
    (L,). Nothing is returned where that is not a positive number in every layer.
    """
    inputs = hidden_features(net, z, scales).inputs[:-1]
    inputs[0] = inputs[0][:, :leading]
    spans = [float(usual[layer]) * net.reach(layer, h) for layer, h in enumerate(inputs)]
    return spans if all(0.0 < span < math.inf for span in spans) else []


def step_trailing(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    leading: int,
    step: float,
    max_steps: int,
    generator: torch.Generator,
    widths: Sequence[float] = (),
) -> tuple[Layers, Transition]:
    """Move the trailing weights of the first layer along one path, with everything else fixed.

    Its steps are at most `step` radians long, unless that takes more than `max_steps`. With `widths` forces are those
    of rounded ReLU (`soft_rectifier`), energies exact.
    """
    part, n_steps = (
        net.at_inputs(slice(leading, None), z[0]),
        min(max_steps, math.ceil(TRAILING_ANGLE / step)),
    )
    step = min(step, TRAILING_ANGLE / n_steps)
    start = z[0][:, :, leading:]
    v = torch.randn(start.shape, generator=generator, device=start.device, dtype=start.dtype)
    if widths and can_be_lean(net):
        each = []
        for i in range(len(state)):
            one = slice(i, i + 1)
            ways = _lean_ways(of_chain(part, i), [q[one] for q in z[1:]], state[one], prior, widths)
            each.append(_follow(start[one], v[one], *ways, step=step, n_steps=n_steps))
        q, error, energy = (torch.cat(parts) for parts in zip(*each, strict=True))
    else:
        q, error, energy = _follow(
            start, v, *_ways(part, z[1:], state, prior, widths), step=step, n_steps=n_steps
        )
    did = judge(error, energy, generator=generator)
    first = torch.cat([z[0][:, :, :leading], torch.where(did.accepted[:, None, None], q, start)], 2)
    return [first, *z[1:]], did


def _follow(
    q: Tensor, v: Tensor, force: Way, value: Way, *, step: float, n_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow q with momenta v, both (chain, out, in); return its end, and the energies' errors and starts, (chain,)."""
    q, v = q.clone(), v.clone()

    def energy() -> Tensor:
        return 0.5 * (square_norm([q]) + square_norm([v])) - value(q)

    begun = energy()
    v.add_(force(q), alpha=0.5 * step)
    for i in range(n_steps):
        rotate([q], [v], step)
        v.add_(force(q), alpha=step if i + 1 < n_steps else 0.5 * step)
    return q, energy() - begun, begun


def _ways(
    part: WhitenedNetwork, upper: Layers, state: Tensor, prior: ScalePrior, widths: Sequence[float]
) -> tuple[Way, Way]:
    """Return the force on the first layer's z (chain, out, in) and the exact log density, of `joint_density`."""

    def force(q: Tensor) -> Tensor:
        return log_force(part, [q, *upper], state, prior, widths=widths).by_z[0]

    def value(q: Tensor) -> Tensor:
        return log_density(part, [q, *upper], state, prior)

    return force, value


def _lean_ways(
    part: WhitenedNetwork, upper: Layers, state: Tensor, prior: ScalePrior, widths: Sequence[float]
) -> tuple[Way, Way]:
    """Return the same for one chain on a CPU."""
    at, weights = in_range(state)[0].numpy(), [q[0].numpy() for q in upper]
    scales, lean, density = (
        prior.plain_scales(at),
        LeanForce(part, prior, (), widths),
        LeanDensity(part, prior),
    )
    force_of_any, _ = _ways(part, upper, state, prior, widths)

    def force(q: Tensor) -> Tensor:
        found = lean.by_first_layer([q[0].numpy(), *weights], scales)
        return force_of_any(q) if found is None else torch.from_numpy(found)[None]

    def value(q: Tensor) -> Tensor:
        density.place([q[0].numpy(), *weights])
        return torch.tensor([density(at)], dtype=torch.float64)

    return force, value
