"""Matrix products of tensors on a CPU, into arrays made before, by the faster of two libraries on this processor.

torch's (MKL) keeps to registers of half the width on processors that are not Intel's. `bandgap bench products` measures
both: on a Zen 5, numpy's took 0.57 of the time (0.9 where OpenBLAS was told to keep to half the width too).
"""

import numpy as np
import torch
from torch import Tensor

from bandgap.processors import made_by_amd


def by_numpy(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it; silent on numbers out of range, as the other one is."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.dot(a.numpy(), b.numpy(), out=out.numpy())
    return out


def by_torch(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it."""
    return torch.mm(a, b, out=out)


multiply = by_numpy if made_by_amd() else by_torch
