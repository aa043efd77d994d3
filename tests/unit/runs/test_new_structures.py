"""Predictions of structures with an element that neither the source nor the labels have."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import molecule

from bandgap.descriptors import featurize
from bandgap.predictions.mixtures import mixture_sd
from bandgap.predictions.next_structures import REDUCTION, SD, next_structures
from bandgap.runs.new_structures import WIDEN_FACTOR
from bandgap.runs.prediction import predict_run, predict_with_details
from bandgap.runs.regressor import BandGapRegressor
from bandgap.runs.stored import load_run
from bandgap.runs.unseen_elements import UnseenElementWarning
from tests.transfers import transfer_labelled
from tests.unit.conftest import make_records, record_of

NO_SOURCE = ("gaussian_process", "kernel_ridge")


def run_of(source_folder, world, tmp_path, method):
    source = None if method in NO_SOURCE else source_folder
    return transfer_labelled(
        source, world.records, world.gaps_eV, out=tmp_path / "run", method=method, n_test=0
    )


@pytest.mark.parametrize("method", NO_SOURCE)
def test_structure_with_an_unlearned_element_is_predicted_with_a_wider_interval(
    source_folder, world, tmp_path, method
):
    folder = run_of(source_folder, world, tmp_path, method)
    predictions = predict_run(folder, make_records(1, seed=4, prefix="new", names=["CH3SH"]))
    assert predictions.status == ("warning",)
    assert predictions.problem == (
        "Described without its S atoms, of which this run has not learned. Interval widened "
        f"{WIDEN_FACTOR:g} times.",
    )
    assert "Contains S, never seen" in predictions.domain[0]
    assert np.isfinite(predictions.mean_eV).all()
    assert "Described without its S atoms" in predictions.to_csv()


def test_terms_of_a_partly_described_structure_are_those_of_its_other_atoms(
    source_folder, world, tmp_path
):
    run = load_run(run_of(source_folder, world, tmp_path, "kernel_ridge"))
    plain = replace(
        run.descriptor,
        soap=None,
        potential="none",
        second_potential="none",
        normalisation="none",
        roots=False,
    )
    atoms = molecule("CH3SH")
    without_sulfur = atoms[[symbol != "S" for symbol in atoms.symbols]]
    expected = featurize([record_of("others", without_sulfur)], plain).features
    partly = featurize([record_of("all", atoms)], replace(plain, leaves_out_atoms=True)).features
    np.testing.assert_allclose(partly, expected, rtol=1e-5, atol=1e-6)


def test_standard_deviation_is_the_methods_times_the_factor(source_folder, world, tmp_path):
    folder = run_of(source_folder, world, tmp_path, "gaussian_process")
    run = load_run(folder)
    records = make_records(2, seed=4, prefix="new", names=["CH3SH", "CH4"])
    features = featurize(records, replace(run.descriptor, leaves_out_atoms=True)).features
    draws = run.posterior.predictive_draws(features)
    sds = mixture_sd(draws.centres_eV, draws.sds_eV)
    predictions = predict_run(folder, records)
    np.testing.assert_allclose(predictions.sd_new_eV, sds * [WIDEN_FACTOR, 1.0], rtol=1e-5)
    lower, upper = predictions.interval(0.9)
    widths = 2 * 1.6449 * predictions.sd_new_eV
    is_above_zero = lower > 0
    np.testing.assert_allclose((upper - lower)[is_above_zero], widths[is_above_zero], rtol=0.02)


def test_partly_described_structure_is_ranked_by_its_wider_distribution(
    source_folder, world, tmp_path
):
    folder = run_of(source_folder, world, tmp_path, "gaussian_process")
    records = make_records(4, seed=4, prefix="new", names=["CH3SH", "CH4", "C2H6", "CH3OH"])
    predictions, details = predict_with_details(folder, records)
    for criterion in (REDUCTION, SD):
        ranked = next_structures(predictions, details, criterion=criterion)
        assert (ranked.n_ranked, ranked.n_not_ranked) == (4, 0)
    sds = np.sqrt(details.means_eV.var(axis=0) + details.noise_variance)
    np.testing.assert_allclose(sds, predictions.sd_new_eV, rtol=0.05)


def test_structure_of_unlearned_elements_in_most_atoms_is_refused(source_folder, world, tmp_path):
    folder = run_of(source_folder, world, tmp_path, "kernel_ridge")
    predictions = predict_run(folder, [record_of("salt", molecule("SiCl4"))])
    assert predictions.status == ("refused",)
    assert "in 5 of 5 atoms; accepted: up to 50 % of the atoms." in predictions.problem[0]


@pytest.mark.parametrize("method", ["last_layer_ridge", "feature_gp"])
def test_method_with_a_source_refuses_an_element_that_source_and_labels_lack(
    source_folder, world, tmp_path, method
):
    folder = run_of(source_folder, world, tmp_path, method)
    predictions = predict_run(folder, make_records(1, seed=4, prefix="new", names=["CH3SH"]))
    assert predictions.status == ("refused",)
    assert "contains S, which the descriptor was not set up for" in predictions.problem[0]


@pytest.mark.parametrize("method", ["last_layer_ridge", "kernel_ridge"])
def test_regressor_describes_in_part_or_says_how_to_describe(source_folder, world, method):
    source = None if method in NO_SOURCE else source_folder
    regressor = BandGapRegressor(method, source=source).fit(world.records, world.gaps_eV)
    new = make_records(1, seed=4, prefix="new", names=["CH3SH"])
    if method in NO_SOURCE:
        assert "Described without its S atoms" in regressor.predict_table(new).problem[0]
        return
    with pytest.warns(UnseenElementWarning, match="choose a source that knows the elements"):
        table = regressor.predict_table(new)
    assert table.mean_eV[0] == pytest.approx(world.gaps_eV.mean(), abs=1e-5)
