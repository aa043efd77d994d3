r"""What moves a stack of networks: Adam, SGD with momentum, stochastic-gradient HMC; and clipping.

Every update is elementwise, so that one optimiser on the stack is one optimiser a sample; the norm that clips is each
sample's own. SGHMC (Chen, Fox and Guestrin, 2014) for the energy U = n loss / s^2 at temperature T, n rows and noise
variance s^2, with the rate of the mean loss, lr s^2 / n for U (so that a small s^2 does not make steps unstable):

    v <- a v - lr grad loss + N(0, 2 (1 - a) T s^2 lr / n),     theta <- theta + v,     a = 0.9 by default
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from bandgap.inference.batch.kernels import Layers, Stack


class Mover(Protocol):
    """Moves all weights of a stack along its gradients."""

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step; `noisy` adds the noise of a sampler."""
        ...


def clip(stack: Stack, limit: float) -> None:
    """Scale the gradient of every sample whose norm is above the limit down to it."""
    squares = [torch.linalg.vector_norm(gradient, dim=(1, 2)) ** 2 for gradient in stack.gradients]
    norms = torch.stack(squares).sum(0).sqrt()
    if not norms.is_cuda and float(norms.max()) <= limit:
        return
    factor = (limit / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1.0)[:, None, None]
    for gradient in stack.gradients:
        gradient.mul_(factor)


class Descent:
    """Adam or SGD with momentum, as torch's fused kernels over the stack's storage."""

    def __init__(self, stack: Stack, *, adam: bool, momentum: float) -> None:
        for weight, gradient in zip(stack.storage, stack.gradient_storage, strict=True):
            weight.grad = gradient
        self._optimiser: torch.optim.Optimizer = (
            torch.optim.Adam(stack.storage, fused=True)
            if adam
            else torch.optim.SGD(stack.storage, lr=1.0, momentum=momentum, fused=True)
        )

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step of this learning rate; never noisy."""
        del noisy
        self._optimiser.param_groups[0]["lr"] = learning_rate
        self._optimiser.step()


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise of SGHMC: for every sample T s^2 / n, its generator, and its rank (number of row-space inputs)."""

    scales: Sequence[float]
    generators: Sequence[np.random.Generator]
    ranks: Sequence[int]


class Hamiltonian:
    """SGHMC; the noise of a sample is drawn from its own generator, first layer first."""

    def __init__(self, stack: Stack, *, momentum: float, noise: Noise) -> None:
        self._stack, self._momentum, self._noise = stack, momentum, noise
        self._velocity: Layers = [torch.zeros_like(weight) for weight in stack.weights]

    def step(self, learning_rate: float, *, noisy: bool) -> None:
        """Take one step of this learning rate, with noise where `noisy`."""
        stack, kept = self._stack, self._momentum
        for velocity, gradient in zip(self._velocity, stack.gradients, strict=True):
            velocity.mul_(kept).sub_(gradient, alpha=learning_rate)
        if noisy and max(self._noise.scales) > 0:
            self._shake(learning_rate)
        for weight, velocity in zip(stack.weights, self._velocity, strict=True):
            weight.add_(velocity)

    def _shake(self, learning_rate: float) -> None:
        noise = self._noise
        for sample, generator in enumerate(noise.generators):
            variance = 2 * (1 - self._momentum) * noise.scales[sample] * learning_rate
            for level, velocity in enumerate(self._velocity):
                rows = noise.ranks[sample] if level == 0 else velocity.shape[1]
                drawn = generator.standard_normal((rows, velocity.shape[2]))
                part = torch.from_numpy(np.sqrt(variance) * drawn)
                velocity[sample, :rows] += part.to(velocity.device, velocity.dtype)


def annealed(learning_rate: float, *, share: float) -> float:
    """Return the learning rate at a share in [0, 1) of a cosine schedule that ends at 0."""
    return 0.5 * learning_rate * (1.0 + float(np.cos(np.pi * share)))
