r"""ReLU with a rounded corner, for the forces of Hamiltonian paths.

A path along the exact gradient of a ReLU network meets a kink wherever a unit switches on or off
for one of the rows, thousands of times in a radian. The energy errors there add up at random and
limit the step. The gradient of a network with

    r_w(x) = max(x - w, 0) + w u^2,   gate r_w'(x) = u = min(max((x + w) / (2 w), 0), 1)

follows a smooth energy instead. r_w is x for x > w, zero for x < -w, and at most w / 4 above ReLU
in between. The smooth energy stays within a bounded distance of the exact one, however long the
path is. The exact energy decides on acceptance. Any force that is a function of the position keeps
the path reversible and of constant volume, so that the posterior is exact.
"""

import torch
from torch import Tensor


def rectified(pre: Tensor, constant: float, width: float = 0.0) -> tuple[Tensor, Tensor | None]:
    """Return (r_w(pre), constant) of shape (chain, n, units + 1) and the gates (chain, n, units).

    `width` 0 gives ReLU and no gates, because the features determine them.
    """
    if not width:
        return torch.nn.functional.pad(pre, (0, 1), value=constant).relu_(), None
    wide = pre.new_empty((*pre.shape[:-1], pre.shape[-1] + 1))
    wide[..., -1] = constant
    features = wide[..., :-1]
    gate = pre.clamp(-width, width).add_(width).mul_(0.5 / width)
    torch.sub(pre, width, out=features)
    features.clamp_(min=0.0).addcmul_(gate, gate, value=width)
    return wide, gate


def through_relu(g: Tensor, wide: Tensor) -> Tensor:
    """Return g where the rectified features (chain, n, units + 1) are above zero, else zero.

    This is ReLU's backward pass.
    """
    result: Tensor = torch.ops.aten.threshold_backward(g, wide[..., :-1], 0)
    return result
