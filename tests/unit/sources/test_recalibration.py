"""Scales of a transfer are fitted to the training rows, and bounded if these say little."""

import numpy as np
import pytest
import torch

from bandgap.descriptors import DescriptorConfig, Term, n_features
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.recalibration import (
    MIN_CORRELATION,
    baseline_slope,
    gap_map,
    source_gaps_eV,
    standardiser_for,
)

DESCRIPTOR = DescriptorConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 2, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 2, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)
P = n_features(DESCRIPTOR)


def linear_source(x_mean, x_scale):
    """Return a source with the gap 5 + 1.5 times the sum of the features; no unit is ever off."""
    params = {"weight.1": torch.ones(1, P), "bias.1": torch.tensor([100.0])}
    params |= {"weight.2": torch.ones(1, 1), "bias.2": torch.tensor([-100.0])}
    scales = Standardiser(
        np.asarray(x_mean, dtype=float), np.asarray(x_scale, dtype=float), 5.0, 1.5
    )
    return SourceModel(
        params,
        NetworkConfig(P, (1,)),
        scales,
        DESCRIPTOR,
        SourceCard(("made",), 1, ("H",)),
        SourceConfig((1,)),
    )


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal([1.0, -2.0, 3.0, 0.0], [1.0, 0.3, 2.0, 0.5], size=(60, P)), rng


@pytest.fixture(scope="module")
def source(rows):
    return linear_source(rows[0].mean(axis=0), rows[0].std(axis=0))


def test_source_gaps_are_those_of_the_formula(source, rows):
    z = (rows[0] - source.standardiser.x_mean) / source.standardiser.x_scale
    np.testing.assert_allclose(
        source_gaps_eV(source, source.standardiser, rows[0]), 5.0 + 1.5 * z.sum(1), atol=1e-9
    )


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.0, 3.0)])
def test_level_of_theory_without_scatter_is_recovered_exactly(source, rows, slope, offset):
    f = source_gaps_eV(source, source.standardiser, rows[0])
    y = offset + slope * f
    standardiser = standardiser_for(source, rows[0], y, statistics="source")
    np.testing.assert_allclose(source_gaps_eV(source, standardiser, rows[0]), y, atol=1e-9)
    assert standardiser.y_sd_eV == pytest.approx(1.5 * slope)
    assert (standardiser.x_mean == source.standardiser.x_mean).all()


def test_slope_is_the_mode_of_its_posterior():
    """The prior is one more row: an observation of the slope in units of the residuals' sd."""
    rng = np.random.default_rng(1)
    f = rng.normal(4.0, 1.0, 12)
    y = 0.5 * f + rng.normal(0.0, 0.5, 12)
    a = np.stack([f, np.ones(12)], 1)
    least_squares, rss = np.linalg.lstsq(a, y)[:2]
    s = np.sqrt(rss[0] / 10)
    with_prior = np.linalg.lstsq(np.vstack([a / s, [2.0, 0.0]]), np.append(y / s, 2.0))[0]
    np.testing.assert_allclose(gap_map(f, y), with_prior)
    assert least_squares[0] < with_prior[0] < 1.0


@pytest.mark.parametrize("sign", [-1.0, 0.0])
def test_slope_stays_positive_if_the_source_is_wrong_or_uninformative(sign):
    rng = np.random.default_rng(2)
    f = rng.normal(4.0, 1.0, 2000)
    y = sign * f + 3.0 * rng.normal(size=2000)
    slope, intercept = gap_map(f, y)
    assert slope == pytest.approx(MIN_CORRELATION * y.std() / f.std())
    assert intercept + slope * f.mean() == pytest.approx(y.mean())


@pytest.mark.parametrize("rounding", [0.0, 4e-16, 5e-7])
@pytest.mark.parametrize("gap", [7.0, 1.8132109, 0.1])
def test_source_that_is_constant_on_the_target_has_slope_one_and_the_mean_gap(gap, rounding):
    """Also if it varies by rounding, on 25 rows whose mean is not exactly `gap`."""
    y = np.tile([1.0, 2.0, 3.0, 4.0, 6.0], 5)
    slope, intercept = gap_map(gap + rounding * np.tile([1.0, 0.0, -1.0, 1.0, 0.0], 5), y)
    assert slope == 1.0
    assert intercept + gap == pytest.approx(y.mean(), abs=1e-6)


def test_gap_scale_of_the_source_is_used_on_request(source, rows):
    y = 3.0 - 0.5 * rows[0][:, 0]
    standardiser = standardiser_for(source, rows[0], y, statistics="target", gap_scale="source")
    assert (standardiser.y_mean_eV, standardiser.y_sd_eV) == (5.0, 1.5)


def test_auto_uses_the_target_statistics_only_if_they_are_clearly_better(rows):
    """They are for a source whose features have other units, and not for one with equal units."""
    x, rng = rows
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    y = 2.0 + 0.8 * z.sum(1) + 0.1 * rng.normal(size=60)
    other_units = linear_source(np.zeros(P), [0.1, 5.0, 5.0, 5.0])
    standardiser = standardiser_for(other_units, x, y)
    np.testing.assert_allclose(standardiser.x_mean, x.mean(axis=0))
    same_units = linear_source(x.mean(axis=0), x.std(axis=0))
    standardiser = standardiser_for(same_units, x, y)
    assert (standardiser.x_scale == same_units.standardiser.x_scale).all()


def test_auto_uses_the_source_statistics_if_labels_are_uninformative(rows):
    x, rng = rows
    other_units = linear_source(np.zeros(P), [0.1, 5.0, 5.0, 5.0])
    standardiser = standardiser_for(other_units, x, rng.normal(3.0, 1.0, size=60))
    assert (standardiser.x_mean == 0.0).all()


def correlated_baseline(n, *, seed, noise=0.3):
    """Return a baseline and a source that are correlated, and gaps 0.6 and 0.3 times them."""
    rng = np.random.default_rng(seed)
    f = rng.normal(5.0, 1.0, n)
    g = 0.8 * f + rng.normal(0.0, 0.6, n)
    return g, f, 1.0 + 0.6 * g + 0.3 * f + noise * rng.normal(size=n)


def test_slope_of_a_baseline_is_the_mode_of_the_joint_posterior():
    """The priors are two more rows: observations of both slopes in units of the residuals' sd."""
    g, f, y = correlated_baseline(12, seed=3)
    a = np.stack([g, f, np.ones(12)], 1)
    s = np.sqrt(np.linalg.lstsq(a, y)[1][0] / 9)
    priors = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    expected = np.linalg.lstsq(np.vstack([a / s, priors]), np.concatenate([y / s, [1.0, 1.0]]))[0]
    slope, sd = baseline_slope(y, g, f)
    assert slope == pytest.approx(expected[0])
    rows = np.vstack([(a - a.mean(0))[:, :2] / s, np.array(priors)[:, :2]])
    assert sd == pytest.approx(np.sqrt(np.linalg.inv(rows.T @ rows)[0, 0]))


def test_slope_fitted_without_the_source_includes_what_the_source_explains():
    g, f, y = correlated_baseline(4000, seed=4)
    joint = baseline_slope(y, g, f)[0]
    alone = baseline_slope(y, g)[0]
    assert joint == pytest.approx(0.6, abs=5 * 0.3 / (0.6 * np.sqrt(4000)))
    assert alone == pytest.approx(0.6 + 0.3 * 0.8 / (0.8**2 + 0.6**2), abs=0.05)
