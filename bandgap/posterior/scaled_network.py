r"""The posterior of a network whose first layer has prior standard deviations of its own, weight by weight.

The first layer is theta_hat_1 + scale S z, z = E + S (coordinates basis'), products entry by entry, with E standard
normal from a seed of its own for every draw. E has the law of the prior; the second term moves it, in the metric of the
prior, to where S z meets the training inputs as it was sampled (Matheron's rule, as in Wilson et al., 2020). So a draw
takes (width, r) numbers and no factorisation. Without a basis (r = 0) the first layer is a draw of N(theta_hat_1,
scale^2 S^2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from bandgap.posterior.network import NetworkPosterior, normal_draw
from bandgap.posterior.protocol import Diagnostics


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaledNetworkPosterior(NetworkPosterior):
    """Draws of a network; `sd_1` is S, (width, p + 1), the other fields are those of `NetworkPosterior`."""

    kind: ClassVar[str] = "scaled_network"

    sd_1: Tensor

    def _first_layer(self, wide: Tensor) -> Callable[[int, int], Tensor]:
        base = wide @ self.theta_hat_1.T

        def pre_activations(chain: int, draw: int) -> Tensor:
            z = normal_draw(self.seed, chain, draw, self.theta_hat_1.shape)
            z += self.sd_1 * (self.coordinates[chain, draw] @ self.basis.T)
            return base + float(self.scale_1[chain, draw]) * (wide @ (self.sd_1 * z).T)

        return pre_activations

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        return super().to_arrays() | {"sd.1": self.sd_1.contiguous()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        plain = NetworkPosterior.from_arrays(arrays, scalars=scalars, diagnostics=diagnostics)
        return cls(**{f.name: getattr(plain, f.name) for f in fields(plain)}, sd_1=arrays["sd.1"])


def first_layer_coordinates(displacement: Tensor, *, sd_1: Tensor, basis: Tensor, seed: int) -> Tensor:
    """Return the coordinates of draws whose S z is `displacement` (chain, draw, width, r) in the basis (p + 1, r).

    For every unit with the diagonal matrix S of its row of `sd_1` (width, p + 1), basis' S (E + S basis coordinates) =
    displacement is solved. All entries of `sd_1` must be above 0.
    """
    wide_sd, columns = sd_1.double(), basis.double()
    missing = displacement.double().clone()
    for chain in range(displacement.shape[0]):
        for draw in range(displacement.shape[1]):
            drawn = normal_draw(seed, chain, draw, sd_1.shape).double()
            missing[chain, draw] -= (wide_sd * drawn) @ columns
    result = torch.empty_like(missing)
    for unit, sd in enumerate(wide_sd):
        factor = torch.linalg.cholesky((columns.T * sd**2) @ columns)
        wanted = missing[:, :, unit].flatten(0, 1)
        result[:, :, unit] = torch.cholesky_solve(wanted.T, factor).T.reshape_as(result[:, :, unit])
    return result.float()
