"""Gaps of a data set: their origin, what did not match, and the form that sets new ones."""

from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import session
from app.components.shared import downloads, frame, stores, uploads, words
from app.components.shared.actions import edited_text
from app.components.shared.guide_links import help_link
from bandgap.datasets.gaps import (
    LEVEL_COLUMN,
    distinct_levels,
    gaps_from_numbers,
    merged_gaps,
    mixed_levels_warning,
)
from bandgap.datasets.units import Unit
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.housekeeping import set_level_of_theory
from bandgap.jobs.listing import numbers_of
from bandgap.jobs.rows import Dataset, Verdict
from bandgap.jobs.uploaded_gaps import MatchedTable, match_table, uploaded_payload

TABLE = "a table (CSV)"
LISTED_NAMES = 3
_STATED: dict[str, Unit | None] = {"stated in the header": None} | {
    unit: unit for unit in get_args(Unit)
}
_LEVEL_SHOWN = "PBE, HSE06, GW, ..."
_BY_HEADER = "found by its header"
_GAP_COLUMN_HELP = "Needed only if several columns could be it."
_ID_COLUMN_HELP = "Needed only if it has no usual header, such as id, name, material_id or file."


def labels_view(dataset: Dataset) -> None:
    """Draw a section with the origin of the gaps, what did not match, and the form for new gaps.

    It is open where no gap is known.
    """
    labels = dataset.labels
    key = f"gaps-{dataset.id}"
    st.session_state.setdefault(key, not labels)
    with st.expander("Known gaps", on_change="rerun", key=key) as expander:
        if not expander.open:
            return
        if labels:
            _origin(dataset)
            _unmatched(labels)
        else:
            st.write("No gap is known yet. A transfer learns from structures with a known gap.")
        _form(dataset)


def _origin(dataset: Dataset) -> None:
    labels = dataset.labels
    level = words.escaped(dataset.level_of_theory) or "no level of theory stated"
    origin = f"{words.count(labels['matched'], 'gap')} from {words.escaped(labels['source'])}"
    st.markdown(f"Known gaps: **{origin}**, {level}.")
    edited_text(
        "Level of theory of these gaps",
        dataset.level_of_theory,
        partial(set_level_of_theory, stores.library(), session.workspace(), dataset.id),
        key=f"level-{dataset.id}",
        placeholder=_LEVEL_SHOWN,
        width=420,
    )
    if other_columns := labels.get("beside"):
        names = ", ".join(
            f"{words.escaped(name)} of {count:,}" for name, count in other_columns.items()
        )
        st.caption(f"Also stored: {names}. Train can learn the difference to it.")


def _unmatched(labels: Mapping[str, Any]) -> None:
    frame.warn(labels.get("problems", []))
    for key, title in (
        ("unmatched_labels", "Rows of the table without a structure"),
        ("unmatched_structures", "Structures without a row in the table"),
    ):
        names = labels.get(key)
        if not names:
            continue
        table = pd.DataFrame({"name": names})
        if key == "unmatched_labels" and (gaps := labels.get("unmatched_gaps_eV")) is not None:
            table[Quantity.GAP.axis] = np.round(gaps, 3)
        first_names = ", ".join([*names[:LISTED_NAMES], *["..."] * (len(names) > LISTED_NAMES)])
        with frame.row():
            st.markdown(
                f"**{title}** ({labels[f'n_{key}']:,}): {words.escaped(first_names)}",
                width="content",
            )
            downloads.table_csv(partial(pd.DataFrame, table), f"{key}.csv")


def _form(dataset: Dataset) -> None:
    """Draw the form for new gaps; every change of it shows what would be stored."""
    key = session.form_key("labels")
    numbers = numbers_of(stores.library(), dataset.id)
    origin = TABLE
    if numbers:
        origin = st.selectbox(
            "New gaps from",
            [TABLE, *numbers],
            format_func=lambda name: (
                name if name == TABLE else f"{name} in the files ({numbers[name]:,})"
            ),
            key=f"labels-from-{key}",
        )
    file = None
    if origin == TABLE:
        file = uploads.choose_table(
            "Table of gaps (CSV)",
            "a column headed id or file, and one gap column whose header states its unit, such as "
            "gap_eV. A column level_of_theory may state the level row by row",
            form="labels",
            link=help_link("how-to/labels-and-units", "A table of gaps"),
        )
    columns = st.columns(4)
    fields = (("Gap column", _GAP_COLUMN_HELP), ("Id column", _ID_COLUMN_HELP))
    names = [
        place.text_input(
            label,
            placeholder=_BY_HEADER,
            help=help,
            key=f"{label}-{key}",
            disabled=origin != TABLE,
        ).strip()
        for place, (label, help) in zip(columns, fields, strict=False)
    ]
    unit = _STATED[
        columns[2].selectbox("Unit of the gap column", list(_STATED), key=f"labels-unit-{key}")
    ]
    level = columns[3].text_input(
        "Level of theory",
        placeholder=_LEVEL_SHOWN,
        help="How the gaps were computed. It travels with the run and its predictions."
        + help_link("how-to/theory-levels-and-baselines", "Name the level of theory"),
        key=f"labels-level-{key}",
    )
    keep = bool(dataset.labels) and st.checkbox(
        "Keep the present gaps of structures that get no new one"
    )
    place = st.container()
    is_sent = st.button("Match the gaps" if origin == TABLE else "Use as gaps")
    try:
        if origin != TABLE:
            if is_sent:
                _use_number(dataset, origin, unit=unit, level=level, keep=keep)
        elif file is not None:
            payload = _payload_of(
                file.getvalue(),
                name=file.name,
                unit=unit,
                column=names[0] or None,
                id_column=names[1] or None,
                level_of_theory=level,
            )
            table = match_table(stores.library(), dataset.id, payload)
            with place:
                _preview(table)
            if is_sent:
                facts = table.store_columns(stores.library(), dataset.id)
                uploads.release(file)
                level = table.labels.level_of_theory
                _store(
                    dataset, table.verdicts, table.match.gaps, level=level, facts=facts, keep=keep
                )
        elif is_sent:
            raise InputError(
                "No table was chosen. Choose a CSV file with a column id or file and a gap column."
            )
    except BandgapError as error:
        frame.problem(error)


# Every change of the form runs the page again; a large table takes seconds.
_payload_of = st.cache_data(show_spinner=False, max_entries=4)(uploaded_payload)


def _preview(table: MatchedTable) -> None:
    """Say what a match would store."""
    labels = table.labels
    match = table.match
    if match.n_matched:
        level = labels.level_of_theory or "no level of theory stated"
        st.markdown(
            words.escaped_sentence(
                f"{match.n_matched:,} of {words.count(match.gaps.size, 'structure')} would get a "
                f"gap from the column {labels.column}, read as {labels.unit}; {level}."
            )
        )
        return
    present = [verdict.id if labels.ids else verdict.file for verdict in table.verdicts]
    names = [", ".join(texts[:3]) for texts in (labels.ids or labels.files, present)]
    frame.warn(
        [
            f"No name of {labels.source} is that of a structure. The table has {names[0]}; the "
            f"structures are {names[1]}. Name another id column, or change the names."
        ]
    )


def _use_number(dataset: Dataset, name: str, *, unit: Unit | None, level: str, keep: bool) -> None:
    """Store a number of the structures' files as their gaps."""
    verdicts = stores.library().verdicts(dataset.id)
    values = np.array([v.info.get(name, np.nan) for v in verdicts], dtype=np.float64)
    gaps = gaps_from_numbers([v.id for v in verdicts], values, unit=unit, name=name)
    levels = distinct_levels([level, *(str(v.info.get(LEVEL_COLUMN, "")) for v in verdicts)])
    problems = [*filter(None, [mixed_levels_warning(levels)])]
    facts = {"source": f"{name} in the files", "problems": problems}
    _store(dataset, verdicts, gaps, level="; ".join(levels), facts=facts, keep=keep)


def _store(
    dataset: Dataset,
    verdicts: list[Verdict],
    gaps: NDArray[np.float64],
    *,
    level: str,
    facts: dict[str, Any],
    keep: bool,
) -> None:
    matched = int(np.isfinite(gaps).sum())
    if keep:
        present = np.array(
            [np.nan if v.gap_eV is None else v.gap_eV for v in verdicts], dtype=np.float64
        )
        gaps, level, warnings = merged_gaps(present, gaps, levels=(dataset.level_of_theory, level))
        facts["problems"] = list(dict.fromkeys([*facts["problems"], *warnings]))
        facts["source"] = f"{dataset.labels['source']} and {facts['source']}"
    facts["matched"] = int(np.isfinite(gaps).sum())
    # The store still has the columns of earlier tables.
    facts["beside"] = {**dataset.labels.get("beside", {}), **facts.get("beside", {})}
    stores.library().save_gaps(dataset.id, gaps, labels=facts, level_of_theory=level)
    session.renew("labels")
    session.set_message(
        f"{words.count(matched, 'structure')} of {len(gaps):,} got a gap; {facts['matched']:,} "
        "have one now."
    )
    st.rerun()
