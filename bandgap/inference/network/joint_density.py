r"""The log density of whitened weights z and scales h without the prior of z, and its gradient.

log p(y | z, h) + log p(h), for batches of chains, in torch. With frames (`partial_centring`) it is
the density of (zeta, h) without exp(-|zeta|^2 / 2). With `widths` gradients are those of a network
with rounded ReLU (`soft_rectifier`); values are exact.

These functions run on any device and for every network. `compiled_density` and `compiled_force` are
faster versions for one chain on a CPU (`has_compiled_code`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.network.partial_centring import Frames, from_frames
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

LARGEST_LOG = 60.0  # largest absolute coordinate of a state
LARGEST_SIGNAL = 1e14  # trace of rho H'H above which I + rho H'H cannot be factored in float64
ROUGH_SIGNAL = 1e4  # the same, up to which a force may form H'H in float32


@dataclass(frozen=True, eq=False)
class Force:
    """Value (chain,) of the log density without the prior of z, and its gradient.

    `by_z` is a list of (chain, out, in), `by_state` has shape (chain, width).
    """

    by_z: Layers
    by_state: Tensor
    value: Tensor


def in_range(state: Tensor) -> Tensor:
    """Return states (chain, width) clipped to the range of numbers, with NaN replaced by 0."""
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
    """Return log p(y | z, h) + log p(h) with its gradient.

    With `frames`, `z` is zeta, and the density is that of (zeta, h). A chain outside the range of
    numbers gets -inf and zero gradients. The force is then still a function of the position alone,
    so that the integrator stays reversible. With `widths`, ReLU is rounded. Without `with_value`,
    the value may be incomplete.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    point = from_frames(frames, z, scales) if frames else None
    z = z if point is None else point.z
    hidden = hidden_features(net, z, scales, widths=widths)
    strength = signal(hidden, scales.rho)
    is_valid = (state == safe).all(-1) & (strength < LARGEST_SIGNAL)  # a NaN compares as False
    if not bool(is_valid.all()):
        hidden = hidden.without(~is_valid)
    rough = not with_value and bool((strength < ROUGH_SIGNAL).all())
    output = integrate_output(net, hidden, scales, rough=rough)
    by_z, by_first = slopes(net, z, scales, hidden, output)
    by_scale = scale_gradient(net, z, by_z, output, scales, by_first=by_first)
    value = output.log_likelihood
    if point is not None:
        by_z, by_scale = point.gradients(frames, by_z, by_scale)
        value = value + point.log_density_change() if with_value else value
    prior_value, by_prior = prior.log_density_and_gradient(safe)
    value = value + prior_value
    by_state = prior.by_state(safe, by_scale) + by_prior
    is_valid &= torch.isfinite(value) & torch.isfinite(by_state).all(-1)
    if bool(is_valid.all()):
        return Force(by_z, by_state, value)
    return Force(
        [torch.where(is_valid[:, None, None], g, torch.zeros_like(g)) for g in by_z],
        torch.where(is_valid[:, None], by_state, torch.zeros_like(by_state)),
        torch.where(is_valid, value, torch.full_like(value, -torch.inf)),
    )


def exact_value(
    net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior, frames: Frames = ()
) -> Tensor:
    """Return the value of `log_force` without widths, (chain,), and no gradient."""
    if not frames:
        return log_density(net, z, state, prior)
    point = from_frames(frames, z, prior.scales(in_range(state)))
    return log_density(net, point.z, state, prior) + point.log_density_change()


def log_density(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    *,
    projected: Tensor | None = None,
) -> Tensor:
    """Return log p(y | z, scales) + log p(scales) of states (chain, width).

    It is -inf outside the range of numbers. `projected` is `net.project(z[0])`, if it is known.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    hidden = hidden_features(net, z, scales, projected=projected)
    is_valid = (state == safe).all(-1) & (signal(hidden, scales.rho) < LARGEST_SIGNAL)
    if not bool(is_valid.all()):
        hidden = hidden.without(~is_valid)
    value = integrate_output(net, hidden, scales).log_likelihood + prior.log_density(safe)
    return torch.where(is_valid & torch.isfinite(value), value, torch.full_like(value, -torch.inf))


def signal(hidden: Hidden, rho: Tensor) -> Tensor:
    """Return the trace of rho H'H, (chain,), infinite or NaN where H is not finite."""
    norm: Tensor = torch.linalg.vector_norm(hidden.features, dim=(1, 2))
    return rho * norm.double() ** 2
