r"""A whitened network whose weights have prior standard deviations of their own: theta_l = theta_hat_l + s_l S_l z_l.

S_l has the shape of theta_l, the product with z_l ~ N(0, I) is entry by entry. Of the two reductions of
`whitened_network` one holds, the other does not:

- Last layer: relu(a S) = relu(a) S for S > 0, so that the standard deviations of the output weights go into the rows
  of the layer below (and into the constant that the bias meets), theta_hat_L is divided by them, and what remains is
  the isotropic case.
- Row space: every unit of the first layer has a row space of its own, X S_1o, and no common basis serves them all. The
  first layer is sampled with all its inputs. The motion of the prior is exact, so that the added directions cost no
  accuracy, and a gradient at n rows no more than with the n x n factors of X S_1o^2 X', which do not fit into a cache.
  A draw is kept by what meets the data: S_1 z_1 in the row space of X, (out, r); the rest follows from the prior.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork, row_space


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaledNetwork(WhitenedNetwork):
    """Training data of one target, source weights and their standard deviations, ready for sampling.

    `inputs` (n, p + 1) are (x, 1) themselves, and `basis` (p + 1, r) spans their row space. `sd[l]` are S_l of the
    sampled layers; with `theta_hat`, the last of them are multiplied by the output weights' as said above, which
    `row_sd[l]` (out, 1) or (1, 1) undoes.
    """

    sd: Layers
    row_sd: Layers

    @property
    def isotropic(self) -> bool:
        """Every weight has a standard deviation of its own."""
        return False

    def project(self, z_1: Tensor) -> Tensor:
        """Return what the first layer's z (chain, out, in) adds to its pre-activation at scale 1, (chain, n, out)."""
        return self.inputs @ (self.sd[0] * z_1).transpose(1, 2)

    def weights(self, layer: int, s: Tensor, z: Tensor) -> Tensor:
        """Return the weights of a sampled layer from the second on, (chain, out, in), for s of shape (chain, 1, 1)."""
        return self.theta_hat[layer] + s * (self.sd[layer] * z)

    def reach(self, layer: int, h: Tensor) -> float:
        """Return by how much z of one layer moves a unit's input at scale 1, as `WhitenedNetwork.reach`."""
        return float((h.double().square() @ self.sd[layer].double().square().T).mean().sqrt())

    def by_z(self, layer: int, s: Tensor, g: Tensor, h: Tensor) -> Tensor:
        """Return a gradient by z of a sampled layer, (chain, out, in), as `WhitenedNetwork.by_z`."""
        return s * (self.sd[layer] * (g.transpose(1, 2) @ h))

    def kept(self, z: Layers) -> Layers:
        """Return what a stored draw needs of z: of the first layer, S_1 z_1 in the row space of the inputs."""
        return [(self.sd[0] / self.row_sd[0] * z[0]) @ self.basis, *z[1:]]


def whiten_scaled(
    theta_hat: Layers, sd: Layers, x: Tensor, y: Tensor, *, device: torch.device, dtype: torch.dtype
) -> ScaledNetwork:
    """Prepare a problem: `theta_hat[l]` and `sd[l]` > 0 (out, in + 1), standardised x (n, p) and y (n,)."""
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
