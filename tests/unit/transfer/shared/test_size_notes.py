"""What is said, or refused, before a fit to many rows."""

import numpy as np
import pytest

from bandgap.foundation.errors import BudgetError
from bandgap.sources.no_source import no_source
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared import method as method_module
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.test_every_method import DESCRIPTOR, rows_of


@pytest.mark.parametrize("name", ["feature_gp", "kernel_ridge", "gaussian_process", "stacking"])
def test_fit_with_matrices_of_all_rows_grows_with_the_cube_from_a_thousand(name: str):
    cost = METHODS[name].cost
    assert cost.seconds(1000, None) == pytest.approx(cost.thousand_s)
    assert cost.seconds(200, None) == pytest.approx(cost.large_s)
    assert cost.seconds(12_000, None) == pytest.approx(12**3 * cost.thousand_s)


@pytest.mark.parametrize(
    ("name", "other"), [("kernel_ridge", "fresh_networks"), ("feature_gp", "last_layer_pcp")]
)
def test_time_and_memory_of_a_long_fit_are_said_with_a_method_that_fits(name: str, other: str):
    note = METHODS[name].note_on_size(8_000)
    assert note.startswith(f"{name} with 8,000 structures takes about ")
    assert "GB of memory" in note and f"or by {other}" in note
    assert METHODS[name].note_on_size(1_000) == METHODS[other].note_on_size(100_000) == ""


def test_fit_whose_matrices_exceed_the_memory_is_refused(monkeypatch):
    x, gaps = rows_of(30, seed=0)
    fit = METHODS["gaussian_process"].fit_features
    source = no_source(DESCRIPTOR, x, gaps)
    config = METHODS["gaussian_process"].configure({})
    n_bytes = 8 * METHODS["gaussian_process"].cost.matrices * 30**2
    monkeypatch.setattr(method_module, "usable_bytes", lambda: n_bytes)
    posterior = fit(source, TargetData(x, gaps), config, Fitting(0))
    assert np.isfinite(posterior.mean_draws_eV(x)).all()
    monkeypatch.setattr(method_module, "usable_bytes", lambda: n_bytes - 1)
    with pytest.raises(BudgetError, match="gaussian_process with 30 structures needs"):
        fit(source, TargetData(x, gaps), config, Fitting(0))
