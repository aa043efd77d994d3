"""What a page does in a new worker's first seconds: it says what it waits for, and goes on by itself."""

from collections.abc import Callable

import streamlit as st

from app.components.shared import stores, words
from bandgap.jobs.library import Kind
from bandgap.jobs.lock import worker_status

POLL_S = 2.0


def registered(*kinds: Kind) -> bool:
    """Return whether the worker has written down all of these; until it has, say so, and then run the page anew."""

    def there() -> bool:
        return all(stores.library().is_registered(kind) for kind in kinds)

    if there():
        return True
    run_anew_when(
        there,
        lambda: st.info(
            "The worker has not yet said which source models and methods there are. It does so "
            "some seconds after its start; this page then goes on by itself.",
            icon=":material/hourglass_top:",
        ),
    )
    return False


def worker_state() -> None:
    """Show whether computing is possible; where not, watch for the worker's first sign."""
    alive, _ = _worker()
    if alive:
        st.caption("Worker: running.")
        return
    run_anew_when(
        lambda: _worker()[0], lambda: st.warning(_worker()[1], icon=":material/pause_circle:")
    )


def run_anew_when(
    there: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Draw what is shown meanwhile, again and again, until it is there; then run the whole page once more."""

    @st.fragment(run_every=POLL_S)
    def watch() -> None:
        if there():
            st.rerun()
        meanwhile()

    watch()


def _worker() -> tuple[bool, str]:
    status = worker_status(stores.jobs().database)
    return status.alive, "" if status.alive else words.no_worker(status.age_s)
