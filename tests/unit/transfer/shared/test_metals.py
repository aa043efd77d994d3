"""Metals among the labels: the classifier, the posterior with it, and its stored form."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.posterior import MetalsPosterior
from bandgap.posterior.metals import sampled_part
from bandgap.runs.fitting import fit_gaps, fit_members
from bandgap.sources.no_source import no_source
from bandgap.storage.arrays import save_arrays
from bandgap.storage.stored_fields import stored_fields
from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.metals import (
    LEAST,
    fit_classifier,
    has_metals,
    metals_warning,
    stratified_folds,
    weigh,
)
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.shared.trees import TreeSum, flat_trees
from tests.unit.transfer.test_every_method import DESCRIPTOR, rows_of

N = 90


def rows_with_metals(n: int, *, seed: int) -> TargetData:
    """Rows whose gap is cut at the median: half of them are metals."""
    x, gaps = rows_of(n, seed=seed)
    return TargetData(x, np.maximum(gaps - np.median(gaps), 0.0))


DATA = rows_with_metals(N, seed=1)
NEW = rows_with_metals(60, seed=2)


@pytest.fixture(scope="module")
def posterior() -> MetalsPosterior:
    members = [{"none": no_source(DESCRIPTOR, DATA.features, DATA.gaps_eV)}]
    method = get_method("kernel_ridge")
    fitted = fit_members(
        method, DATA, method.configure({}), Fitting(3, networks=members, head="none")
    )
    assert isinstance(fitted, MetalsPosterior)
    return fitted


def test_labels_without_enough_metals_or_semiconductors_have_no_classifier() -> None:
    enough = np.array([0.0] * LEAST + [1.0] * LEAST)
    assert has_metals(enough) and metals_warning(enough) == ""
    assert not has_metals(enough[1:]) and not has_metals(enough[:-1])
    assert "9 of 19 labels are zero" in metals_warning(enough[1:])
    assert metals_warning(np.ones(5)) == ""
    assert has_metals(enough + 0.0005)


def test_run_without_zeros_is_that_of_the_method_alone() -> None:
    data = TargetData(DATA.features, DATA.gaps_eV + 0.5)
    members = [{"none": no_source(DESCRIPTOR, data.features, data.gaps_eV)}]
    method = get_method("kernel_ridge")
    fitting = Fitting(3, networks=members, head="none")
    draws = [
        fit(method, data, method.configure({}), fitting).predictive_draws(NEW.features)
        for fit in (fit_members, fit_gaps)
    ]
    assert draws[0].p_metal is None
    np.testing.assert_array_equal(draws[0].centres_eV, draws[1].centres_eV)


def test_probability_separates_metals_of_new_rows(posterior: MetalsPosterior) -> None:
    p = posterior.classifier.p_metal(NEW.features)
    assert area_under_roc(NEW.gaps_eV == 0, p) > 0.85
    # three standard errors of the mean of 60 classes
    assert abs(p.mean() - (NEW.gaps_eV == 0).mean()) < 0.2
    assert p.min() >= 1 / (2 * N + 2) and p.max() <= 1 - 1 / (2 * N + 2)


def test_mean_of_the_draws_is_that_of_the_distribution(posterior: MetalsPosterior) -> None:
    draws = posterior.predictive_draws(NEW.features)
    np.testing.assert_allclose(draws.flat_means_eV.mean(axis=0), draws.gaps.mean_eV())
    assert (draws.means_eV >= 0).all()
    # the probability of a certain metal may be at its limit in every draw
    assert draws.flat_means_eV.std(axis=0)[draws.p_metal < 0.95].min() > 0
    scores = posterior.classifier.scores(NEW.features)
    p_draws = posterior.classifier.p_draws(scores, 4000)
    # 4,000 draws: four standard errors of a probability
    np.testing.assert_allclose(p_draws.mean(axis=0), draws.p_metal, atol=0.04)


def test_rows_do_not_depend_on_the_rows_predicted_with_them(posterior: MetalsPosterior) -> None:
    together = posterior.predictive_draws(NEW.features)
    alone = posterior.predictive_draws(NEW.features[37:38])
    ours = together.of_rows(slice(37, 38))
    for name in ("p_metal", "means_eV", "centres_eV", "sds_eV"):
        np.testing.assert_allclose(getattr(alone, name), getattr(ours, name), rtol=0, atol=1e-6)


def test_stored_posterior_is_the_same_in_a_new_process(
    posterior: MetalsPosterior, tmp_path
) -> None:
    arrays, plain = stored_fields(posterior)
    save_arrays(arrays, tmp_path / "draws.safetensors")
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    np.save(tmp_path / "x.npy", NEW.features)
    code = f"""
import json, pathlib, numpy as np
from bandgap.posterior import Diagnostics, restored_posterior
from bandgap.storage.arrays import load_arrays
folder = pathlib.Path({str(tmp_path)!r})
again = restored_posterior(
    load_arrays(folder / "draws.safetensors"),
    json.loads((folder / "plain.json").read_text()),
    Diagnostics(),
)
draws = again.predictive_draws(np.load(folder / "x.npy"))
np.savez(folder / "out.npz", p=draws.p_metal, means=draws.means_eV, sds=draws.sds_eV)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    stored = np.load(tmp_path / "out.npz")
    draws = posterior.predictive_draws(NEW.features)
    np.testing.assert_array_equal(stored["p"], draws.p_metal)
    np.testing.assert_array_equal(stored["means"], draws.means_eV)
    np.testing.assert_array_equal(stored["sds"], draws.sds_eV)


@pytest.mark.slow
def test_another_seed_gives_other_trees_and_the_same_seed_the_same(
    posterior: MetalsPosterior,
) -> None:
    again, figures = fit_classifier(DATA, seed=3)
    p = again.p_metal(NEW.features)
    np.testing.assert_array_equal(p, posterior.classifier.p_metal(NEW.features))
    other, _ = fit_classifier(DATA, seed=4)
    assert not np.array_equal(other.p_metal(NEW.features), p)
    assert figures["metals"] == (DATA.gaps_eV == 0).sum()
    assert posterior.diagnostics.figures["auc_metal_left_out"] == figures["auc_metal_left_out"]


def test_flat_trees_have_scikit_learns_log_odds() -> None:
    is_metal = DATA.gaps_eV == 0
    x = np.asarray(DATA.features, dtype=np.float32)
    boosted = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(x, is_metal)
    log_odds = float(np.log(is_metal.mean() / (1 - is_metal.mean())))
    trees = TreeSum(boosted.estimators_[:, 0], 0.1, log_odds)
    flat = flat_trees([trees], columns=np.arange(x.shape[1]), n_features=x.shape[1])
    # leaf values are stored as float32
    np.testing.assert_allclose(flat.predict_eV(x)[0], boosted.decision_function(x), atol=1e-5)


def test_folds_have_equal_shares_of_metals() -> None:
    is_metal = np.arange(103) < 31
    fold = stratified_folds(is_metal, folds=10, seed=0)
    assert set(np.bincount(fold[is_metal], minlength=10)) == {3, 4}
    assert set(np.bincount(fold[~is_metal], minlength=10)) == {7, 8}


def test_weights_are_those_that_made_the_classes() -> None:
    rng = np.random.default_rng(0)
    t = rng.normal(size=4000)
    y = np.where(0.6 * t - 0.2 + rng.normal(size=4000) > 0, 1.0, -1.0)
    weights, covariance = weigh(y, np.stack([t, np.ones_like(t)]))
    z = (weights - [0.6, -0.2]) / np.sqrt(np.diag(covariance))
    assert np.abs(z).max() < 4  # standard errors


def test_part_that_was_sampled_is_that_of_the_semiconductors(posterior: MetalsPosterior) -> None:
    """R-hat is that of its draws: those of the classifier are independent of the chains."""
    assert sampled_part(posterior) is posterior.semiconductors
    assert sampled_part(posterior.semiconductors) is posterior.semiconductors
