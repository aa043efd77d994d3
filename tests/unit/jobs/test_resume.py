"""A transfer that was interrupted goes on when the same is started again; a cancelled one leaves nothing behind."""

import os
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from bandgap.descriptors import n_features
from bandgap.foundation.errors import Cancelled
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.tasks.transfer import transfer
from bandgap.runs.stored import load_run
from tests.unit.jobs.labelled_sets import add_labelled_set
from tests.unit.jobs.payloads import transfer_payload

WS = str(uuid.uuid4())
SAMPLER = {
    "chains": 2,
    "warmup": 60,
    "draws": 100,
    "keep": 8,
    "max_steps": 2,
}  # more than one checkpoint


@pytest.fixture
def home(tmp_path, world, source_folder) -> Home:
    """A data directory with labelled molecules and a source."""
    home = Home(tmp_path)
    add_labelled_set(home, WS, world, source_folder)
    return home


def submitted(home: Home, **changed) -> Job:
    dataset = Library(home).datasets(WS)[0]
    fields = {
        "method": "bnn",
        "n": 16,
        "n_test": 4,
        "seed": 1,
        "settings": {"sampler": SAMPLER},
        "device": "cpu",
    }
    payload = transfer_payload(run=str(uuid.uuid4()), dataset=dataset.id, **fields | changed)
    return JobStore(home).submit(
        WS, "transfer", title="transfer", payload=payload, subject=dataset.id
    )


class Killed(RuntimeError):
    """As the end of the worker's process."""


def transferred(home, job, *, after=None, error=Killed):
    """Do the job's work; return its updates of the sampler, or those until it ended with the error."""
    seen = []

    def progress(update):
        if update.total == 160:
            seen.append(update.done)
            if after is not None and update.done >= after:
                raise error("gone")

    if after is None:
        transfer(job, home, progress)
    else:
        with pytest.raises(error):
            transfer(job, home, progress)
    return seen


def means(home, job, x):
    return load_run(home.run_folder(job.payload["run"])).posterior.mean_draws_eV(x)


def left(home) -> list[Path]:
    return list((home.folder / "checkpoints").glob("*"))


def test_job_started_again_goes_on_and_gives_the_posterior_of_one_without_a_break(home, world):
    killed, again, whole = submitted(home), submitted(home), submitted(home)
    assert max(transferred(home, killed, after=120)) == 120
    assert len(left(home)) == 1
    assert min(transferred(home, again)) > 100
    assert not left(home)
    assert min(transferred(home, whole)) == 5
    x = np.random.default_rng(0).normal(size=(5, n_features(world.descriptor)))
    np.testing.assert_array_equal(means(home, again, x), means(home, whole, x))


def test_another_job_does_not_go_on_from_it(home):
    transferred(home, submitted(home), after=120)
    assert min(transferred(home, submitted(home, seed=2))) == 5


def test_job_on_gaps_that_have_changed_since_starts_anew(home, world):
    transferred(home, submitted(home), after=120)
    library = Library(home)
    dataset = library.datasets(WS)[0]
    library.save_gaps(
        dataset.id, world.gaps_eV + 0.5 * world.gaps_eV**2, labels={}, level_of_theory="PBE"
    )
    assert min(transferred(home, submitted(home))) == 5
    assert not left(home)


def test_cancelled_job_leaves_nothing(home):
    transferred(home, submitted(home), after=120, error=Cancelled)
    assert not left(home)


def test_checkpoints_that_nobody_came_back_for_are_removed(home):
    transferred(home, submitted(home), after=120)
    home.drop_checkpoints(older_than_s=3600.0)
    (folder,) = left(home)
    old = time.time() - 7200.0
    for path in (folder, *folder.iterdir()):
        os.utime(path, (old, old))
    home.drop_checkpoints(older_than_s=3600.0)
    assert not left(home)
