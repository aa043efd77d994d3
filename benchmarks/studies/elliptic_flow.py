r"""Flow through a porous square, and networks that learn its velocity (the paper's section 5.3).

kappa^-1 u + grad p = 0, div u = f on nx x ny rectangles, one velocity an edge and one pressure a
cell: lowest-order Raviart-Thomas elements with the trapezoid rule, which is the method of finite
volumes with fluxes between two points. With D the differences between neighbouring cells, C the
conductances of edges (half a cell to each side), and q the fluxes,

    D' C D p = F,     q = -C D p.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flow:
    """Velocities at x-edges (nx + 1, ny) and y-edges (nx, ny + 1)."""

    x_velocity: Floats
    y_velocity: Floats

    @property
    def edges(self) -> Floats:
        """All velocities, (edges,), x-edges first."""
        return np.concatenate([self.x_velocity.ravel(), self.y_velocity.ravel()])


def solve_flow(
    kappa: Floats, source: Floats, *, pressures: tuple[float, float] | None = None
) -> Flow:
    """Solve for cell permeabilities kappa and sources f, both (nx, ny), on the unit square.

    Without `pressures` at the left and right side no fluid passes any side.
    """
    nx, ny = kappa.shape
    differences = [
        sparse.kron(_differences(nx), sparse.eye(ny)),
        sparse.kron(sparse.eye(nx), _differences(ny)),
    ]
    harmonic = [
        2.0 / (1.0 / kappa[1:] + 1.0 / kappa[:-1]) * nx / ny,
        2.0 / (1.0 / kappa[:, 1:] + 1.0 / kappa[:, :-1]) * ny / nx,
    ]
    conductance = sparse.diags(np.concatenate([part.ravel() for part in harmonic]))
    d = sparse.vstack(differences).tocsr()
    sides = np.zeros((2, nx, ny))  # conductances to the left and right side
    if pressures is not None:
        sides[0, 0] = 2.0 * kappa[0] * nx / ny
        sides[1, -1] = 2.0 * kappa[-1] * nx / ny
    outside = np.array(pressures or (0.0, 0.0))[:, None, None]
    matrix = d.T @ conductance @ d + sparse.diags(sides.sum(0).ravel())
    if pressures is None:  # the pressure is known up to a constant
        matrix = matrix + sparse.csr_matrix(([1.0], ([0], [0])), matrix.shape)
    terms = source / (nx * ny) + (sides * outside).sum(0)
    p = spsolve(matrix.tocsc(), terms.ravel())
    flux = -(conductance @ (d @ p))
    x = np.zeros((nx + 1, ny))
    y = np.zeros((nx, ny + 1))
    x[1:-1] = flux[: (nx - 1) * ny].reshape(nx - 1, ny)
    y[:, 1:-1] = flux[(nx - 1) * ny :].reshape(nx, ny - 1)
    through = sides * (outside - p.reshape(nx, ny))
    x[0] = through[0, 0]
    x[-1] = -through[1, -1]
    return Flow(x * ny, y * nx)


def _differences(n: int) -> Any:
    """Return the matrix (n - 1, n) of the differences between neighbours."""
    return sparse.diags([-1.0, 1.0], [0, 1], shape=(n - 1, n))


def wells(nx: int, ny: int, *, upper_right: float, lower_left: float, block: int = 4) -> Floats:
    """Return sources (nx, ny) of problem 1: two square blocks, balanced by one in the middle."""
    f = np.zeros((nx, ny))
    x = (nx - block) // 2
    y = (ny - block) // 2
    f[-block:, -block:] = upper_right
    f[:block, :block] = lower_left
    f[x : x + block, y : y + block] = -(upper_right + lower_left)
    return f


def karhunen_loeve(nx: int, ny: int, *, terms: int = 64) -> Floats:
    """Return sqrt(xi_j) Phi_j at cell centres, (terms, nx, ny).

    The covariance of the field is 2 exp(-dx^2 / .2^2 - dy^2 / .3^2).
    """
    kernels = []
    for count, length in ((nx, 0.2), (ny, 0.3)):
        at = (np.arange(count) + 0.5) / count
        kernels.append(np.exp(-(((at[:, None] - at) / length) ** 2)))
    values, vectors = np.linalg.eigh(2.0 * np.kron(*kernels))
    fields = (vectors * np.sqrt(np.maximum(values, 0.0))).T[::-1]
    return np.asarray(fields[:terms].reshape(-1, nx, ny))


def surrogate(
    first_channels: tuple[int, ...] = (), *, channels: int = 32, width: int = 200, grid: int = 50
) -> nn.Sequential:
    """Return a network from a field (n, 1, grid, grid) to the velocities of all edges.

    The defaults are the paper's network N1, without convolutions on the fine grid; it does not
    state the channels of those on the coarse grid. N2 has 64 and 32 channels on the fine grid and a
    last hidden layer of 800.
    """

    def convolutions(*widths: int) -> list[nn.Module]:
        pairs = itertools.pairwise(widths)
        return [layer for pair in pairs for layer in (nn.Conv2d(*pair, 3, padding=1), nn.ReLU())]

    half = grid // 2
    return nn.Sequential(
        *convolutions(1, *first_channels),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear((1, *first_channels)[-1] * half * half, 100),
        nn.ReLU(),
        nn.Unflatten(1, (1, 10, 10)),
        *convolutions(1, channels, channels),
        nn.Flatten(),
        nn.Linear(100 * channels, width),
        nn.ReLU(),
        nn.Linear(width, 2 * grid * (grid + 1)),
    )


def relative_errors(predicted: Tensor, velocities: Tensor) -> Tensor:
    """Return |u - F| / |u| (n,) of predicted and true velocities (n, edges)."""
    errors: Tensor = (predicted - velocities).norm(dim=1) / velocities.norm(dim=1)
    return errors


@dataclass(frozen=True, eq=False)
class SurrogateTarget:
    """L = -mean_i |u_i - F(x_i)| / |u_i| with a flat prior: minus the paper's loss.

    Fields x are (N, 1, nx, ny), velocities u (N, edges).
    """

    network: nn.Sequential
    fields: Tensor
    velocities: Tensor

    @property
    def n_rows(self) -> int:
        """Number N of solved flows."""
        return int(self.fields.shape[0])

    @property
    def start(self) -> Tensor:
        """The network's own parameters, flat (dim,)."""
        return parameters_to_vector(self.network.parameters()).detach()

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return zero."""
        return torch.zeros_like(position)

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the rows' part of the gradient (chain, dim) of L, rows (chain, n)."""

        def negative(flat: Tensor, batch: Tensor) -> Tensor:
            return -self.relative_errors(flat, batch).sum() / self.n_rows

        by_chain: Callable[[Tensor, Tensor], Tensor] = torch.func.vmap(torch.func.grad(negative))
        return by_chain(position, rows)

    def relative_errors(self, flat: Tensor, rows: Tensor) -> Tensor:
        """Return |u - F| / |u| of rows (n,) for parameters (dim,)."""
        return relative_errors(self.predicted(flat, self.fields[rows]), self.velocities[rows])

    def predicted(self, flat: Tensor, fields: Tensor) -> Tensor:
        """Return velocities (n, edges) of fields (n, 1, nx, ny) for parameters (dim,)."""
        names, values = zip(*self.network.named_parameters(), strict=True)
        parts = torch.split(flat, [value.numel() for value in values])
        parameters = {
            name: part.view(value.shape)
            for name, part, value in zip(names, parts, values, strict=True)
        }
        velocities: Tensor = torch.func.functional_call(self.network, parameters, (fields,))
        return velocities

    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Return first index and end of all weight matrices and kernels without the last."""
        values = list(self.network.parameters())
        ends = itertools.accumulate(value.numel() for value in values)
        spans = [
            (end - value.numel(), end)
            for value, end in zip(values, ends, strict=True)
            if value.ndim > 1
        ]
        return tuple(spans[:-1])
