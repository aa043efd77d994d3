"""The output layer's bootstrap is weighted least squares on rows and pseudo rows."""

import numpy as np
import pytest

from bandgap.inference.batch.bootstrap import block_weights, stream
from bandgap.inference.last_layer.linear_probe import weighted_ridge
from bandgap.research.methods import nptl_head
from bandgap.research.methods.nptl_head import NptlHeadConfig, draw_heads
from bandgap.transfer.shared.folds import start_of
from bandgap.transfer.shared.method import Fitting

EVERY = np.ones(40, dtype=bool)


def start(source, target):
    return start_of(
        source, target, trained=EVERY, statistics="auto", gap_scale="calibrated", coordinates="full"
    )


@pytest.mark.parametrize("alpha", [0.0, 5.0, 400.0])
def test_heads_are_the_closed_form_on_all_rows_and_pseudo_rows(source_of, target, alpha):
    """Normal equations of the 2n rows, the intercept as a column without penalty."""
    at = start(source_of(), target)
    config = NptlHeadConfig()
    heads = draw_heads(at, config, alpha=alpha, samples=3, seed=7)
    design = np.column_stack([at.hidden, np.ones(40)])
    both = np.vstack([design, design])
    labels = np.append(at.y, at.probe.predict(at.hidden))
    ridge = 2 * at.probe.penalty * np.diag([1.0] * 4 + [0.0])
    for m in range(3):
        w = block_weights(40, blocks=10, alpha=alpha, rng=stream(7, m, "weights"))
        weights = np.append(w.data, w.pseudo)[:, None]
        expected = np.linalg.solve(
            both.T @ (weights * both) + ridge, both.T @ (weights[:, 0] * labels)
        )
        np.testing.assert_allclose(heads[m], expected, rtol=1e-7, atol=1e-10)


def test_even_weights_are_the_probe(source_of, target):
    at = start(source_of(), target)
    even = weighted_ridge(at.hidden, at.y, np.full(40, 2.0), penalty=2 * at.probe.penalty)
    np.testing.assert_allclose(even, at.probe.head, rtol=1e-9)


def test_very_large_alpha_gives_the_probe_shrunk_no_further(source_of, target):
    """The probe fits its own values up to its penalty, so that draws agree."""
    at = start(source_of(), target)
    heads = draw_heads(at, NptlHeadConfig(), alpha=1e8, samples=5, seed=0)
    loose = draw_heads(at, NptlHeadConfig(), alpha=0.0, samples=5, seed=0)
    assert heads.std(0).max() < 0.02 * loose.std(0).max()


def test_posterior_predicts_with_the_sources_features(source_of, target):
    source = source_of()
    posterior = nptl_head.fit(source, target, NptlHeadConfig(samples=4, alphas=(1.0,)), Fitting(7))
    at = start(source, target)
    heads = draw_heads(at, NptlHeadConfig(), alpha=1.0, samples=4, seed=7)
    expected = at.standardiser.gaps_eV(heads[:, :-1] @ at.hidden.T + heads[:, -1:])
    np.testing.assert_allclose(posterior.mean_draws_eV(target.features)[0], expected, atol=1e-5)
    assert posterior.diagnostics.figures["alpha"] == 1.0
    assert posterior.diagnostics.figures["prior_share"] == pytest.approx(1 / 41)


def test_hold_out_fits_the_noise_by_all_samples(source_of, target):
    posterior = nptl_head.fit(
        source_of(), target, NptlHeadConfig(samples=6, sigma="val", alphas=(0.0, 1.0)), Fitting(7)
    )
    assert posterior.sigma.shape == (1, 6) and (posterior.sigma == posterior.sigma[0, 0]).all()
    assert {"nll_alpha_0", "nll_alpha_1"} <= set(posterior.diagnostics.figures)
