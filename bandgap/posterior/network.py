r"""The posterior of a transferred network: draws of its weights and their predictions.

The first layer of a draw is

    theta_hat_1 + coordinates basis' + scale E (I - basis basis')

with E standard normal. Only the row-space coordinates (chain, draw, width, r) enter the likelihood.
The other term follows the prior exactly. It is not stored: every draw has its own seed, from which
E is drawn when the network is evaluated. So a prediction does not depend on the structures
predicted with it. A point estimate is one chain with one draw, an empty basis and scale 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.networks.standardise import Standardiser
from bandgap.posterior.draw_kernels import DrawnLayers, drawn_layers, evaluate, sparse_rows
from bandgap.posterior.layer_cache import cached_layers, layer_cache_is_off
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws, by_block, with_noise

ROWS_PER_BLOCK = 4096  # structures evaluated together; bounds the memory


@dataclass(frozen=True, eq=False)
class NetworkPosterior:
    """Draws of a network in index order (chain, draw, ...); sigma and tau in standardised gap
    units.

    `upper[l]` are the draws of layer l + 2, (chain, draw, out, in + 1). The bias is the last input.
    """

    kind: ClassVar[str] = "network"
    n_members: ClassVar[int] = 1

    standardiser: Standardiser
    theta_hat_1: Tensor  # (width, p + 1)
    basis: Tensor  # (p + 1, r)
    coordinates: Tensor  # (chain, draw, width, r)
    scale_1: Tensor  # (chain, draw)
    upper: tuple[Tensor, ...]
    sigma: Floats  # (chain, draw)
    seed: int
    layer_weights: Floats | None = None  # c, (chain, draw, L)
    tau: Floats | None = None  # (chain, draw)
    layer_sensitivity: Floats | None = None  # mean over training inputs of alpha_l, (L,)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return int(self.sigma.shape[0])

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.sigma.shape[1])

    @property
    def sigma_eV(self) -> Floats:
        """Standard deviation of the noise of every draw, (chain, draw), in eV."""
        return self.sigma * self.standardiser.y_sd_eV

    def mean_draws_eV(self, features: NDArray[np.floating]) -> Floats:
        """Return f(x; theta) of every draw, (chain, draw, n), in eV, for raw features (n, p)."""
        (outputs,) = by_block(
            lambda x: (self._evaluate(x),),
            self.standardiser.features(features),
            rows=ROWS_PER_BLOCK,
        )
        return self.standardiser.gaps_eV(outputs)

    def predictive_draws(self, features: NDArray[np.floating]) -> PredictiveDraws:
        """Return draws of the mean and their noise for a new observation for raw
        features (n, p).
        """
        return with_noise(self.mean_draws_eV(features), self.sigma_eV)

    def summaries(self) -> dict[str, Floats]:
        """Return draws of sigma in eV, and of c, tau and the layers' shares kappa if any."""
        draws = {"sigma_eV": self.sigma_eV, "c": self.layer_weights, "tau": self.tau}
        if self.layer_weights is not None and self.layer_sensitivity is not None:
            draws["kappa"] = function_share(self.layer_weights, self.layer_sensitivity)
        return {name: value for name, value in draws.items() if value is not None}

    def _evaluate(self, x: Floats) -> Floats:
        """Return the outputs (chain, draw, n) at standardised features (n, p)."""
        return self._evaluate_dense(x) if layer_cache_is_off() else self._evaluate_sparse(x)

    def _evaluate_sparse(self, x: Floats) -> Floats:
        """Evaluate every draw by loops over nonzero features, with layers from the cache."""
        rows = sparse_rows(x, self.standardiser.features(np.zeros((1, x.shape[1])))[0])

        def compute(chain: int, draw: int, is_stored: NDArray[np.bool_]) -> DrawnLayers:
            first = self._first_weights(chain, draw).numpy()
            upper = [layer[chain, draw].numpy() for layer in self.upper]
            return drawn_layers(first, upper, base=rows.base, is_stored=is_stored)

        layers_of, is_stored = cached_layers(
            self, compute, is_used=rows.used_features(), n_bytes=self._n_bytes
        )
        positions = (np.cumsum(is_stored) - 1)[rows.features]
        values = np.empty((self.n_chains, self.n_draws, rows.n))
        for chain in range(self.n_chains):
            for draw in range(self.n_draws):
                values[chain, draw] = evaluate(layers_of(chain, draw), rows, positions=positions)
        values[:, :, ~np.isfinite(x).all(axis=1)] = np.nan
        return values

    @property
    def _n_bytes(self) -> int:
        return (
            4
            * self.sigma.size
            * (self.theta_hat_1.numel() + sum(layer[0, 0].numel() for layer in self.upper))
        )

    def _first_weights(self, chain: int, draw: int) -> Tensor:
        """Return the first layer (width, p + 1) of a draw."""
        scale = float(self.scale_1[chain, draw])
        inside = self.coordinates[chain, draw]
        if not scale > 0:
            return self.theta_hat_1 + inside @ self.basis.T
        normals = normal_draw(self.seed, chain, draw, self.theta_hat_1.shape).mul_(scale)
        within = (inside - normals @ self.basis) @ self.basis.T
        return normals.add_(self.theta_hat_1).add_(within)

    def _evaluate_dense(self, x: Floats) -> Floats:
        inputs = torch.from_numpy(np.hstack([x, np.ones((x.shape[0], 1))])).float()
        first = self.first_layer(inputs)
        values = np.empty((self.n_chains, self.n_draws, x.shape[0]))
        for chain in range(self.n_chains):
            for draw in range(self.n_draws):
                pre = first(chain, draw)
                for layer in self.upper:
                    h = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=1.0)
                    pre = h @ layer[chain, draw].T
                values[chain, draw] = pre.squeeze(-1).double().numpy()
        return values

    def first_layer(self, inputs: Tensor) -> Callable[[int, int], Tensor]:
        """Return a function of chain and draw for the first layer before its ReLU, (n, width).

        `inputs` are standardised features with a last column of ones, (n, p + 1).
        """
        inside = inputs @ self.basis
        outside = inputs - inside @ self.basis.T  # removes the part of E inside the basis
        base = inputs @ self.theta_hat_1.T

        def pre_activations(chain: int, draw: int) -> Tensor:
            pre = base + inside @ self.coordinates[chain, draw].T
            scale = float(self.scale_1[chain, draw])
            if scale > 0:
                pre = pre + scale * (
                    outside @ normal_draw(self.seed, chain, draw, self.theta_hat_1.shape).T
                )
            return pre

        return pre_activations


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaledNetworkPosterior(NetworkPosterior):
    """Draws of a network with a prior sd for every weight of the first layer, `sd_1` (width, p +
    1).

    With S = `sd_1` the first layer is theta_hat_1 + scale S z, z = E + S (coordinates basis'), with
    products entry by entry. E is standard normal, from a seed of each draw, and follows the prior.
    The second term conditions it: at the training inputs S z then has the sampled values
    (Matheron's rule; Wilson et al., 2020). So a draw stores (width, r) numbers and needs no
    factorisation. Without a basis (r = 0) the first layer is a draw of N(theta_hat_1, scale^2 S^2).
    """

    kind: ClassVar[str] = "scaled_network"

    sd_1: Tensor

    def first_layer(self, inputs: Tensor) -> Callable[[int, int], Tensor]:
        base = inputs @ self.theta_hat_1.T

        def pre_activations(chain: int, draw: int) -> Tensor:
            return base + inputs @ self._displacement(chain, draw).T

        return pre_activations

    def _first_weights(self, chain: int, draw: int) -> Tensor:
        return self.theta_hat_1 + self._displacement(chain, draw)

    def _displacement(self, chain: int, draw: int) -> Tensor:
        """Return the first layer (width, p + 1) of a draw minus theta_hat_1."""
        z = normal_draw(self.seed, chain, draw, self.theta_hat_1.shape)
        z += self.sd_1 * (self.coordinates[chain, draw] @ self.basis.T)
        return float(self.scale_1[chain, draw]) * (self.sd_1 * z)


def normal_draw(seed: int, chain: int, draw: int, shape: tuple[int, ...]) -> Tensor:
    """Return E of one draw: standard normal, float32, from this draw's own random stream."""
    word = np.random.SeedSequence([seed, chain, draw]).generate_state(1, np.uint64)[0]
    return torch.randn(shape, generator=torch.Generator().manual_seed(int(word) % 2**63))


def first_layer_coordinates(
    displacement: Tensor, *, sd_1: Tensor, basis: Tensor, seed: int
) -> Tensor:
    """Return the coordinates (chain, draw, width, r) of draws with a given S z in the basis.

    For every unit, basis' S (E + S basis coordinates) = displacement is solved, where S is the
    diagonal matrix of its row of `sd_1`.

    Parameters
    ----------
    displacement
        Coordinates of S z in the basis, (chain, draw, width, r).
    sd_1
        Prior standard deviations of the first layer, (width, p + 1), all above 0.
    basis
        Basis of the row space, (p + 1, r).
    seed
        Seed of the posterior, from which E of every draw comes.
    """
    wide_sd = sd_1.double()
    columns = basis.double()
    missing = displacement.double().clone()
    for chain in range(displacement.shape[0]):
        for draw in range(displacement.shape[1]):
            drawn = normal_draw(seed, chain, draw, sd_1.shape).double()
            missing[chain, draw] -= (wide_sd * drawn) @ columns
    result = torch.empty_like(missing)
    for unit, sd in enumerate(wide_sd):
        factor = torch.linalg.cholesky((columns.T * sd**2) @ columns)
        right_sides = missing[:, :, unit].flatten(0, 1)
        result[:, :, unit] = torch.cholesky_solve(right_sides.T, factor).T.reshape_as(
            result[:, :, unit]
        )
    return result.float()


def function_share(c: Floats, sensitivity: Floats) -> Floats:
    r"""Return the share kappa (..., L) of each layer in the prior variance of the function.

    Given tau and c, theta_l - theta_hat_l ~ N(0, tau c_l I) for every layer l. To first order

        f(x; theta) - f(x; theta_hat) = sum_l (theta_l - theta_hat_l)'grad_l f(x; theta_hat)

    The terms are independent with variances tau c_l alpha_l(x), alpha_l(x) = |grad_l f(x;
    theta_hat)|^2. Averaged over the training inputs x_j, the share of layer l is

        kappa_l = c_l mean_j alpha_l(x_j) / sum_m c_m mean_j alpha_m(x_j)

    A layer with many inputs has a large alpha, so kappa_l may be large although c_l is small. If
    the prior covariance is tau c_l Sigma_l with a diagonal Sigma_l, alpha_l(x) is grad_l' Sigma_l
    grad_l.

    Parameters
    ----------
    c
        Share of each layer in the prior variance of the weights, (..., L).
    sensitivity
        Mean of alpha_l over the training inputs, (L,).

    Raises
    ------
    InputError
        If the numbers of layers differ, a sensitivity is negative or all are zero.

    References
    ----------
    Abba (2023), section 2.3.3.
    """
    if c.shape[-1:] != sensitivity.shape or (sensitivity < 0).any() or not sensitivity.any():
        raise InputError(
            f"function share: c has shape {c.shape}, sensitivity {sensitivity}. Accepted: one "
            "sensitivity a layer, 0 or more, and not all 0."
        )
    parts = c * sensitivity
    result: Floats = parts / parts.sum(-1, keepdims=True)
    return result
