"""Compiled loops agree with Python, and need no writable folder."""

import subprocess
import sys

import numpy as np
import pytest

from bandgap.inference.network import compiled_kernels, compiled_output


def matrices(n, seed):
    a = np.random.default_rng(seed).normal(size=(n, n + 3))
    return a @ a.T


@pytest.mark.parametrize("n", [1, 2, 7, 65])
def test_inverse_is_that_of_lapack(n):
    a = matrices(n, n)
    inverse = np.empty((n, n))
    assert compiled_output.invert(a.copy(), inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_matrix_without_a_factor_is_reported(bad):
    a = matrices(4, 0)
    a[2, 2] = bad
    assert not compiled_output.factorise(a)


def test_gates_and_features_are_those_of_rounded_relu():
    y = np.array([[-0.3, 0.0, 0.1, 0.4, 2.0]], np.float32)  # x + w with w = 0.2
    gate = np.empty_like(y)
    wide = np.empty((1, 6), np.float32)
    compiled_kernels.rectify(y, 0.4, gate, wide)
    np.testing.assert_allclose(gate / 0.4, [[0.0, 0.0, 0.25, 1.0, 1.0]], rtol=1e-6)
    np.testing.assert_allclose(wide[:, :5] / 0.4, [[0.0, 0.0, 0.0125, 0.2, 1.8]], rtol=1e-6)


def test_code_is_compiled_without_a_writable_folder():
    """numba raises if it finds no cache folder, as for code without a file."""
    code = (
        "from bandgap.foundation.machine import compiled\n"
        "@compiled\n"
        "def twice(x: float) -> float:\n"
        "    return 2.0 * x\n"
        "print(twice(3.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "6.0\n"
