"""PBP and SSPBP: the source as prior, the choice of its variance, one count of every row."""

from dataclasses import replace

import numpy as np
import torch

from bandgap.networks.perceptron import forward
from bandgap.research.shared.moment_transfer import MomentTransferConfig, fit_by_moments
from bandgap.transfer import TargetData
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.conftest import P

ONE = {"variances": (0.1,), "output_alone": False}


def fitted(source, target, *, seed=0, **settings):
    return fit_by_moments(source, target, MomentTransferConfig(**settings), Fitting(seed))


def test_prior_without_variance_is_the_source_itself(source_of, target):
    """A vanishing prior variance leaves the source's weights, and its own output to 1e-6."""
    source = source_of(seed=3)
    posterior = fitted(
        source,
        target,
        variances=(1e-14,),
        output_alone=False,
        passes=1,
        standardise="source",
        gap_scale="source",
    )
    x = np.random.default_rng(0).normal(size=(20, P))
    mean, sd = posterior.mean_and_sd_eV(x)
    np.testing.assert_allclose(
        mean, forward(source.params, torch.from_numpy(x).float()).numpy(), atol=1e-6
    )
    assert sd.max() < 1e-5


def test_prior_variance_is_the_one_of_the_highest_log_evidence(source_of, target):
    figures = fitted(source_of(seed=3), target).diagnostics.figures
    prefix = "log_evidence_a_row_at_"
    scores = {
        name.removeprefix(prefix): v for name, v in figures.items() if name.startswith(prefix)
    }
    assert set(scores) == {"0.03", "0.1", "0.3", "1", "output_alone"}
    best = max(scores, key=scores.get)
    assert figures["prior_variance_output"] == (1.0 if best == "output_alone" else float(best))


def test_data_that_the_source_explains_choose_a_small_variance_and_others_a_large_one(source_of):
    source = source_of(seed=3)
    x = np.random.default_rng(1).normal(size=(60, P)).astype(np.float32)
    noise = 0.05 * np.random.default_rng(2).normal(size=60)
    source_gaps = forward(source.params, torch.from_numpy(x)).numpy().astype(float)
    unchanged = fitted(source, TargetData(x, source_gaps + noise)).diagnostics.figures
    changed = fitted(
        source, TargetData(x, source_gaps + 2.0 * np.maximum(x[:, 2], 0) + noise)
    ).diagnostics.figures
    assert unchanged["prior_variance"] < changed["prior_variance"]


def test_sspbp_has_the_posterior_of_pbp_and_says_which_weights_take_part(source_of, target):
    plain, atoms = (
        fitted(source_of(seed=3), target, zero_probabilities=value) for value in (False, True)
    )
    for a, b in zip(plain.weights.means, atoms.weights.means, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-10)
    assert not plain.diagnostics.record
    record = atoms.diagnostics.record
    assert record["inclusion.weights"].shape == (1, 201, 3)
    assert record["inclusion.units.1"].shape == (1, 6) and record["inclusion.units.2"].shape == (
        1,
        4,
    )
    assert all(((v >= 0) & (v <= 1)).all() for v in record.values())
    assert (np.diff(record["inclusion.weights"], axis=1) >= 0).all()


def test_filtering_in_several_passes_says_that_it_counts_rows_again(source_of, target):
    source = source_of(seed=3)
    (warning,) = fitted(source, target, **ONE, passes=4, likelihood="adf").diagnostics.warnings
    assert warning.startswith(
        "4 passes counted every crystal 4 times: the uncertainty of the weights is understated"
    )
    assert not fitted(source, target, **ONE, passes=1, likelihood="adf").diagnostics.warnings
    assert not fitted(source, target, **ONE, passes=4).diagnostics.warnings


def test_structures_far_beyond_the_scale_are_counted_with_a_warning(source_of, target):
    features = target.features.copy()
    features[:3, 0] = 1e4
    diagnostics = fitted(
        source_of(seed=3), replace(target, features=features), standardise="source"
    ).diagnostics
    assert diagnostics.figures["clipped_rows"] == 3.0
    assert diagnostics.warnings[0].startswith(
        "3 of 40 training structures have features beyond 10 standard deviations"
    )


def test_several_rows_at_once_come_to_nearly_the_same_predictions(source_of, target):
    source = source_of(seed=3)
    x = np.random.default_rng(5).normal(size=(50, P))
    single, many = (
        fitted(source, target, **ONE, passes=4, batch_size=b).mean_and_sd_eV(x) for b in (1, 10)
    )
    assert np.abs(single[0] - many[0]).max() < 0.3 * single[1].mean()
