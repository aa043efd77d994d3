"""Waiting for the worker: a page shows what it waits for and runs again when that is available."""

from collections.abc import Callable

import streamlit as st

from app.components.shared import stores, words
from bandgap.jobs.library import Kind
from bandgap.jobs.lock import worker_status

POLL_S = 2.0


def registered(*kinds: Kind) -> bool:
    """Return whether the worker has registered these kinds; if not, show so and wait for it."""

    def is_registered() -> bool:
        return all(stores.library().is_registered(kind) for kind in kinds)

    if is_registered():
        return True
    rerun_when(
        is_registered,
        lambda: st.info(
            "The worker has not yet registered its source models and methods. It does so "
            "some seconds after its start; this page then continues by itself.",
            icon=":material/hourglass_top:",
        ),
    )
    return False


def worker_state() -> None:
    """Where no worker runs, say so until one runs."""
    if not _no_worker():
        return
    rerun_when(
        lambda: not _no_worker(), lambda: st.warning(_no_worker(), icon=":material/pause_circle:")
    )


def rerun_when(
    condition: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Run the whole page again when a condition is true; until then call `meanwhile` repeatedly."""

    @st.fragment(run_every=POLL_S)
    def watch() -> None:
        if condition():
            st.rerun()
        meanwhile()

    watch()


def _no_worker() -> str:
    status = worker_status(stores.jobs().database)
    return "" if status.alive else words.no_worker(status.age_s)
