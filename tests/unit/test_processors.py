"""A process that asks for wide registers gets them where the processor has them, unless its user chose otherwise."""

import json
import os
import subprocess
import sys

import pytest

LOOK = """
import json, os
from bandgap.processors import use_wide_registers
use_wide_registers()
import numpy as np
from threadpoolctl import threadpool_info
features = np._core._multiarray_umath.__cpu_features__
cores = [lib["architecture"] for lib in threadpool_info() if lib["internal_api"] == "openblas"]
print(json.dumps({"wide": bool(features.get("AVX512_SKX")), "cores": cores}))
"""


def core_and_width(**chosen: str) -> tuple[str, bool]:
    """Which of its kernels numpy's OpenBLAS takes in a new process, and whether the processor has AVX-512."""
    inherited = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    told = subprocess.run([sys.executable, "-c", LOOK], env=inherited | chosen, capture_output=True, check=True)
    found = json.loads(told.stdout)
    if not found["cores"]:
        pytest.skip("numpy has no OpenBLAS here")
    return found["cores"][0], found["wide"]


def test_openblas_uses_avx512_where_there_is_avx512():
    core, wide = core_and_width()
    assert (core in ("SkylakeX", "Cooperlake", "SapphireRapids")) is wide


def test_choice_of_the_user_stays():
    assert core_and_width(OPENBLAS_CORETYPE="Nehalem")[0] == "Nehalem"
