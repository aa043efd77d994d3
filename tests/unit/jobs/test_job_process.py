"""What the library warns of while a job runs is the last line of the job's log."""

import logging
import uuid

from bandgap.foundation.progress import Update
from bandgap.jobs.home import Home
from bandgap.jobs.job_process import run_job
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks import TASKS

WS = str(uuid.uuid4())


def test_warnings_of_the_library_are_events_of_the_job_and_of_no_other(tmp_path, monkeypatch):
    log = logging.getLogger("bandgap.somewhere")

    def warns(job, home, progress):
        progress(Update("reading", 1, 2))
        log.warning("the cache holds %d damaged rows", 3)
        log.info("nothing to see")
        return {}

    monkeypatch.setitem(TASKS, "check", warns)
    store = JobStore(Home(tmp_path))
    job = store.submit(WS, "check", title="t", payload={}, subject="s")
    run_job(store, job)
    log.warning("after the job")
    events = store.events(job.id)
    assert [(e.kind, e.update.message) for e in events] == [
        ("progress", ""),
        ("log", "the cache holds 3 damaged rows"),
    ]
    assert store.job(WS, job.id).state == "finished"
