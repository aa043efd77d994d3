"""Files of chains and searches: they go on with their own settings, rows and priors alone, bit for
bit.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.foundation.errors import Cancelled
from bandgap.inference import checkpoints
from bandgap.inference.checkpoints import Checkpoint, ForeignCheckpointError
from bandgap.research.unbiased_solves.langevin import Problem, UlisseConfig, sample_ulisse
from bandgap.research.unbiased_solves.series import Truncation
from bandgap.research.vecchia.langevin import LangevinConfig, sample_langevin
from bandgap.research.vecchia.likelihood import build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.published import PublishedConfig, sample_published
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.stochastic_scoring import ScoringConfig, score_by_batches
from bandgap.research.vecchia.target import FLAT, Target
from tests.research.vecchia.samples import START, TRUTH, field

ROWS = field(60, 2, TRUTH, seed=4, covariates=1)
CONFIGS = {
    "langevin": LangevinConfig(batch=30, warmup=50, draws=100, thin=2, chains=2),
    "metropolis": MetropolisConfig(chains=2, warmup=50, draws=100),
    "published": PublishedConfig(batch=0, chains=2, steps=150),
    "sgfs": ScoringConfig(step=0.05, batch=20, epochs=6),
    "ulisse": UlisseConfig(warmup=25, draws=100, rank=10),
}
OTHER_NUMBERS = [
    {"order": "random"},
    {"m": 9},
    {"y": ROWS[2] + 1e-9 * (np.arange(60) == 30)},
    {"priors": FLAT},
    {"nu": 1.5},
    {"seed": 6},
]


def run(
    name, config, *, seed=5, m=8, order="auto", y=ROWS[2], priors=Target.priors, nu=0.5, **more
):
    """What chains of a sampler, or a search, end with, (..., k)."""
    theta = TRUTH._replace(nu=nu)
    if name == "ulisse":
        return sample_ulisse(
            Problem(ROWS[0], ROWS[1], y, priors), theta, config, seed=seed, **more
        ).eta
    target = Target(build_blocks(ROWS[0], ROWS[1], y, m=m, order=order), priors, nu=nu)
    if name == "sgfs":
        return score_by_batches(target, target.eta(theta), np.zeros(1), config, seed=seed, **more)[
            0
        ]
    mode = find_mode(target, target.eta(START))
    if name == "published":
        return sample_published(
            target.sites, target, mode.eta, mode.beta, config, seed=seed, **more
        ).eta
    sample = sample_langevin if name == "langevin" else sample_metropolis
    return sample(target, mode, config, seed=seed, **more).eta


def break_off(name, checkpoint):
    """Leave the file of a run that was cancelled after some of its iterations."""
    phases = []

    def cancel(update):
        phases.append(update)
        if len(phases) == (2 if name == "sgfs" else 4):
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        run(name, CONFIGS[name], progress=cancel, checkpoint=checkpoint)


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory):
    """One file of each kind."""
    folder = tmp_path_factory.mktemp("files")
    files = {name: Checkpoint(folder / f"{name}.safetensors", every=25) for name in CONFIGS}
    for name, checkpoint in files.items():
        break_off(name, checkpoint)
    return files


@pytest.mark.parametrize("name", CONFIGS)
def test_chains_resume_with_the_same_settings_and_equal_draws(tmp_path, name):
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=25)
    break_off(name, checkpoint)
    done = checkpoints.facts_of(checkpoint.path)["done"]
    assert 0 < done < 150
    uninterrupted = run(name, CONFIGS[name])
    assert (run(name, CONFIGS[name], checkpoint=checkpoint) == uninterrupted).all()
    assert checkpoints.facts_of(checkpoint.path)["done"] > done


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("langevin", {"control_variates": False}),
        ("metropolis", {"independent": False}),
        ("published", {"last_share": 0.1}),
        ("sgfs", {"step": 0.06}),
        ("ulisse", {"truncation": Truncation(beta=0.06)}),
    ],
)
def test_another_setting_is_refused(broken_off, name, change):
    (key,) = change
    with pytest.raises(
        ForeignCheckpointError, match=f"belongs to another run: settings is .*{key}="
    ):
        run(name, replace(CONFIGS[name], **change), checkpoint=broken_off[name])


@pytest.mark.parametrize(
    "change", OTHER_NUMBERS, ids=["order", "neighbours", "a row", "priors", "smoothness", "seed"]
)
@pytest.mark.parametrize("name", CONFIGS)
def test_other_rows_priors_and_numbers_are_refused(broken_off, name, change):
    if name == "ulisse" and {"order", "m"} & set(change):
        pytest.skip("an exact likelihood has neither order nor neighbours")
    with pytest.raises(
        ForeignCheckpointError, match="belongs to another run: (start|problem|seed) is "
    ):
        run(name, CONFIGS[name], checkpoint=broken_off[name], **change)


def test_other_rows_are_refused_also_if_chains_start_at_the_same_state(tmp_path):
    """SGRLD as published is given its start: what else differs is in the rows alone."""
    target = Target(build_blocks(*ROWS, m=8))
    other = replace(target, sites=build_blocks(ROWS[0], ROWS[1], ROWS[2] + 1e-9, m=8))
    checkpoint = Checkpoint(tmp_path / "chains.safetensors")
    eta = target.eta(TRUTH)
    config = CONFIGS["published"]
    sample_published(target.sites, target, eta, np.zeros(1), config, seed=0, checkpoint=checkpoint)
    with pytest.raises(ForeignCheckpointError, match="belongs to another run: problem is "):
        sample_published(
            other.sites, other, eta, np.zeros(1), config, seed=0, checkpoint=checkpoint
        )


@pytest.mark.parametrize("name", ["langevin", "metropolis", "ulisse"])
def test_file_without_settings_is_refused(tmp_path, broken_off, name):
    arrays, facts = checkpoints.read(broken_off[name].path, expected={}, device="cpu")
    without_settings = {
        key: facts[key] for key in ("seed", "warmup", "draws", "block", "start", "done")
    }
    checkpoint = Checkpoint(tmp_path / "chains.safetensors")
    checkpoints.write(checkpoint.path, arrays, without_settings)
    with pytest.raises(ForeignCheckpointError, match="settings is None there"):
        run(name, CONFIGS[name], checkpoint=checkpoint)
