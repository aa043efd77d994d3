r"""Flow through a porous square, and networks that learn its velocity (the paper's section 5.3).

kappa^-1 u + grad p = 0, div u = f, by lowest-order Raviart-Thomas elements on nx x ny rectangles:
one velocity an edge, one pressure a cell,

    [[A, B'], [B, 0]] [u; p] = [D; -F],

A with |K| / kappa [[1/3, 1/6], [1/6, 1/3]] for the two edges of a direction, B with +h at a cell's
left and bottom edge and -h at the other two, F the integrals of f, D = -p_D h (n.e) on edges with a
given pressure; no-flow edges are left out. x-edges are numbered i ny + j (i = 0 ... nx), then
y-edges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve
from torch import Tensor, nn

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flow:
    """Velocities at x-edges (nx + 1, ny) and y-edges (nx, ny + 1), and cell pressures (nx, ny)."""

    x_velocity: Floats
    y_velocity: Floats
    pressure: Floats

    @property
    def edges(self) -> Floats:
        """All velocities, (edges,), x-edges first."""
        return np.concatenate([self.x_velocity.ravel(), self.y_velocity.ravel()])


def solve_flow(
    kappa: Floats,
    source: Floats,
    *,
    left_pressure: float | None = None,
    right_pressure: float | None = None,
) -> Flow:
    """Solve for cell permeabilities kappa and sources f, both (nx, ny), on the unit square.

    Without pressures at the left and right side no fluid passes any side, and the mean pressure is
    0.
    """
    nx, ny = kappa.shape
    hx = 1.0 / nx
    hy = 1.0 / ny
    n_x = (nx + 1) * ny
    n_edges = n_x + nx * (ny + 1)
    cells = np.arange(nx * ny)
    i, j = np.divmod(cells, ny)
    weight = hx * hy / kappa.ravel()
    pairs = ((i * ny + j, (i + 1) * ny + j), (n_x + i * (ny + 1) + j, n_x + i * (ny + 1) + j + 1))
    a = sparse.coo_matrix((n_edges, n_edges)).tocsr()
    b = sparse.coo_matrix((nx * ny, n_edges)).tocsr()
    for (low, high), other in zip(pairs, (hy, hx), strict=True):
        for first, second, share in (
            (low, low, 3.0),
            (high, high, 3.0),
            (low, high, 6.0),
            (high, low, 6.0),
        ):
            a = a + sparse.coo_matrix((weight / share, (first, second)), (n_edges, n_edges)).tocsr()
        for edge, sign in ((low, other), (high, -other)):
            b = b + sparse.coo_matrix((np.full(nx * ny, sign), (cells, edge)), b.shape).tocsr()
    known_terms = np.zeros(n_edges)
    free = np.ones(n_edges, dtype=bool)
    free[n_x:].reshape(nx, ny + 1)[:, [0, -1]] = False
    for edges, pressure, sign in (
        (np.arange(ny), left_pressure, hy),
        (nx * ny + np.arange(ny), right_pressure, -hy),
    ):
        if pressure is None:
            free[edges] = False
        else:
            known_terms[edges] = sign * pressure
    free_edges = np.flatnonzero(free)
    a, b = a[free_edges][:, free_edges], b[:, free_edges]
    closed = left_pressure is None and right_pressure is None
    mean = sparse.csr_matrix(np.ones((1, nx * ny)) if closed else np.zeros((0, nx * ny)))
    rows: list[list[Any]] = (
        [[a, b.T, None], [b, None, mean.T], [None, mean, None]] if closed else [[a, b.T], [b, None]]
    )
    right_side = np.concatenate(
        [known_terms[free_edges], -source.ravel() * hx * hy, np.zeros(int(closed))]
    )
    solved = spsolve(sparse.bmat(rows).tocsc(), right_side)
    velocity = np.zeros(n_edges)
    velocity[free_edges] = solved[: free_edges.size]
    pressure_of = solved[free_edges.size : free_edges.size + nx * ny].reshape(nx, ny)
    return Flow(velocity[:n_x].reshape(nx + 1, ny), velocity[n_x:].reshape(nx, ny + 1), pressure_of)


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
    modes = []
    for count, length in ((nx, 0.2), (ny, 0.3)):
        at = (np.arange(count) + 0.5) / count
        values, vectors = np.linalg.eigh(np.exp(-(((at[:, None] - at) / length) ** 2)) / count)
        modes.append((values[::-1], vectors[:, ::-1] * np.sqrt(count)))
    (vx, px), (vy, py) = modes
    strength = 2.0 * np.outer(np.maximum(vx, 0), np.maximum(vy, 0))
    largest = np.argsort(strength, axis=None)[::-1][:terms]
    a, b = np.unravel_index(largest, strength.shape)
    fields: Floats = np.sqrt(strength[a, b])[:, None, None] * np.einsum(
        "xt,yt->txy", px[:, a], py[:, b]
    )
    return fields


def permeability(fields: Floats, mu: Floats) -> Floats:
    """Return kappa = exp(sum_j mu_j field_j), (nx, ny); the printed sum is negative at places."""
    result: Floats = np.exp(np.tensordot(mu, fields, 1))
    return result


@dataclass(frozen=True)
class Layers:
    """Sizes of a surrogate; the defaults are those of the paper's network N1.

    Parameters
    ----------
    first_channels
        Channels of the two convolutions on the fine grid; none in N1, 64 and 32 in N2.
    channels
        Channels of the two convolutions on the coarse grid, which the paper does not state.
    width
        Width of the last hidden layer: 200 in N1, 800 in N2.
    """

    first_channels: tuple[int, ...] = ()
    channels: int = 32
    width: int = 200


N1 = Layers()
N2 = Layers((64, 32), width=800)


def surrogate(layers: Layers = N1, *, grid: int = 50) -> nn.Sequential:
    """Return a network from a field (n, 1, grid, grid) to the velocities of all edges."""
    half = grid // 2
    edges = 2 * grid * (grid + 1)
    before: list[nn.Module] = []
    n_channels = 1
    for channels in layers.first_channels:
        before += [nn.Conv2d(n_channels, channels, 3, padding=1), nn.ReLU()]
        n_channels = channels
    return nn.Sequential(
        *before,
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(n_channels * half * half, 100),
        nn.ReLU(),
        nn.Unflatten(1, (1, 10, 10)),
        nn.Conv2d(1, layers.channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(layers.channels, layers.channels, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(100 * layers.channels, layers.width),
        nn.ReLU(),
        nn.Linear(layers.width, edges),
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
        return torch.cat([p.detach().flatten() for p in self.network.parameters()])

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
        parameters = {}
        first = 0
        for name, value in self.network.named_parameters():
            parameters[name] = flat[first : first + value.numel()].view(value.shape)
            first += value.numel()
        velocities: Tensor = torch.func.functional_call(self.network, parameters, (fields,))
        return velocities

    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Return first index and end of all weight matrices and kernels without the last."""
        spans = []
        first = 0
        for value in self.network.parameters():
            if value.ndim > 1:
                spans.append((first, first + value.numel()))
            first += value.numel()
        return tuple(spans[:-1])
