"""Both libraries give the product for every memory layout of the arguments."""

import shutil
import subprocess
import warnings

import numpy as np
import pytest

from bandgap.inference.network.compiled_kernels import by_numpy, by_torch, multiply, silent

GENERATOR = np.random.default_rng(4)


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(dtype)


WIDE = array(50, 9)
DOUBLE = array(50, 7, dtype=np.float64)
PAIRS = {
    "contiguous": (array(50, 6), array(6, 8)),
    "second transposed": (array(50, 6), array(8, 6).T),
    "first transposed": (array(50, 6).T, array(50, 8)),
    "with itself": (WIDE.T, WIDE),
    "some columns": (array(50, 6), array(6, 9)[:, :-1]),
    "float64": (DOUBLE.T, DOUBLE),
}


@pytest.mark.parametrize("product", [by_numpy, by_torch])
@pytest.mark.parametrize("pair", PAIRS)
def test_product_is_written_into_the_given_array(product, pair):
    a, b = PAIRS[pair]
    out = np.full((a.shape[0], b.shape[1]), np.nan, dtype=a.dtype)
    assert product(a, b, out=out) is out
    np.testing.assert_allclose(out, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("product", [by_numpy, by_torch])
def test_products_out_of_range_are_infinite_without_a_warning(product):
    out = np.empty((1, 1), np.float32)
    with warnings.catch_warnings(), silent():
        warnings.simplefilter("error")
        product(np.full((1, 3), 1e30, np.float32), np.full((3, 1), 1e30, np.float32), out=out)
    assert np.isinf(out).all()


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="needs lscpu, which names the processor")
def test_numpy_is_used_on_processors_of_amd():
    output = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    assert multiply is (by_numpy if "AuthenticAMD" in output else by_torch)
