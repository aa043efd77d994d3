"""Both libraries give the product, whatever the layout of what they are given."""

import shutil
import subprocess
import warnings

import pytest
import torch

from bandgap.inference.network.lean_kernels import by_numpy, by_torch, multiply

GENERATOR = torch.Generator().manual_seed(4)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR, dtype=dtype)


WIDE, FINE = tensor(50, 9), tensor(50, 7, dtype=torch.float64)
PAIRS = {
    "as they lie": (tensor(50, 6), tensor(6, 8)),
    "second turned": (tensor(50, 6), tensor(8, 6).T),
    "first turned": (tensor(50, 6).T, tensor(50, 8)),
    "with itself": (WIDE.T, WIDE),
    "some columns": (tensor(50, 6), tensor(6, 9)[:, :-1]),
    "float64": (FINE.T, FINE),
}


@pytest.mark.parametrize("product", [by_numpy, by_torch])
@pytest.mark.parametrize("pair", PAIRS)
def test_product_is_written_where_it_is_asked_for(product, pair):
    a, b = PAIRS[pair]
    out = torch.full((a.shape[0], b.shape[1]), torch.nan, dtype=a.dtype)
    assert product(a, b, out=out) is out
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("product", [by_numpy, by_torch])
def test_products_out_of_range_are_infinite_without_a_warning(product):
    out = torch.empty(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product(torch.full((1, 3), 1e30), torch.full((3, 1), 1e30), out=out)
    assert torch.isinf(out).all()


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="nobody else to ask whose the processor is")
def test_processor_of_amd_is_given_numpys():
    told = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    assert multiply is (by_numpy if "AuthenticAMD" in told else by_torch)
