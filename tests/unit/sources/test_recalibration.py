"""Level, slope and feature statistics of a transfer are those of the training rows, bounded where these say little."""

import numpy as np
import pytest
import torch

from bandgap.descriptors import MBTRConfig, Term, n_features
from bandgap.foundation.errors import InputError
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.recalibration import LEAST_CORRELATION, gap_map, source_gaps_eV, standardiser_for

DESCRIPTOR = MBTRConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 2, 1.0),
    k2=Term("inverse_distance", 0.2, 1.2, 2, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01),
)
P = n_features(DESCRIPTOR)


def linear_source(x_mean, x_scale):
    """Gap in eV: 5 + 1.5 times the sum of the standardised features, the hidden units never being off."""
    params = {"weight.1": torch.ones(1, P), "bias.1": torch.tensor([100.0])}
    params |= {"weight.2": torch.ones(1, 1), "bias.2": torch.tensor([-100.0])}
    scales = Standardiser(np.asarray(x_mean, dtype=float), np.asarray(x_scale, dtype=float), 5.0, 1.5)
    return SourceModel(
        params, NetworkConfig(P, (1,)), scales, DESCRIPTOR, SourceCard(("made",), 1, ("H",)), SourceConfig((1,))
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
    np.testing.assert_allclose(source_gaps_eV(source, source.standardiser, rows[0]), 5.0 + 1.5 * z.sum(1), atol=1e-9)


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


def test_source_that_is_constant_on_the_target_keeps_its_slope_and_takes_the_level():
    y = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    slope, intercept = gap_map(np.full(5, 7.0), y)
    assert slope == 1.0
    assert intercept + 7.0 == pytest.approx(y.mean())


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
    with pytest.raises(InputError, match=rf"features have shape \(6, 2\), the model was fitted on {P} features"):
        standardiser_for(source, np.zeros((6, 2)), np.arange(6.0), statistics="source")
