"""The select boxes of pages: what the address names is chosen first; and that of finished runs, which results share."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.run_files import finished_runs
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow
from bandgap.predictions.conformal import ConformalScores, available, too_few
from bandgap.predictions.interval_kinds import INTERVAL_KINDS, IntervalKind

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
) -> str:
    """Return the id that is picked among names by id; with a `key` the box begins anew when another is chosen.

    Where none is chosen it begins with the `proposed` one, else with the first.
    """
    ids, present = list(names), session.chosen(choice)
    begun = present if present in names else proposed
    index = 0 if begun is None else ids.index(begun)
    life = f"{key}-{ids[index]}-{len(ids)}" if key else None
    format_func = names.__getitem__
    return st.selectbox(
        label, ids, index=index, format_func=format_func, key=life, width=width, help=help or None
    )


def choose_run(purpose: str) -> RunRow | None:
    """Let the visitor choose a finished run; without one, say how it stands and what to do."""
    finished, present = finished_runs(), session.chosen("run")
    if not finished:
        newest, jobs = (
            stores.library().runs(session.workspace(), limit=1),
            stores.jobs_of("transfer"),
        )
        states = [words.STANDING[jobs[run.job].state] for run in newest if run.job in jobs]
        text = (
            f"There is no finished run yet; the newest one {states[0]}."
            if states
            else "There is no run yet."
        )
        frame.send_on(f"{text} {purpose}", to="train")
        return None
    names = stores.dataset_names(session.workspace())
    same = Counter(run.title for run in finished.values())
    titles = {
        i: run.title if same[run.title] == 1 else f"{i[:4]}: {run.title}"
        for i, run in finished.items()
    }
    picked = choose("run", "Run", titles, key="run-select", width=520)
    run = finished[picked]
    name = words.escaped(names.get(run.dataset, "a deleted data set"))
    st.caption(f"{words.escaped(run.title)}, on {name}, seed {run.request.seed}.")
    if picked != present:
        session.choose("run", picked)
        session.choose("prediction", "")
    return run


def choose_level(place: st.delta_generator.DeltaGenerator) -> float:
    """Draw the slider of the level."""
    return (
        place.slider(
            "Level", 50, 99, 95, format="%d %%", help="Probability that the intervals state."
        )
        / 100
    )


def choose_interval(
    held_back: ConformalScores | None, *, key: str, default: IntervalKind = "prediction"
) -> tuple[float, IntervalKind, bool]:
    """Draw both, and return level, kind, and whether there are such intervals: a conformal one may need more crystals.

    A conformal interval is offered where crystals were held back for it.
    """
    left, right = st.columns([2, 3], gap="large", vertical_alignment="center")
    level = choose_level(left)
    kinds = [kind for kind in INTERVAL_KINDS if kind != "conformal" or held_back is not None]
    kind: IntervalKind = (
        right.segmented_control("Interval", kinds, default=default, key=key, help=_KIND_HELP)
        or default
    )
    crystals = words.count(len(held_back or ()), "held-back crystal")
    right.caption(
        words.sentence(KINDS[kind].format(level=words.percent(level), held_back=crystals)) + "."
    )
    short = too_few(len(available(held_back)), level=level) if kind == "conformal" else ""
    frame.warn([short])
    return level, kind, not short


_KIND_HELP = (
    "A third kind, conformal, is offered for runs that held crystals back for it (page Train, More "
    "settings). " + Quantity.CONFORMAL.help
)
