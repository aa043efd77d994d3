"""Select boxes of the pages: objects of the workspace, finished runs, and intervals."""

from collections.abc import Mapping
from typing import Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.advice import advice
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import finished_runs
from bandgap.evaluation.run_tables import distinct_labels
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.refitting import refit_of
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shipped_runs import missing_potential_note
from bandgap.jobs.sources import Source
from bandgap.predictions.conformal import ConformalScores, available, too_few
from bandgap.predictions.interval_kinds import INTERVAL_KINDS, IntervalKind

_WITHOUT_REFIT = "run_without_refit"  # key of the run that was selected although it has a refit
DELETED_DATA = "a deleted data set"  # one whose name is not stored
KINDS: dict[IntervalKind, str] = {
    "prediction": "prediction interval (a new crystal's gap falls in it with {level} probability)",
    "credible": "credible interval of the mean (where the mean lies; more of the same data narrow "
    "it; {level})",
    "conformal": "conformal interval (rests on {held_back}, no model assumption: the gap of "
    "another crystal like them falls in it with {level} probability)",
}


def choose(
    choice: session.Choice,
    label: str,
    names: Mapping[str, str],
    *,
    key: str = "",
    proposed: str | None = None,
    width: int | Literal["stretch"] = "stretch",
    help: str = "",
    is_labelled: bool = True,
) -> str:
    """Draw a select box and return the selected id.

    Parameters
    ----------
    choice
        The choice of the session that is selected initially, if it is one of the names.
    label
        Label of the box.
    names
        Displayed names by id.
    key
        Prefix of the key of the widget. With it the box is reset when the session's choice
        changes.
    proposed
        Id that is selected initially when the session has no choice; the first one by default.
    is_labelled
        Whether the label is shown, and not only read by a screen reader.
    """
    ids = list(names)
    present = session.selected_id(choice)
    initial_id = present if present in names else proposed
    index = 0 if initial_id is None else ids.index(initial_id)
    return st.selectbox(
        label,
        ids,
        index=index,
        format_func=names.__getitem__,
        key=f"{key}-{ids[index]}-{names[ids[index]]}-{len(ids)}" if key else None,
        width=width,
        help=help or None,
        label_visibility="visible" if is_labelled else "collapsed",
    )


def choose_run(*, refits_first: bool = False, shipped: RunRow | None = None) -> RunRow | None:
    """Draw the select box of finished runs; without one, show what to do and return None.

    With `refits_first` a run that has a finished refit is replaced by it when the page is opened.
    `shipped` is the run of the shipped model where that is offered, too.
    """
    finished = finished_runs() | ({} if shipped is None else {shipped.id: shipped})
    if refits_first:
        _choose_refit(finished)
    present = session.selected_id("run")
    if not finished:
        st.info("This page needs a finished run.")
        advice("result")
        return None
    names = stores.dataset_names(session.workspace())
    labels = run_labels(finished, names, stores.sources())
    if shipped is not None:
        labels[shipped.id] = f"{shipped.title} (no labels needed)"
    label = "Run" if shipped is None else "Predict with"
    picked = choose("run", label, labels, key="run-select", width=720)
    run = finished[picked]
    if run == shipped:
        if note := missing_potential_note():
            st.caption(words.escaped(f"{note} Whoever runs this server can add it."))
    else:
        name = words.escaped(names.get(run.dataset, DELETED_DATA))
        st.caption(f"Data set: {name}.")
    if picked != present:
        session.choose("run", picked)
        session.choose("prediction", "")
        if refits_first:
            st.session_state[_WITHOUT_REFIT] = picked
    return run


def _choose_refit(finished: Mapping[str, RunRow]) -> None:
    """Select the finished refit of the selected run, unless the visitor selected it in this box."""
    present = session.selected_id("run")
    if not present or st.session_state.get(_WITHOUT_REFIT) == present:
        return
    refit = refit_of(present, finished, stores.jobs_of("transfer"))
    if refit is not None:
        session.choose("run", refit.id)


def run_labels(
    runs: Mapping[str, RunRow], names: Mapping[str, str], sources: Mapping[str, Source]
) -> dict[str, str]:
    """Return a distinct label of each run by id: runs of one title are told apart by what differs.

    `names` are the names of the data sets by id, `sources` the source models by id.
    """
    rows = list(runs.values())
    details = [
        {
            "data": f"on {names.get(row.dataset, DELETED_DATA)}",
            "source": f"from {sources[row.source].title}" if row.source in sources else "",
            "seed": f"seed {row.request.seed}",
            "n": f"n = {row.request.n}",
            "started": f"started {words.moment(row.created)}",
        }
        for row in rows
    ]
    return dict(zip(runs, distinct_labels([row.title for row in rows], details), strict=True))


def choose_interval(
    held_back: ConformalScores | None, *, key: str, default: IntervalKind = "prediction"
) -> tuple[float, IntervalKind, bool]:
    """Draw the slider of the level and the choice of the kind of interval.

    Returns
    -------
    level
        Probability that the intervals state, in (0, 1).
    kind
        Kind of interval. Conformal intervals are offered for runs that held back crystals.
    available
        Whether there are such intervals: a conformal interval may need more crystals.
    """
    left_column, right_column = st.columns([2, 3], gap="large", vertical_alignment="center")
    link = help_link("explanation/intervals", "Three kinds of intervals")
    with left_column.container(key="field-level"):
        help = f"Probability that the intervals state.{link}"
        level = st.slider("Level", 50, 99, 95, format="%d %%", help=help) / 100
    kinds = [kind for kind in INTERVAL_KINDS if kind != "conformal" or held_back is not None]
    kind: IntervalKind = (
        right_column.segmented_control(
            "Interval",
            kinds,
            default=default,
            key=key,
            help=_KIND_HELP + link,
        )
        or default
    )
    crystals = words.count(len(held_back or ()), "held-back crystal")
    right_column.caption(
        words.sentence(KINDS[kind].format(level=words.percent(level), held_back=crystals)) + "."
    )
    short = too_few(len(available(held_back)), level=level) if kind == "conformal" else ""
    frame.warn([short])
    return level, kind, not short


_KIND_HELP = (
    "A third kind, conformal, is offered for runs that held crystals back for it (page Train, More "
    "settings). " + Quantity.CONFORMAL.help
)
