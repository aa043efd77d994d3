"""Step length and batch noise of theta' = theta + h G g + sqrt(2 h / tau) S z, S S' = G.

Linear stability requires h lambda_max(G H) < 2, where H is minus the Hessian of the log posterior.
For a Gaussian target with G = H^-1 and batch noise Cov(g) = c H, c about N / n - 1 (the information
identity),

    stationary variance / true variance = (1 + h c tau / 2) / (1 - h / 2).

h is Welling and Teh's epsilon / 2. For 5 % too much variance h is at most 0.1 / (N / n - 1), so
that an independent draw takes 10 epochs or more for any n.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def batch_noise(n_rows: int, batch_size: int) -> float:
    """Return c = N / n - 1, the batch noise in units of the Hessian.

    >>> batch_noise(1000, 100)
    9.0
    """
    return n_rows / batch_size - 1.0


def largest_curvature(
    gradient: Callable[[Tensor], Tensor],
    position: Tensor,
    *,
    generator: torch.Generator,
    rounds: int = 20,
) -> Tensor:
    """Estimate the Hessian's eigenvalue of largest size at positions (chain, dim), (chain,).

    The sign is that of minus the Hessian. Power iteration starts from the same direction in all
    chains. `gradient` maps (chain, dim) to (chain, dim), and differences of gradients give products
    with the Hessian.
    """
    normals = torch.randn(position.shape[1:], generator=generator, dtype=torch.float64)
    direction = normals.to(position).expand_as(position)
    length = 1e-3 * (1.0 + position.norm(dim=1, keepdim=True) / position.shape[1] ** 0.5)
    start = gradient(position)
    eigenvalue = position.new_zeros(position.shape[0])
    for _ in range(rounds):
        direction = direction / direction.norm(dim=1, keepdim=True)
        product = (start - gradient(position + length * direction)) / length
        eigenvalue = torch.linalg.vecdot(product, direction)
        direction = product
    return eigenvalue
