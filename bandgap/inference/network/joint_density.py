r"""The log density of whitened weights z and scales h without the prior of z, and the forces that it exerts.

log p(y | z, h) + log p(h); with frames (`partial_centring`), that of (zeta, h) without exp(-|zeta|^2 / 2). With
`widths` the forces are those of a network with rounded ReLU (`soft_rectifier`); values stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.network.partial_centring import Frames, place
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import (
    Hidden,
    Layers,
    WhitenedNetwork,
    hidden_features,
    integrate_output,
    scale_gradient,
    slopes,
)

LARGEST_LOG = 60.0  # of a scale
LARGEST_SIGNAL = 1e14  # trace of rho H'H above which I + rho H'H cannot be factored in float64
ROUGH_SIGNAL = 1e4  # the same, up to which a force may form H'H in float32


@dataclass(frozen=True, eq=False)
class Force:
    """Value (chain,) of the log density without the prior of z, its gradient by z and by the state (chain, width)."""

    by_z: Layers
    by_state: Tensor
    value: Tensor


def in_range(state: Tensor) -> Tensor:
    """Return states (chain, width) with what is out of the range of numbers brought to its ends, NaN to 0."""
    return state.clamp(-LARGEST_LOG, LARGEST_LOG).nan_to_num(0.0)


def log_force(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    frames: Frames = (),
    *,
    widths: Sequence[float] = (),
    with_value: bool = True,
) -> Force:
    """Return log p(y | z, h) + log p(h) with its gradient; with `frames`, `z` is zeta, and both are those in `Place`.

    A chain that left the range of numbers gets -inf and no force. The force stays a function of the position alone, so
    that the integrator stays reversible even there. Without `with_value` the value may lack a part. With `widths` the
    network's ReLU is rounded off.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    at = place(frames, z, scales) if frames else None
    z = z if at is None else at.z
    hidden = hidden_features(net, z, scales, widths=widths)
    strength = signal(hidden, scales.rho)
    fine = (state == safe).all(-1) & (strength < LARGEST_SIGNAL)  # a NaN compares as False
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    rough = not with_value and bool((strength < ROUGH_SIGNAL).all())
    output = integrate_output(net, hidden, scales, rough=rough)
    by_z, by_first = slopes(net, z, scales, hidden, output)
    by_scale, value = (
        scale_gradient(net, z, by_z, output, scales, by_first=by_first),
        output.log_likelihood,
    )
    if at is not None:
        by_z, by_scale = at.force(frames, by_z, by_scale)
        value = value + at.added() if with_value else value
    prior_value, by_prior = prior.log_density_and_gradient(safe)
    value, by_state = value + prior_value, prior.by_state(safe, by_scale) + by_prior
    fine &= torch.isfinite(value) & torch.isfinite(by_state).all(-1)
    if bool(fine.all()):
        return Force(by_z, by_state, value)
    return Force(
        [torch.where(fine[:, None, None], g, torch.zeros_like(g)) for g in by_z],
        torch.where(fine[:, None], by_state, torch.zeros_like(by_state)),
        torch.where(fine, value, torch.full_like(value, -torch.inf)),
    )


def exact_value(
    net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior, frames: Frames = ()
) -> Tensor:
    """Return the value of `log_force` without widths, (chain,), and no gradient."""
    if not frames:
        return log_density(net, z, state, prior)
    at = place(frames, z, prior.scales(in_range(state)))
    return log_density(net, at.z, state, prior) + at.added()


def log_density(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    *,
    projected: Tensor | None = None,
) -> Tensor:
    """Return log p(y | z, scales) + log p(scales) of states (chain, width), -inf outside the range of numbers.

    `projected` is `net.project(z[0])` where it is known already.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    hidden = hidden_features(net, z, scales, projected=projected)
    fine = (state == safe).all(-1) & (signal(hidden, scales.rho) < LARGEST_SIGNAL)
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    value = integrate_output(net, hidden, scales).log_likelihood + prior.log_density(safe)
    return torch.where(fine & torch.isfinite(value), value, torch.full_like(value, -torch.inf))


def signal(hidden: Hidden, rho: Tensor) -> Tensor:
    """Return the trace of rho H'H, (chain,), infinite or NaN where H left the range of numbers."""
    norm: Tensor = torch.linalg.vector_norm(hidden.features, dim=(1, 2))
    return rho * norm.double() ** 2
