"""`bandgap demo`: the whole job on the shipped data."""

import json
from pathlib import Path

import pytest

from bandgap.predictions.table import read_predictions_csv
from tests.unit.cli.conftest import Shell

FIGURES = {"rmse_eV", "mae_eV", "coverage_95", "width_95_eV", "nll", "crps_eV", "seconds"}
SAMPLED = {"rhat_max", "ess_min", "c_mean", "divergences"}


@pytest.mark.slow
def test_demo_writes_both_runs_their_tables_and_the_figures(shell: Shell, tmp_path: Path) -> None:
    out, figures = tmp_path / "demo", tmp_path / "figures.json"
    result = shell("demo", "--out", out, "--json", figures)
    assert result.returncode == 0, result.stderr
    written = json.loads(figures.read_text())
    assert set(written["methods"]) == {"btl_pcp_pe", "fine_tune"}
    assert set(written["methods"]["btl_pcp_pe"]) >= FIGURES | SAMPLED
    assert set(written["methods"]["fine_tune"]) >= FIGURES
    assert sum(written["methods"]["btl_pcp_pe"]["c_mean"]) == pytest.approx(1.0)
    for method in written["methods"]:
        assert len(read_predictions_csv(out / "seed-0" / method / "predictions.csv")) == 300
    for word in ("RMSE (eV)", "coverage of the 95 % interval", "R-hat, largest", "effective draws, fewest", "time"):
        assert word in result.stdout
