"""BTL-PCP-SG, with mini-batches of 2,000 rows, samples the posterior of BTL-PCP-PE.

Labels are those of a network whose weights are near the source's, as in the prior. Chains of HMC
agree there.
"""

import numpy as np
import pytest
import torch

from bandgap.inference import diagnostics
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting
from tests.statistical.by_library import source_of
from tests.unit.inference.network.problems import plain, raw

pytestmark = pytest.mark.statistical

N = 2000
TESTED = 400
P = 8
HIDDEN = (6, 4)
# Standard deviations of every weight about the source's and of the noise of the labels; those of
# the source's values are about 0.5.
MOVED = 0.1
NOISE = 0.3


def problem(seed):
    """The source, training rows, and test features with their labels."""
    theta_hat, x, _ = raw(N + TESTED, P, hidden=HIDDEN, seed=seed)
    theta_hat = [layer.float().double() for layer in theta_hat]
    rng = np.random.default_rng(seed + 1000)
    theta = [layer + MOVED * torch.from_numpy(rng.normal(size=layer.shape)) for layer in theta_hat]
    y = plain(theta, x).numpy() + NOISE * rng.normal(size=N + TESTED)
    rows = x.numpy().astype(np.float32)
    return source_of(theta_hat), TargetData(rows[:N], y[:N]), rows[N:], y[N:]


def covered(posterior, x, y):
    """The share of labels in their 90 % interval."""
    draws = posterior.predictive_draws(x)
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.05, 0.95])
    return float(((low < y) & (y < high)).mean())


@pytest.mark.slow
def test_predictions_by_mini_batches_are_those_of_full_hmc():
    """Bounds on means, standard deviations and coverage of 90 % intervals.

    Means agree within 0.15 posterior standard deviations (median over test rows), the ratio of
    standard deviations is in [0.85, 1.2], and coverage agrees within 0.03. Seeds 0 to 2 gave 0.063
    to 0.068, 0.996 to 1.005, and 0.
    """
    source, data, x, y = problem(seed=0)
    exact = METHODS["btl_pcp_pe"]
    ours = METHODS["btl_pcp_sg"]
    long = ours.configure({"sampler": {"warmup": 1500, "draws": 4000, "keep": 400}})
    full = exact.fit(source, data, exact.configure({}), Fitting(0, device="cpu"))
    part = ours.fit(source, data, long, Fitting(0, device="cpu"))
    assert full.diagnostics.figures["rhat_max"] < 1.05
    one = full.mean_draws_eV(x)
    other = part.mean_draws_eV(x)
    assert np.median(diagnostics.rhat(other)) < 1.05
    sd = one.std((0, 1))
    away = np.median(np.abs(other.mean((0, 1)) - one.mean((0, 1))) / sd)
    ratio = np.median(other.std((0, 1)) / sd)
    inside = [covered(posterior, x, y) for posterior in (full, part)]
    assert away < 0.15 and 0.85 < ratio < 1.2
    assert abs(inside[0] - inside[1]) < 0.03
