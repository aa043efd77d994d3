"""Updates of the weights of a stack (Adam, SGD with momentum, SGHMC), and clipping of gradients.

Every update is elementwise, so that one optimiser on the stack is one optimiser for each sample.
Gradients are clipped by the norm of each sample. SGHMC (Chen, Fox and Guestrin, 2014;
`stochastic_gradient/sghmc.py`) samples the energy U = n loss / s^2 at temperature T, with n rows
and noise variance s^2. Its learning rate lr is that of the mean loss, which is lr s^2 / n for U, so
that a small s^2 does not make steps unstable:

    v <- a v - lr grad loss + N(0, 2 (1 - a) T s^2 lr / n),     theta <- theta + v

The momentum a is 1 minus the friction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.batch.kernels import Layers, Stack

Friction = TypeVar("Friction", float, Tensor)


class Mover(Protocol):
    """Moves all weights of a stack along its gradients."""

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step; `noisy` adds the noise of a sampler."""
        ...


def clip(stack: Stack, limit: float) -> None:
    """Scale the gradient of every sample whose norm is above `limit` to that norm."""
    squares = [torch.linalg.vector_norm(gradient, dim=(1, 2)) ** 2 for gradient in stack.gradients]
    norms = torch.stack(squares).sum(0).sqrt()
    if not norms.is_cuda and float(norms.max()) <= limit:
        return
    factor = (limit / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1.0)[:, None, None]
    for gradient in stack.gradients:
        gradient.mul_(factor)


class Descent:
    """Adam or SGD with momentum, by torch's fused kernels on the storage of the stack."""

    def __init__(self, stack: Stack, *, adam: bool, momentum: float) -> None:
        for weight, gradient in zip(stack.storage, stack.gradient_storage, strict=True):
            weight.grad = gradient
        self._optimiser: torch.optim.Optimizer = (
            torch.optim.Adam(stack.storage, fused=True)
            if adam
            else torch.optim.SGD(stack.storage, lr=1.0, momentum=momentum, fused=True)
        )

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step of this learning rate; never adds noise."""
        del noisy
        self._optimiser.param_groups[0]["lr"] = learning_rate
        self._optimiser.step()


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise of SGHMC, one entry per sample."""

    temperatures: Sequence[float]  # T s^2 / n, the temperature of the mean loss
    generators: Sequence[np.random.Generator]
    ranks: Sequence[int]  # number of row-space inputs


class Hamiltonian:
    """SGHMC; the noise of a sample is drawn from its own generator, first layer first."""

    def __init__(self, stack: Stack, *, momentum: float, noise: Noise) -> None:
        self._stack = stack
        self._friction = 1.0 - momentum
        self._noise = noise
        self._velocity: Layers = [torch.zeros_like(weight) for weight in stack.weights]

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step of this learning rate; `noisy` adds the noise."""
        stack = self._stack
        for velocity, loss_gradient in zip(self._velocity, stack.gradients, strict=True):
            update_velocity(velocity, loss_gradient, step=-learning_rate, friction=self._friction)
        if noisy and max(self._noise.temperatures) > 0:
            self._add_noise(learning_rate)
        for weight, velocity in zip(stack.weights, self._velocity, strict=True):
            weight.add_(velocity)

    def _add_noise(self, learning_rate: float) -> None:
        noise = self._noise
        for sample, generator in enumerate(noise.generators):
            variance = velocity_noise_variance(
                self._friction, step=learning_rate, temperature=noise.temperatures[sample]
            )
            for layer, velocity in enumerate(self._velocity):
                rows = noise.ranks[sample] if layer == 0 else velocity.shape[1]
                normals = generator.standard_normal((rows, velocity.shape[2]))
                added = torch.from_numpy(np.sqrt(variance) * normals)
                velocity[sample, :rows] += added.to(velocity.device, velocity.dtype)


def update_velocity(velocity: Tensor, gradient: Tensor, *, step: float, friction: float) -> None:
    """Replace `velocity`, in place, by (1 - friction) velocity + step gradient."""
    velocity.mul_(1.0 - friction).add_(gradient, alpha=step)


def velocity_noise_variance(net_friction: Friction, *, step: float, temperature: float) -> Friction:
    """Return 2 (alpha - b) eta / tau, the variance of the noise that a step adds to a velocity.

    `net_friction` is alpha - b, `temperature` 1 / tau.
    """
    return 2.0 * step * temperature * net_friction


def annealed(learning_rate: float, *, share: float) -> float:
    """Return the learning rate at a share in [0, 1) of a cosine schedule that ends at 0."""
    return 0.5 * learning_rate * (1.0 + float(np.cos(np.pi * share)))
