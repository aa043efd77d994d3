r"""A whitened network whose weights have separate prior standard deviations.

theta_l = theta_hat_l + s_l S_l z_l with z_l ~ N(0, I), where S_l has the shape of theta_l and its
product with z_l is entry by entry. One of the two reductions of `whitened_network` applies:

- Last layer: relu(a S) = relu(a) S for S > 0. The standard deviations of the output weights are
  multiplied into the rows of the layer below (and into the constant that the bias is multiplied
  by), and theta_hat_L is divided by them. This gives the isotropic case.
- Row space: it does not apply. Every unit of the first layer has its own row space, X S_1o, without
  a common basis. The first layer is sampled with all its inputs. The motion of the prior is exact,
  so that the added directions cost no accuracy. A gradient at n rows costs no more than with the
  n x n factors of X S_1o^2 X', which do not fit into a cache. A draw is stored by what the data
  depend on: S_1 z_1 in the row space of X, (out, r). The remaining part follows the prior.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork, row_space


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaledNetwork(WhitenedNetwork):
    """Training data of one target, source weights and their standard deviations.

    `inputs` (n, p + 1) are (x, 1), and `basis` (p + 1, r) spans their row space. `sd[l]` are S_l of
    the sampled layers. The rows of the last of them, and of theta_hat, are multiplied by the output
    weights' standard deviations; `row_sd[l]` (out, 1) or (1, 1) are these factors.
    """

    sd: Layers
    row_sd: Layers

    @property
    def isotropic(self) -> bool:
        """Whether all weights of a layer have one prior standard deviation: no."""
        return False

    def project(self, z_1: Tensor) -> Tensor:
        """Return what the first layer's z (chain, out, in) adds to its pre-activation at scale 1.

        The result has shape (chain, n, out).
        """
        return self.inputs @ (self.sd[0] * z_1).transpose(1, 2)

    def weights(self, layer: int, s: Tensor, z: Tensor) -> Tensor:
        """Return the weights of a sampled layer from the second on, (chain, out, in).

        `s` has shape (chain, 1, 1).
        """
        return self.theta_hat[layer] + s * (self.sd[layer] * z)

    def reach(self, layer: int, h: Tensor) -> float:
        """Return by how much z moves a unit's input at scale 1, as `WhitenedNetwork.reach`."""
        return float((h.double().square() @ self.sd[layer].double().square().T).mean().sqrt())

    def by_z(self, layer: int, s: Tensor, g: Tensor, h: Tensor) -> Tensor:
        """Return a gradient by z of a sampled layer, as `WhitenedNetwork.by_z`."""
        return s * (self.sd[layer] * (g.transpose(1, 2) @ h))

    def stored(self, z: Layers) -> Layers:
        """Return what a stored draw needs of z: in the first layer, S_1 z_1 in the row space."""
        return [(self.sd[0] / self.row_sd[0] * z[0]) @ self.basis, *z[1:]]


def whiten_scaled(
    theta_hat: Layers, sd: Layers, x: Tensor, y: Tensor, *, device: torch.device, dtype: torch.dtype
) -> ScaledNetwork:
    """Prepare a problem.

    `theta_hat[l]` and `sd[l]` > 0 have shape (out, in + 1), standardised x (n, p) and y (n,).
    """
    wide = torch.cat([x.double(), torch.ones(x.shape[0], 1, dtype=torch.float64)], 1)
    output_sd = sd[-1].double()  # (1, q)
    row_sd = [torch.ones(1, 1, dtype=torch.float64) for _ in theta_hat[:-1]]
    row_sd[-1] = output_sd[:, :-1].T
    centres = [row * t.double() for row, t in zip(row_sd, theta_hat[:-1], strict=True)]
    spreads = [row * s.double() for row, s in zip(row_sd, sd[:-1], strict=True)]

    def place(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=dtype).contiguous()

    return ScaledNetwork(
        [place(t) for t in (*centres, theta_hat[-1].double() / output_sd)],
        place(wide),
        place(wide @ centres[0].T),
        place(row_space(wide).basis),
        y.to(device, torch.float64),
        constant=float(output_sd[0, -1]),
        sd=[place(s) for s in spreads],
        row_sd=[place(row) for row in row_sd],
    )
