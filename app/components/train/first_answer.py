"""A first answer: a fast method learns from the same structures before a slow one."""

from collections.abc import Callable, Sequence

import streamlit as st

from app.components.shared import stores
from app.components.shared.estimate_words import rounded
from app.components.shared.guide_links import help_link
from app.components.train.unseen_elements import Methods, Unseen, tested_alike, too_few_known
from bandgap.jobs.estimates import TransferTimes
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.jobs.starting import any_started
from bandgap.runs.requests import TransferRequest

SLOW_S = 60.0  # estimated time from which a transfer is preceded by a fast one
TIMES_FASTER = 4.0


def with_first_answer(
    requests: Sequence[TransferRequest],
    *,
    fast: str | None,
    request_of: Callable[[str], TransferRequest],
    dataset: Dataset,
    source: Source,
    times: TransferTimes,
    lacking: Unseen,
    methods: Methods,
) -> list[TransferRequest]:
    """Draw the choice of a first answer, and return the requests with it, if it is ticked.

    It is offered for one slow transfer, where the fast method of the cards is at least four times
    faster, is tested on the same structures, and neither of the two was started before.

    Parameters
    ----------
    requests
        The transfers to start.
    fast
        The fast method, None where no card shows one.
    request_of
        Returns the request of a method by its name.
    dataset, source, times, lacking, methods
        Those of the form.
    """
    unchanged = list(requests)
    if len(unchanged) != 1 or fast is None or fast == unchanged[0].method:
        return unchanged
    first = request_of(fast)
    slow_time = times.estimate(unchanged[0])
    fast_time = times.estimate(first)
    if slow_time is None or fast_time is None or slow_time.seconds < SLOW_S:
        return unchanged
    if slow_time.seconds < TIMES_FASTER * fast_time.seconds:
        return unchanged
    both = [first, *unchanged]
    if tested_alike(both, lacking, methods) != both or too_few_known(both, lacking, methods):
        return unchanged
    if any_started(stores.jobs(), stores.library(), dataset, source=source.id, requests=both):
        return unchanged
    ticked = st.checkbox(
        f"First answer after about {rounded(fast_time.seconds)}",
        value=True,
        key="first-answer",
        help=_HELP.format(title=methods[fast].title)
        + help_link("tutorials/first-prediction", "The same in the dashboard"),
    )
    return both if ticked else unchanged


_HELP = (
    "A fast method, {title}, learns from the same structures first. It is tested on the same "
    "held-out structures. If this page stays open, it then shows that result, with intervals, "
    "while the chosen method is under way."
)
