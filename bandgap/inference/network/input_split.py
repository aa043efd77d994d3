r"""The first layer's inputs in two parts: the leading ones, which long paths move, and the others, which hardly matter.

In the row space of the training inputs the singular values fall fast: of 394 inputs of 500 crystals, the first 64 carry
99 % of the variance. The weights of the others are almost as the prior has them. A path with them held fixed needs a
third of the arithmetic; a short path of their own, with all else fixed, moves them as far as they can go (a Gibbs step;
both leave the joint posterior as it is).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bandgap.inference.network.joint_density import LARGEST_SIGNAL, in_range, signal
from bandgap.inference.network.joint_hmc import Transition, judge, rotate
from bandgap.inference.network.lean_density import LeanDensity, can_be_lean, of_chain
from bandgap.inference.network.lean_force import LeanForce
from bandgap.inference.network.partial_centring import square_norm
from bandgap.inference.network.scales import ScalePrior, Scales
from bandgap.inference.network.whitened_network import (
    Layers,
    WhitenedNetwork,
    hidden_features,
    integrate_output,
    slopes,
)

LEFT_OUT = 0.01  # share of the inputs' variance in the trailing part
WORTH = 0.7  # of all inputs: with more leading ones than that, nothing is split
TRAILING_ANGLE = 1.5  # radians of a path of the trailing weights


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


def unit_spans(net: WhitenedNetwork, z: Layers, scales: Scales, *, usual: Tensor, leading: int) -> list[float]:
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

    Its steps are at most `step` radians long, unless that takes more than `max_steps`. With `widths`, and
    where chains are followed one at a time (on a CPU), forces are those of rounded ReLU (`soft_rectifier`), energies
    exact.
    """
    part, n_steps = net.at_inputs(slice(leading, None), z[0]), min(max_steps, math.ceil(TRAILING_ANGLE / step))
    step = min(step, TRAILING_ANGLE / n_steps)
    start = z[0][:, :, leading:]
    v = torch.randn(start.shape, generator=generator, device=start.device, dtype=start.dtype)
    if widths and can_be_lean(net):
        each = [
            _lean_path(
                of_chain(part, chain), prior, [q[chain] for q in z], state[chain], v[chain], step, n_steps, widths
            )
            for chain in range(len(state))
        ]
        q, error, energy = (torch.stack(parts) for parts in zip(*each, strict=True))
    else:
        q, error, energy = _path(part, prior, [start, *z[1:]], state, v, step, n_steps)
    did = judge(error, energy, generator=generator)
    first = torch.cat([z[0][:, :, :leading], torch.where(did.accepted[:, None, None], q, start)], 2)
    return [first, *z[1:]], did


def _look(part: WhitenedNetwork, z: Layers, scales: Scales, widths: Sequence[float] = ()) -> tuple[Tensor, Tensor]:
    """Return the gradient by the first layer's z and the log likelihood (chain,); outside the range of numbers 0, -inf.

    With `widths` both are those of rounded ReLU.
    """
    hidden = hidden_features(part, z, scales, widths=widths)
    fine = signal(hidden, scales.rho) < LARGEST_SIGNAL  # a NaN compares as False
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    output = integrate_output(part, hidden, scales)
    force, value = slopes(part, z, scales, hidden, output)[0][0], output.log_likelihood
    fine &= torch.isfinite(value) & torch.isfinite(force).flatten(1).all(1)
    force = torch.where(fine[:, None, None], force, torch.zeros_like(force))
    return force, torch.where(fine, value, torch.full_like(value, -torch.inf))


def _path(
    part: WhitenedNetwork, prior: ScalePrior, z: Layers, state: Tensor, v: Tensor, step: float, n_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow the first layer of z for momenta v; return its end, and the energies' errors and starts, both (chain,)."""
    scales, q, v = prior.scales(in_range(state)), z[0].clone(), v.clone()
    force, value = _look(part, [q, *z[1:]], scales)
    energy = 0.5 * (square_norm([q]) + square_norm([v])) - value
    v.add_(force, alpha=0.5 * step)
    for i in range(n_steps):
        rotate([q], [v], step)
        force, value = _look(part, [q, *z[1:]], scales)
        v.add_(force, alpha=step if i + 1 < n_steps else 0.5 * step)
    return q, 0.5 * (square_norm([q]) + square_norm([v])) - value - energy, energy


def _lean_path(
    part: WhitenedNetwork,
    prior: ScalePrior,
    z: Layers,
    state: Tensor,
    v: Tensor,
    step: float,
    n_steps: int,
    widths: Sequence[float],
) -> tuple[Tensor, Tensor, Tensor]:
    """Do it for one chain on a CPU, with the forces of rounded ReLU; z is a list of (out, in), v (out, trailing)."""
    at = in_range(state).numpy()
    scales, force, density = prior.plain_scales(at), LeanForce(part, prior, (), widths), LeanDensity(part, prior)
    q, v = z[0][:, -part.inputs.shape[1] :].clone(), v.clone()

    def energy() -> Tensor:
        density.place([q, *z[1:]])
        return 0.5 * (square_norm([q[None]]) + square_norm([v[None]]))[0] - density(at)

    def pull() -> Tensor:
        found = force.by_first_layer([q, *z[1:]], scales)
        if found is None:
            of_all = prior.scales(torch.from_numpy(at)[None])
            found = _look(part, [q[None], *(a[None] for a in z[1:])], of_all, widths)[0][0]
        return found

    begun = energy()
    v.add_(pull(), alpha=0.5 * step)
    for i in range(n_steps):
        rotate([q], [v], step)
        v.add_(pull(), alpha=step if i + 1 < n_steps else 0.5 * step)
    return q, energy() - begun, begun
