"""A shipped model as a source: its networks, and runs that start from them."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.demo import load_inorganic
from bandgap.datasets.demo_files import data_folder
from bandgap.datasets.table import LabelledSet
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.posterior import ConformalPosterior, MetalsPosterior
from bandgap.posterior.fold_models import BlendedModels
from bandgap.runs.prediction import predict_run
from bandgap.runs.refit import refit_run
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import load_run
from bandgap.runs.transfer import transfer_run
from bandgap.sources.recalibration import source_gaps_eV
from bandgap.sources.sets import open_sources
from bandgap.storage.manifests import read_manifest
from bandgap.structures import as_records

MODEL = data_folder() / "models" / "pbe-composition"
FEW = {"draws": 8, "proposals": 50, "rounds": 2}


def _labelled(n: int) -> LabelledSet:
    demo = load_inorganic("target")
    return LabelledSet(as_records(demo.records)[:n], demo.gaps_eV[:n], "experiment")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 crystals that started from the shipped model."""
    request = TransferRequest(method="feature_gp", n=20, n_test=5, settings=FEW)
    folder = tmp_path_factory.mktemp("from-model") / "run"
    return transfer_run("pbe-composition", _labelled(25), request, out=folder)


def test_source_networks_predict_as_the_networks_of_the_model() -> None:
    posterior = load_run(MODEL, verify=False).posterior
    assert isinstance(posterior, MetalsPosterior)
    assert isinstance(posterior.semiconductors, ConformalPosterior)
    assert isinstance(posterior.semiconductors.models, BlendedModels)
    models = posterior.semiconductors.models.networks
    rng = np.random.default_rng(0)
    features = np.zeros((9, models.n_features))
    features[:, models.columns] = rng.normal(models.mean, models.scale, (9, models.columns.size))
    members = [member[""] for member in open_sources(MODEL).load()]
    predicted = [source_gaps_eV(model, model.standardiser, features) for model in members]
    np.testing.assert_allclose(predicted, models.predict_eV(features), atol=1e-4)  # float32


def test_run_from_the_model_names_it_and_its_structures(run_folder: Path) -> None:
    manifest = read_manifest(run_folder, kind="run")
    source = manifest["source"]
    assert (source["members"], source["card"]["level_of_theory"]) == (5, "PBE")
    assert source["card"]["data"] == ["Materials Project, PBE gaps"]
    assert len(source["card"]["elements"]) == 86
    assert source["overlap"]["n"] == 25
    assert source["overlap"]["structures"] is None
    assert source["overlap"]["near_copies"] > 0  # the demo is from the Materials Project too
    assert manifest["descriptor"] == read_manifest(MODEL, kind="run")["descriptor"]


def test_run_from_the_model_predicts_and_refits_without_a_further_column(
    run_folder: Path, tmp_path: Path
) -> None:
    new = _labelled(30).records[25:]
    predictions = predict_run(run_folder, new)
    assert np.isfinite(predictions.mean_eV).all()
    refitted = refit_run(run_folder, "pbe-composition", _labelled(25), out=tmp_path / "all")
    assert read_manifest(refitted, kind="run")["n"] == 25


def test_refit_from_another_source_is_refused(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the source model differs from that of this run"):
        refit_run(run_folder, "inorganic", _labelled(25), out=tmp_path / "all")


def test_run_that_is_no_shipped_model_is_no_source(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"is a run, and a source model is expected.*: pbe"):
        transfer_run(run_folder, _labelled(25), TransferRequest(n=20), out=tmp_path / "run")
