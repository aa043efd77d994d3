"""Runs that an earlier version wrote still open, and still say the same."""

from pathlib import Path

import pytest

import bandgap
from bandgap.evaluation.calibrators import load_calibrator, measured_part
from bandgap.evaluation.heldout import figures_at, load_heldout
from bandgap.storage.manifests import read_manifest
from bandgap.transfer import get_method
from tests.earlier.written import RUNS, assert_same_table, structures


def test_earlier_runs_have_posteriors_of_every_kind_of_that_version() -> None:
    kinds = {run["kind"] for run in RUNS.values()}
    alone = {"network", "scaled_network", "last_layer", "feature_gp", "conformal", "gaussian_process"}
    assert kinds == {*alone, "mixture"}


@pytest.mark.parametrize("name", RUNS)
def test_earlier_run_opens_with_its_self_check_and_predicts_what_it_did(earlier: Path, name: str) -> None:
    if RUNS[name]["levels"] != "none":
        pytest.importorskip("tblite")
    folder = earlier / "runs" / name
    run = bandgap.load_run(folder)
    assert run.posterior.kind == RUNS[name]["kind"]
    get_method(run.manifest["method"]).configure(run.manifest["config"])
    new = structures(earlier, "new.extxyz")
    for table, shown in RUNS[name]["tables"].items():
        how = {"level": shown["level"], "interval": shown["interval"]}
        found = bandgap.predict_run(folder, new, calibrated=shown["calibrated"], **how)
        assert found.status[-1] == "refused"
        assert_same_table(found.to_csv(level=how["level"], kind=how["interval"]), earlier / "predictions" / table)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "feature_gp_of_levels"])
def test_held_out_structures_of_an_earlier_run_give_the_figures_of_its_manifest(earlier: Path, name: str) -> None:
    manifest = read_manifest(earlier / "runs" / name, kind="run")
    heldout = load_heldout(earlier / "runs" / name, manifest)
    assert len(heldout) == len(manifest["split"]["test"]) >= 3
    found = figures_at(heldout, 0.95)
    assert found["rmse_eV"] == pytest.approx(manifest["metrics"]["rmse_eV"])
    assert found["width_eV"] == pytest.approx(manifest["metrics"]["width_95_eV"])


@pytest.mark.parametrize(
    ("name", "kind", "n"), [("last_layer_ridge", "variance", 20), ("gaussian_process", "conformal", 4)]
)
def test_calibrator_of_an_earlier_run_opens(earlier: Path, name: str, kind: str, n: int) -> None:
    folder = earlier / "runs" / name
    calibrator = load_calibrator(folder)
    assert calibrator is not None
    assert (calibrator.kind, len(calibrator), calibrator.n_test) == (kind, n, 10)
    heldout = load_heldout(folder, read_manifest(folder, kind="run"))
    assert len(measured_part(heldout, calibrator)) == 10
