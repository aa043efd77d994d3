"""A loaded model predicts structures of every kind as `predict_run` does."""

from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase.build import bulk

import bandgap
from bandgap.datasets.shipped_models import find_model
from bandgap.descriptors.potentials import POTENTIALS
from bandgap.runs.model import Model

CIFS = bandgap.unlabelled_cifs()[:2]


@pytest.fixture(scope="module")
def model() -> Model:
    return bandgap.load_model("pbe")


def test_shipped_model_predicts_paths_records_and_atoms(model: Model) -> None:
    expected = bandgap.predict_run(find_model("pbe").path, CIFS).mean_eV
    assert np.isfinite(expected).all()
    for structures in (CIFS, bandgap.read_paths(CIFS), [ase.io.read(path) for path in CIFS]):
        predictions = model.predict(structures)
        np.testing.assert_allclose(predictions.mean_eV, expected, atol=1e-6)
        assert predictions.level_of_theory == "PBE"


def test_shipped_model_notes_its_error_and_the_next_step(model: Model) -> None:
    text = " ".join(model.notes)
    assert "PBE" in text and "labels" in text


@pytest.mark.skipif(
    not POTENTIALS["chgnet-two-layers"].is_installed, reason="without CHGNet all rows are such"
)
def test_structure_that_the_potential_refuses_has_the_prediction_of_the_substitute(
    model: Model,
) -> None:
    atoms = [bulk("MgPo", "rocksalt", a=6.0), bulk("MgO", "rocksalt", a=4.2)]
    predictions = model.predict(atoms)
    assert predictions.status[0] == "warning"
    assert "predicted by pbe-composition, with an RMSE of 0.6" in predictions.problem[0]
    assert "pbe-composition" not in predictions.problem[1]
    expected = bandgap.load_model("pbe-composition").predict(atoms)
    assert predictions.mean_eV[0] == pytest.approx(expected.mean_eV[0])
    assert predictions.mean_eV[1] != pytest.approx(expected.mean_eV[1])


def test_model_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(bandgap.BandgapError, match="there is no such folder"):
        bandgap.load_model(tmp_path / "none")
