"""Runs with a Gaussian process in the classifier, and with a line in its score, are still read.

The stored files are those of `kernel_ridge` on 30 made-up rows, of 2 trees in each fold.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from bandgap.posterior import Diagnostics, restored_posterior
from bandgap.storage.arrays import load_arrays
from tests.storing import read_again

STORED = Path(__file__).with_name("earlier_metals")


@pytest.mark.parametrize("line", ["", "_without_line"])
def test_predictions_of_an_earlier_run_are_those_that_it_made(line: str) -> None:
    scalars = json.loads((STORED / "scalars.json").read_text())
    if line:
        del scalars["line"]
    arrays = load_arrays(STORED / "draws.safetensors")
    expected = np.load(STORED / "expected.npz")
    posterior = restored_posterior(arrays, scalars, Diagnostics())
    draws = posterior.predictive_draws(expected["features"])
    assert draws.p_metal is not None
    np.testing.assert_allclose(draws.p_metal, expected["p_metal"], rtol=1e-12)
    for name in ("means_eV", "centres_eV", "sds_eV"):
        stored = expected[name.replace("_eV", f"{line}_eV")]
        np.testing.assert_allclose(getattr(draws, name), stored, rtol=1e-12)
    again = read_again(posterior).predictive_draws(expected["features"])
    np.testing.assert_array_equal(again.means_eV, draws.means_eV)
