"""The horseshoe's transfer finds the few weights that changed, repeats, and covers."""

import dataclasses

import numpy as np
import pytest

from bandgap.inference.last_layer.horseshoe import HorseshoeConfig
from bandgap.transfer.last_layer_horseshoe import LastLayerHorseshoeConfig, fit
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.last_layers import UNCHANGED, Q, lookup_source, target_of

SAMPLER = HorseshoeConfig(chains=2, warmup=150, draws=400, keep=400)
CONFIG = LastLayerHorseshoeConfig(**UNCHANGED, sampler=SAMPLER)
CHANGE = np.zeros(Q)
CHANGE[3] = 2.0


def test_the_weight_that_changed_is_found_and_the_others_stay_near_the_source(source_of):
    source = lookup_source(source_of)
    data = target_of(source, n=200, change=CHANGE)
    posterior = fit(source, data, CONFIG, Fitting(0, device="cpu"))
    moved = posterior.output[..., :-1].mean((0, 1)) - source.params["weight.2"].double().numpy()[0]
    assert moved[3] == pytest.approx(2.0, abs=0.3)  # its least-squares standard error is 0.06
    assert np.abs(np.delete(moved, 3)).max() < 0.2
    figures = posterior.diagnostics.figures
    assert figures["rhat_max"] < 1.1 and figures["n_dropped"] == 0
    assert {"rhat_tau", "ess_tau", "rhat_sigma", "rhat_fit_max", "ess_min", "log10_tau"} <= set(
        figures
    )
    assert posterior.n_chains == 2 and posterior.n_draws == 200
    # 200 rows: 5 %, three times.
    assert np.median(posterior.sigma_eV) == pytest.approx(0.3, rel=0.15)
    record = posterior.diagnostics.record
    share = record["features.kept_share"].mean(0)
    assert share[3] > 0.95 and np.delete(share, 3).max() < 0.6
    assert np.argmax(np.abs(record["features.change_eV"].mean(0))) == 3
    assert record["trace.tau"].shape == record["trace.sigma"].shape == (2, 400)


def test_fewer_rows_than_weights_are_enough(source_of):
    source = lookup_source(source_of)
    posterior = fit(
        source,
        target_of(source, n=5),
        dataclasses.replace(CONFIG, min_ss=0.5),
        Fitting(0, device="cpu"),
    )
    assert np.isfinite(posterior.output).all() and np.isfinite(posterior.sigma).all()


def test_a_run_too_short_to_agree_says_so(source_of):
    source = lookup_source(source_of)
    brief = HorseshoeConfig(chains=4, warmup=1, draws=4, keep=16)
    config = LastLayerHorseshoeConfig(**UNCHANGED, sampler=brief)
    posterior = fit(source, target_of(source, change=CHANGE), config, Fitting(0, device="cpu"))
    assert "The chains have not agreed yet on" in posterior.diagnostics.warnings[0]
