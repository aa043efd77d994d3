"""Matrix products of tensors on a CPU, into arrays made before, by the faster of two libraries on this processor.

torch's (MKL) keeps to registers of half the width on processors that are not Intel's. `bandgap bench products` measures
both: on a Zen 5, numpy's took 0.57 of the time (0.9 where OpenBLAS was told to keep to half the width too).
"""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def by_numpy(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it; silent on numbers out of range, as the other one is."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.dot(a.numpy(), b.numpy(), out=out.numpy())
    return out


def by_torch(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it."""
    return torch.mm(a, b, out=out)


def _made_by_amd() -> bool:
    """Return whether this processor is one of AMD's, as Linux or Windows says; False where nobody says."""
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        said = os.environ.get("PROCESSOR_IDENTIFIER", "")
    return "AuthenticAMD" in said


multiply = by_numpy if _made_by_amd() else by_torch
