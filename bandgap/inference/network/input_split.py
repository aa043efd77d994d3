r"""The first layer's inputs in two parts: leading ones, which long paths move, and trailing ones.

In the row space of the training inputs the singular values fall fast: of 394 inputs of 500
crystals, the first 64 carry 99 % of the variance. The weights of the trailing inputs nearly follow
their prior. A path with them held fixed needs a third of the arithmetic. A separate short path,
with all else fixed, moves them as far as they can go. Both steps keep the joint posterior (Gibbs
sampling).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bandgap.inference.network.compiled_density import (
    CompiledDensity,
    has_compiled_code,
    network_of_chain,
)
from bandgap.inference.network.compiled_force import CompiledForce
from bandgap.inference.network.joint_density import in_range, log_density, log_force
from bandgap.inference.network.joint_hmc import Transition, accept_or_reject, rotate
from bandgap.inference.network.partial_centring import square_norm
from bandgap.inference.network.scales import ScalePrior, Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork, hidden_features

TRAILING_VARIANCE = 0.01  # share of the inputs' variance in the trailing part
LARGEST_LEADING_SHARE = 0.7  # of all inputs, above which nothing is split
TRAILING_ANGLE = 1.5  # radians of a path of the trailing weights

TrailingFunction = Callable[[Tensor], Tensor]  # of the first layer's trailing z (chain, out, in)


def leading_inputs(net: WhitenedNetwork) -> int:
    """Return the number of leading inputs: all where splitting does not pay.

    It does not pay for most inputs leading, and for weights with separate prior widths. The inputs
    of the row space are in the order of falling variance.
    """
    n_inputs = net.inputs.shape[1]
    if not net.isotropic:
        return n_inputs
    variance = (net.inputs.double() ** 2).sum(0)
    remaining = 1.0 - torch.cumsum(variance, 0) / variance.sum()
    leading = int((remaining > TRAILING_VARIANCE).sum()) + 1
    return leading if leading < LARGEST_LEADING_SHARE * n_inputs else n_inputs


def unit_spans(
    net: WhitenedNetwork, z: Layers, scales: Scales, *, layer_scales: Tensor, leading: int
) -> list[float]:
    """Return how far a path of one radian moves a unit's input, by hidden layer (root mean square).

    The units' inputs are those at z and `scales`; of the first layer only the leading inputs count.
    The layers move with the scales `layer_scales` (L,). The list is empty if a value is not a
    positive number.
    """
    inputs = hidden_features(net, z, scales).inputs[:-1]
    inputs[0] = inputs[0][:, :leading]
    spans = [float(layer_scales[layer]) * net.reach(layer, h) for layer, h in enumerate(inputs)]
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

    Steps are at most `step` radians long, unless more than `max_steps` would be needed. With
    `widths` forces are those of rounded ReLU (`soft_rectifier`); energies are exact.
    """
    part = net.with_inputs(slice(leading, None), z[0])
    n_steps = min(max_steps, math.ceil(TRAILING_ANGLE / step))
    step = min(step, TRAILING_ANGLE / n_steps)
    start = z[0][:, :, leading:]
    v = torch.randn(start.shape, generator=generator, device=start.device, dtype=start.dtype)
    if widths and has_compiled_code(net):
        results = []
        for i in range(len(state)):
            one = slice(i, i + 1)
            upper = [q[one] for q in z[1:]]
            functions = _compiled_functions(
                network_of_chain(part, i), upper, state[one], prior, widths
            )
            results.append(_follow(start[one], v[one], *functions, step=step, n_steps=n_steps))
        q, error, energy = (torch.cat(parts) for parts in zip(*results, strict=True))
    else:
        functions = _torch_functions(part, z[1:], state, prior, widths)
        q, error, energy = _follow(start, v, *functions, step=step, n_steps=n_steps)
    transition = accept_or_reject(error, energy, generator=generator)
    trailing = torch.where(transition.accepted[:, None, None], q, start)
    return [torch.cat([z[0][:, :, :leading], trailing], 2), *z[1:]], transition


def _follow(
    q: Tensor,
    v: Tensor,
    force: TrailingFunction,
    value: TrailingFunction,
    *,
    step: float,
    n_steps: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow q with momenta v, both (chain, out, in).

    Returns its end, the error of the energy there, and the energy at the start, both (chain,).
    """
    q = q.clone()
    v = v.clone()

    def energy() -> Tensor:
        return 0.5 * (square_norm([q]) + square_norm([v])) - value(q)

    start_energy = energy()
    v.add_(force(q), alpha=0.5 * step)
    for i in range(n_steps):
        rotate([q], [v], step)
        v.add_(force(q), alpha=step if i + 1 < n_steps else 0.5 * step)
    return q, energy() - start_energy, start_energy


def _torch_functions(
    part: WhitenedNetwork, upper: Layers, state: Tensor, prior: ScalePrior, widths: Sequence[float]
) -> tuple[TrailingFunction, TrailingFunction]:
    """Return the force on the first layer's z (chain, out, in) and the exact log density."""

    def force(q: Tensor) -> Tensor:
        return log_force(part, [q, *upper], state, prior, widths=widths).by_z[0]

    def value(q: Tensor) -> Tensor:
        return log_density(part, [q, *upper], state, prior)

    return force, value


def _compiled_functions(
    part: WhitenedNetwork, upper: Layers, state: Tensor, prior: ScalePrior, widths: Sequence[float]
) -> tuple[TrailingFunction, TrailingFunction]:
    """Return `_torch_functions` for one chain on a CPU, by compiled code.

    `test_one_by_one.py` checks that the force is that of the energy.
    """
    safe = in_range(state)[0].numpy()
    weights = [q[0].numpy() for q in upper]
    scales = prior.plain_scales(safe)
    compiled_force = CompiledForce(part, prior, (), widths)
    density = CompiledDensity(part, prior)
    torch_force, _ = _torch_functions(part, upper, state, prior, widths)

    def force(q: Tensor) -> Tensor:
        by_z = compiled_force.by_first_layer([q[0].numpy(), *weights], scales)
        return torch_force(q) if by_z is None else torch.from_numpy(by_z)[None]

    def value(q: Tensor) -> Tensor:
        density.set_weights([q[0].numpy(), *weights])
        return torch.tensor([density(safe)], dtype=torch.float64)

    return force, value
