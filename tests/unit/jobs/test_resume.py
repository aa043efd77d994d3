"""An interrupted transfer resumes when it is started again; a cancelled one leaves no files."""

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
from bandgap.jobs.tasks.records import Work
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
    """Raised where the process of the worker ends."""


def transferred(home, job, *, after=None, error=Killed):
    """Run the job; return its sampler updates, up to the error if it raises one."""
    updates = []

    def progress(update):
        if update.total == 160:
            updates.append(update.done)
            if after is not None and update.done >= after:
                raise error("gone")

    if after is None:
        transfer(Work(job, home, progress))
    else:
        with pytest.raises(error):
            transfer(Work(job, home, progress))
    return updates


def means(home, job, x):
    return load_run(home.run_folder(job.payload["run"])).posterior.mean_draws_eV(x)


def checkpoint_files(home) -> list[Path]:
    return list((home.folder / "checkpoints").glob("*"))


def test_restarted_job_resumes_and_gives_the_uninterrupted_posterior(home, world):
    killed = submitted(home)
    again = submitted(home)
    uninterrupted = submitted(home)
    assert max(transferred(home, killed, after=120)) == 120
    assert len(checkpoint_files(home)) == 1
    assert min(transferred(home, again)) > 100
    assert not checkpoint_files(home)
    assert min(transferred(home, uninterrupted)) == 5
    x = np.random.default_rng(0).normal(size=(5, n_features(world.descriptor)))
    np.testing.assert_array_equal(means(home, again, x), means(home, uninterrupted, x))


def test_another_job_does_not_resume_from_it(home):
    transferred(home, submitted(home), after=120)
    assert min(transferred(home, submitted(home, seed=2))) == 5


def test_job_with_changed_gaps_restarts(home, world):
    transferred(home, submitted(home), after=120)
    library = Library(home)
    dataset = library.datasets(WS)[0]
    library.save_gaps(
        dataset.id, world.gaps_eV + 0.5 * world.gaps_eV**2, labels={}, level_of_theory="PBE"
    )
    assert min(transferred(home, submitted(home))) == 5
    assert not checkpoint_files(home)


def test_cancelled_job_leaves_nothing(home):
    transferred(home, submitted(home), after=120, error=Cancelled)
    assert not checkpoint_files(home)


def test_checkpoints_that_nobody_came_back_for_are_removed(home):
    transferred(home, submitted(home), after=120)
    home.drop_checkpoints(older_than_s=3600.0)
    (folder,) = checkpoint_files(home)
    old = time.time() - 7200.0
    for path in (folder, *folder.iterdir()):
        os.utime(path, (old, old))
    home.drop_checkpoints(older_than_s=3600.0)
    assert not checkpoint_files(home)
