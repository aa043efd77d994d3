"""What a processor can do that libraries of matrix products do not find out by themselves.

Measured on a Zen 5 at the sizes of the samplers (500 rows, 128 units, float32, one thread): torch's products (MKL) and
numpy's (OpenBLAS) run at about 105 GFLOP/s with half-wide registers, numpy's with AVX-512 at 200. MKL keeps to half
width on processors that are not Intel's; the OpenBLAS in numpy's wheels has too few kernels to find its own for them
(numpy/numpy#27147), but takes the one that it is told.
"""

import functools
import os
import platform
from pathlib import Path

CORE_VARIABLE, WIDE_CORE = "OPENBLAS_CORETYPE", "SkylakeX"
NEEDED = frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})  # by that core's kernels


@functools.cache
def made_by_amd() -> bool:
    """Return whether this processor is one of AMD's."""
    return "AuthenticAMD" in (_description() or platform.processor())


def use_wide_registers() -> None:
    """Tell OpenBLAS of AVX-512 where it would not use it, for this process and those that it starts.

    To be called before numpy is imported. A choice that the user made stays.
    """
    if made_by_amd() and set(_description().split()) >= NEEDED:
        os.environ.setdefault(CORE_VARIABLE, WIDE_CORE)


@functools.cache
def _description() -> str:
    """Return what Linux says of the first processor; nothing on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return ""
