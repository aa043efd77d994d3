"""Level, slope and feature statistics of a transfer are those of the training rows, bounded where these say little."""

import numpy as np
import pytest
import torch

from bandgap.descriptors import MBTRConfig, Term, n_features
from bandgap.foundation.errors import InputError
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.recalibration import (
    LEAST_CORRELATION,
    baseline_slope,
    gap_map,
    source_gaps_eV,
    standardiser_for,
)

DESCRIPTOR = MBTRConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 2, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 2, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)
P = n_features(DESCRIPTOR)


def linear_source(x_mean, x_scale):
    """Gap in eV: 5 + 1.5 times the sum of the standardised features, the hidden units never being off."""
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


@pytest.mark.parametrize(("slope", "level"), [(1.0, 0.0), (0.4, -1.0), (2.0, 3.0)])
def test_a_level_of_theory_without_scatter_is_found_exactly(source, rows, slope, level):
    f = source_gaps_eV(source, source.standardiser, rows[0])
    y = level + slope * f
    found = standardiser_for(source, rows[0], y, statistics="source")
    np.testing.assert_allclose(source_gaps_eV(source, found, rows[0]), y, atol=1e-9)
    assert found.y_sd_eV == pytest.approx(1.5 * slope)
    assert (found.x_mean == source.standardiser.x_mean).all()


def test_slope_is_the_mode_of_its_posterior():
    """Ridge regression by one more row: the prior as an observation of the slope, in units of the residuals' sd."""
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
def test_slope_stays_positive_where_the_source_is_wrong_or_tells_nothing(sign):
    rng = np.random.default_rng(2)
    f = rng.normal(4.0, 1.0, 2000)
    y = sign * f + 3.0 * rng.normal(size=2000)
    slope, intercept = gap_map(f, y)
    assert slope == pytest.approx(LEAST_CORRELATION * y.std() / f.std())
    assert intercept + slope * f.mean() == pytest.approx(y.mean())


@pytest.mark.parametrize("rounding", [0.0, 4e-16, 5e-7])
@pytest.mark.parametrize("level", [7.0, 1.8132109, 0.1])
def test_source_that_is_constant_on_the_target_keeps_its_slope_and_takes_the_level(level, rounding):
    """Also where it differs by its rounding, on 25 rows whose mean is not exactly theirs."""
    y = np.tile([1.0, 2.0, 3.0, 4.0, 6.0], 5)
    slope, intercept = gap_map(level + rounding * np.tile([1.0, 0.0, -1.0, 1.0, 0.0], 5), y)
    assert slope == 1.0
    assert intercept + level == pytest.approx(y.mean(), abs=1e-6)


def test_gap_scale_of_the_source_is_kept_when_asked_for(source, rows):
    y = 3.0 - 0.5 * rows[0][:, 0]
    found = standardiser_for(source, rows[0], y, statistics="target", gap_scale="source")
    assert (found.y_mean_eV, found.y_sd_eV) == (5.0, 1.5)


def test_auto_takes_the_target_statistics_only_where_they_are_clearly_better(rows):
    """A source whose features have other units fits the target's statistics; one with equal ones keeps its own."""
    x, rng = rows
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    y = 2.0 + 0.8 * z.sum(1) + 0.1 * rng.normal(size=60)
    alien = linear_source(np.zeros(P), [0.1, 5.0, 5.0, 5.0])
    chosen = standardiser_for(alien, x, y)
    np.testing.assert_allclose(chosen.x_mean, x.mean(axis=0))
    native = linear_source(x.mean(axis=0), x.std(axis=0))
    assert (standardiser_for(native, x, y).x_scale == native.standardiser.x_scale).all()


def test_auto_keeps_the_source_statistics_where_labels_cannot_tell(rows):
    x, rng = rows
    alien = linear_source(np.zeros(P), [0.1, 5.0, 5.0, 5.0])
    chosen = standardiser_for(alien, x, rng.normal(3.0, 1.0, size=60))
    assert (chosen.x_mean == 0.0).all()


def test_features_of_another_descriptor_are_refused(source):
    with pytest.raises(
        InputError, match=rf"features have shape \(6, 2\), the model was fitted on {P} features"
    ):
        standardiser_for(source, np.zeros((6, 2)), np.arange(6.0), statistics="source")


def beside(n, *, seed, noise=0.3):
    """A baseline and a source that know much of the same: gaps are 0.6 of one and 0.3 of the other."""
    rng = np.random.default_rng(seed)
    f = rng.normal(5.0, 1.0, n)
    g = 0.8 * f + rng.normal(0.0, 0.6, n)
    return g, f, 1.0 + 0.6 * g + 0.3 * f + noise * rng.normal(size=n)


def test_slope_of_a_baseline_is_the_mode_beside_that_of_the_source():
    """Two more rows, the priors as observations of both slopes in units of the residuals' sd."""
    g, f, y = beside(12, seed=3)
    a = np.stack([g, f, np.ones(12)], 1)
    s = np.sqrt(np.linalg.lstsq(a, y)[1][0] / 9)
    priors = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    expected = np.linalg.lstsq(np.vstack([a / s, priors]), np.concatenate([y / s, [1.0, 1.0]]))[0]
    slope, sd = baseline_slope(y, g, f)
    assert slope == pytest.approx(expected[0])
    rows = np.vstack([(a - a.mean(0))[:, :2] / s, np.array(priors)[:, :2]])
    assert sd == pytest.approx(np.sqrt(np.linalg.inv(rows.T @ rows)[0, 0]))


def test_slope_fitted_alone_takes_what_the_source_knows_as_well():
    g, f, y = beside(4000, seed=4)
    joint, alone = baseline_slope(y, g, f)[0], baseline_slope(y, g)[0]
    assert joint == pytest.approx(0.6, abs=5 * 0.3 / (0.6 * np.sqrt(4000)))
    assert alone == pytest.approx(0.6 + 0.3 * 0.8 / (0.8**2 + 0.6**2), abs=0.05)


def test_few_rows_leave_a_slope_near_its_prior():
    """Five rows of noise alone: least squares gives slopes of any size, the mode hardly leaves (1/2, 1/2)."""
    found, plain = [], []
    for seed in range(200):
        g, f, _ = beside(5, seed=seed)
        y = 3.0 * np.random.default_rng([seed, 1]).normal(size=5)
        found.append(baseline_slope(y, g, f)[0])
        plain.append(np.linalg.lstsq(np.stack([g, f, np.ones(5)], 1), y)[0][0])
    assert np.sqrt(np.mean(np.square(np.array(found) - 0.5))) < 0.25 * np.sqrt(
        np.mean(np.square(plain))
    )


@pytest.mark.parametrize("beside_source", [True, False])
def test_baseline_without_scatter_is_found_exactly_and_one_that_is_constant_says_nothing(
    beside_source,
):
    g, f, _ = beside(20, seed=5)
    f = f if beside_source else None
    assert baseline_slope(2.0 - 0.7 * g, g, f)[0] == pytest.approx(-0.7, abs=1e-4)
    slope, sd = baseline_slope(g, np.full(20, 3.0), f)
    assert slope == pytest.approx(0.5 if beside_source else 1.0) and sd == pytest.approx(0.5)
