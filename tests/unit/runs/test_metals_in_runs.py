"""A run with metals and a baseline among all that is done with a run: refit, report, zip, lists."""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet
from bandgap.evaluation.heldout import load_heldout
from bandgap.predictions.next_structures import CHANCE, next_structures
from bandgap.predictions.window import Window
from bandgap.runs.prediction import predict_run, predict_with_details
from bandgap.runs.refit import refit_run
from bandgap.storage.manifests import read_manifest
from bandgap.storage.run_archives import RUN_ARCHIVES, run_archive
from tests.transfers import transfer_labelled

BASELINE = "gap_pbe_eV"


@pytest.fixture(scope="module")
def data(world) -> LabelledSet:
    """Molecules of which half have a gap of zero, with a baseline."""
    records = [*world.source_records[:40], *world.records]
    gaps = np.concatenate([world.source_gaps_eV[:40], world.gaps_eV])
    gaps = np.maximum(gaps - np.median(gaps), 0.0)
    return LabelledSet(records, gaps, "made up", baseline_eV=0.6 * gaps + 0.1)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run on 37 molecules, with 9 held back for conformal intervals and 14 held out."""
    return transfer_labelled(
        None,
        data.records,
        data.gaps_eV,
        out=tmp_path_factory.mktemp("metals") / "run",
        baseline_eV=data.baseline_eV,
        level_of_theory="made up",
        method="kernel_ridge",
        baseline=BASELINE,
        n=46,
        n_test=14,
        conformal_share=0.2,
        seed=1,
    )


def test_refit_has_metals_baseline_and_the_conformal_scores_of_its_parent(run, data, tmp_path):
    refit = refit_run(run, None, data, out=tmp_path / "refit")
    manifest = read_manifest(refit, kind="run")
    before = read_manifest(run, kind="run")
    assert manifest["n"] == manifest["data"]["n_labelled"] == 60
    gap_of = {r.id: gap for r, gap in zip(data.records, data.gaps_eV, strict=True)}
    n_metals = sum(gap_of[id_] == 0 for id_ in manifest["split"]["train"])
    assert manifest["diagnostics"]["metals"] == n_metals
    assert manifest["metrics"] == before["metrics"]
    assert "brier_metal" in manifest["metrics"]
    predictions = predict_run(refit, data.records[:8], baseline_eV=data.baseline_eV[:8])
    assert predictions.p_metal is not None
    assert predictions.conformal.scores.tolist() == before["conformal"]["scores"]
    heldout = load_heldout(refit, manifest)
    assert heldout.predictions.p_metal is not None
    assert list(heldout.predictions.ids) == before["split"]["test"]


def strained(record):
    """Return the molecule with bonds that are longer by 2 %."""
    atoms = record.atoms.copy()
    atoms.positions *= 1.02
    return replace(record, atoms=atoms)


def test_run_from_a_zip_predicts_and_ranks_metals_as_the_run_does(run, data, tmp_path):
    RUN_ARCHIVES.unpack(run_archive(run), tmp_path, name="a.zip")
    window = Window(0.0, 0.1)
    options = {"baseline_eV": data.baseline_eV[:12]}
    records = [strained(record) for record in data.records[:12]]  # others than the run knows
    predictions, details = predict_with_details(tmp_path, records, **options)
    expected = predict_run(run, records, **options)
    np.testing.assert_array_equal(predictions.quantiles_new, expected.quantiles_new)
    ranked = next_structures(predictions, details, criterion=CHANCE, count=1, window=window)
    chances = predictions.window_probability(window)
    assert chances[ranked.rows[0]] == pytest.approx(chances.max())
    np.testing.assert_allclose(chances, expected.p_metal, atol=0.1)
