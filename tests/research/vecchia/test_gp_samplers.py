"""Every sampler of `bandgap.gp` on coordinates in the plane: beside Metropolis, its files, and what
is refused.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.foundation.machine import few_blas_threads
from bandgap.research.vecchia import gp
from bandgap.research.vecchia.first_order import FirstOrderConfig
from bandgap.research.vecchia.langevin import LangevinConfig
from bandgap.research.vecchia.likelihood import Theta
from bandgap.research.vecchia.metropolis import MetropolisConfig
from bandgap.research.vecchia.published import PublishedConfig
from bandgap.research.vecchia.stochastic_scoring import ScoringConfig
from bandgap.research.vecchia.target import FLAT
from tests.research.vecchia.samples import field

POINTS, ROWS, Y = (
    part[:120] for part in field(140, 2, Theta(1.4, 0.9, 1.5, 0.15), seed=5, covariates=1)
)
NEW = field(140, 2, Theta(1.4, 0.9, 1.5, 0.15), seed=5, covariates=1)[0][120:]
BRIEF = gp.GPConfig(
    nu=1.5,
    likelihood="vecchia",
    neighbours=8,
    sgfs=ScoringConfig(batch=40, epochs=15),
)


def test_scoring_by_batches_predicts_as_the_maximum_of_the_likelihood():
    """Scales within one standard deviation of the mode under flat priors, means within a third of
    one.
    """
    process, best = (
        gp.fit(POINTS, Y, replace(BRIEF, sampler=name), priors=FLAT) for name in ("sgfs", "none")
    )
    away = process.mode.eta - best.mode.eta
    assert away @ best.mode.precision @ away < 1.0
    one = process.predict(NEW)
    other = best.predict(NEW)
    assert (np.abs(one.mean - other.mean) < 0.33 * other.latent_sd).all()
    assert process.theta.shape == (1, 1, 4) and process.traces.precision_beta.shape == (1, 1)


@pytest.mark.parametrize("sampler", ["metropolis", "sgrld", "none", "sgfs", "sgld"])
def test_free_smoothness_is_drawn_with_the_other_scales(sampler):
    brief = replace(
        BRIEF,
        nu="free",
        sampler=sampler,
        metropolis=MetropolisConfig(chains=2, warmup=20, draws=40),
        sgrld=LangevinConfig(batch=40, chains=2, warmup=20, draws=40),
        first_order=FirstOrderConfig(batch=40, chains=2, warmup=20, draws=40),
    )
    process = gp.fit(POINTS[:60], Y[:60], brief, seed=0)
    smoothness = process.theta[..., 2]
    assert process.traces.eta.shape[-1] == 4
    assert process.nu == np.median(smoothness) and 0.2 < process.nu < 4
    assert (smoothness.std() > 0.01) == (sampler not in ("none", "sgfs"))
    prediction = process.predict(NEW)
    assert np.isfinite(prediction.mean).all() and (prediction.latent_sd > 0).all()


def test_free_smoothness_works_with_the_exact_likelihood():
    brief = gp.GPConfig(nu="free", metropolis=MetropolisConfig(chains=2, warmup=10, draws=20))
    process = gp.fit(POINTS[:25], Y[:25], brief, seed=0)
    assert process.theta[..., 2].std() > 0.01 and np.isfinite(process.predict(NEW).mean).all()


def test_published_sgrld_with_too_short_steps_warns():
    """From the published schedule alone: a first step of .001, a last of a hundredth, 2,000 of
    them.
    """
    assert PublishedConfig().relaxations == pytest.approx(0.13, abs=0.01)
    process = gp.fit(
        POINTS,
        Y,
        replace(BRIEF, sampler="sgrld_published", sgrld_published=PublishedConfig(steps=80)),
    )
    assert any(
        "draws are narrower than the posterior" in words for words in process.traces.warnings
    )


def test_sgfs_with_too_few_epochs_warns():
    brief = replace(BRIEF, sampler="sgfs", sgfs=ScoringConfig(step=1e-3, batch=40, epochs=1))
    (words,) = gp.fit(10 * POINTS, Y, brief).traces.warnings
    assert words.startswith("SGFS ended after 1 epochs with a step of ")


def test_settings_of_comparisons_are_stored_and_read_again():
    changed = replace(BRIEF, sampler="hamcmc_sa", nu="free")
    assert from_dict(gp.GPConfig, to_dict(changed)) == changed
    assert fingerprint(changed) != fingerprint(gp.GPConfig())


@pytest.mark.parametrize("sampler", ["metropolis", "none"])
def test_draws_do_not_depend_on_the_threads_of_numpy(sampler):
    """From some 150 rows on products of matrices are computed by all threads, whose sums have
    another order.
    """
    points, rows, y = field(300, 2, Theta(1.4, 0.9, 1.5, 0.15), seed=6, covariates=1)
    brief = gp.GPConfig(
        nu=1.5, sampler=sampler, metropolis=MetropolisConfig(chains=2, warmup=10, draws=20)
    )
    processes = []
    for threads in (1, 2):
        with few_blas_threads(threads):
            processes.append(gp.fit(points, y, brief, covariates=rows, seed=2))
    assert processes[0].theta.tobytes() == processes[1].theta.tobytes()
    assert processes[0].beta.tobytes() == processes[1].beta.tobytes()
