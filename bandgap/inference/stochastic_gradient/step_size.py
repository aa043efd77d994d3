r"""Two formulas by which a step is set, both for theta' = theta + h G g + sqrt(2 h / tau) S z, S S' = G.

Linear stability asks h lambda_max(G H) < 2, H being minus the Hessian of the log posterior. For a Gaussian target with
G = H^-1 and batch noise Cov(g) = c H, c about N / n - 1 (the information identity),

    stationary variance / true variance = (1 + h c tau / 2) / (1 - h / 2).

h here is Welling and Teh's epsilon / 2. 5 % too much variance needs h <= 0.1 / (N / n - 1), so that an independent draw
takes 10 epochs or more, whatever n is.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError


def largest_stable_step(curvature: float) -> float:
    """Return the step below which a chain is stable where lambda_max(G H) is `curvature`."""
    return 2.0 / curvature


def batch_noise(n_rows: int, batch_size: int) -> float:
    """Return c = N / n - 1, the batch noise in units of the Hessian.

    >>> batch_noise(1000, 100)
    9.0
    """
    return n_rows / batch_size - 1.0


def variance_ratio(step: float, *, noise: float = 0.0, inverse_temperature: float = 1.0) -> float:
    """Return stationary over true variance of a Gaussian with G = H^-1; raises ConfigError where no law is stationary.

    >>> round(variance_ratio(0.01, noise=9.0), 3)
    1.05
    """
    if not 0 <= step < 2:
        raise ConfigError(f"step {step}. Accepted: 0 to below 2, beyond which no chain is stable.")
    return (1.0 + 0.5 * step * noise * inverse_temperature) / (1.0 - 0.5 * step)


def step_for_ratio(ratio: float, *, noise: float = 0.0, inverse_temperature: float = 1.0) -> float:
    """Return the step at which `variance_ratio` is `ratio`, above 1."""
    if not ratio > 1:
        raise ConfigError(f"variance ratio {ratio}. Accepted: a number above 1.")
    return 2.0 * (ratio - 1.0) / (ratio + noise * inverse_temperature)


def largest_curvature(
    gradient: Callable[[Tensor], Tensor],
    position: Tensor,
    *,
    generator: torch.Generator,
    rounds: int = 20,
) -> Tensor:
    """Return about the largest eigenvalue by size of minus the Hessian at positions (chain, dim), (chain,).

    By power iteration from directions that are the same for all chains; `gradient` maps (chain, dim) to (chain, dim),
    and products with the Hessian are differences of gradients.
    """
    drawn = torch.randn(position.shape[1:], generator=generator, dtype=torch.float64)
    direction = drawn.to(position).expand_as(position)
    length = 1e-3 * (1.0 + position.norm(dim=1, keepdim=True) / position.shape[1] ** 0.5)
    start, found = gradient(position), position.new_zeros(position.shape[0])
    for _ in range(rounds):
        direction = direction / direction.norm(dim=1, keepdim=True)
        product = (start - gradient(position + length * direction)) / length
        found = torch.linalg.vecdot(product, direction)
        direction = product
    return found
