"""Gaps of a data set: their origin, what did not match, and the forms that set new ones."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import session
from app.components.shared import downloads, frame, stores, tables, uploads, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.structures.pictures import picture_addresses, pictures_of_ids
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
from bandgap.jobs.housekeeping import MAX_NAME, set_level_of_theory
from bandgap.jobs.rows import Dataset, Verdict
from bandgap.jobs.uploaded_gaps import MatchedTable, match_table, uploaded_payload

_UNITS: tuple[Unit, ...] = get_args(Unit)
_STATED: dict[str, Unit | None] = {"stated in the header": None} | {unit: unit for unit in _UNITS}
PREVIEW_ROWS = 5
_LEVEL_HELP = (
    "How the gaps were computed. It travels with the run and its predictions; mixing levels gives "
    "a warning."
)
_LEVEL_SHOWN = "PBE, HSE06, GW, ..."
_BY_HEADER = "found by its header"
_GAP_COLUMN_HELP = (
    "Header of the column with the gaps, as written in the table. Needed only if several columns "
    "could be it. A header with the word gap, Eg or bandgap is found without it, such as gap_eV, "
    "gap (Ha) or band gap (meV)."
)
_ID_COLUMN_HELP = (
    "Header of the column that names the structures, as written in the table. Headers that are "
    "found without it: id, structure, identifier, refcode, material_id, name, key, jid, mp_id, "
    "cod_id, csd_id, icsd_id, oqmd_id, qmof_id, entry_id, mat_id, auid, uid; of several, the one "
    "that fits the structures counts. For file names: file, filename, path, "
    "structure_file, cif."
)


def labels_view(dataset: Dataset, numbers: Mapping[str, int]) -> None:
    """Show the origin of the gaps and what did not match, and draw the forms for new gaps.

    `numbers` is the number of structures by the name of a number in their file.
    """
    labels = dataset.labels
    if labels:
        level = words.escaped(dataset.level_of_theory) or "no level of theory stated"
        origin = f"{words.count(labels['matched'], 'gap')} from {words.escaped(labels['source'])}"
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"Known gaps: **{origin}**, {level}.", width="content")
            _level_form(dataset)
        if other_columns := labels.get("beside"):
            names = ", ".join(
                f"{words.escaped(name)} of {count:,}" for name, count in other_columns.items()
            )
            st.caption(
                f"Also stored: {names}. The page Train can learn the difference to it (More "
                "settings)."
            )
    else:
        st.write("No gap is known yet. A transfer learns from structures with a known gap.")
    _unmatched(labels, dataset.id)
    table, files = st.tabs(["From a CSV table", "From the structure files"])
    with table:
        _csv_form(dataset)
    with files:
        _number_form(dataset, numbers)


def _level_form(dataset: Dataset) -> None:
    """Draw the form that changes the level of theory of the stored gaps."""
    verb = "Change" if dataset.level_of_theory else "Name"
    with (
        st.popover(f"{verb} the level of theory", icon=":material/edit:"),
        st.form(f"level-{dataset.id}", border=False),
    ):
        level = st.text_input(
            "Level of theory of these gaps",
            dataset.level_of_theory,
            placeholder=_LEVEL_SHOWN,
            max_chars=MAX_NAME,
            help=_LEVEL_HELP
            + help_link("how-to/theory-levels-and-baselines", "Name the level of theory"),
        )
        if st.form_submit_button("Store the level"):
            change = partial(
                set_level_of_theory, stores.library(), session.workspace(), dataset.id, level
            )
            text = level.strip()
            carry_out(
                change,
                f"The gaps are now of the level {text}." if text else "No level is stated now.",
            )


def _unmatched(labels: Mapping[str, Any], dataset_id: str) -> None:
    for text in labels.get("problems", []):
        st.warning(words.escaped(text), icon=":material/warning:")
    left_column, right_column = st.columns(2)
    sides = (
        (left_column, "unmatched_labels", "Rows of the table without a structure"),
        (right_column, "unmatched_structures", "Structures without a row in the table"),
    )
    for column, key, title in sides:
        names = labels.get(key)
        total = labels.get(f"n_{key}", 0)
        if not names:
            continue
        with column:
            st.markdown(f"**{title}** ({total:,})")
            gaps = labels.get("unmatched_gaps_eV") if key == "unmatched_labels" else None
            table = pd.DataFrame({"id" if gaps is None else "name in the table": names})
            if gaps is not None:
                table[Quantity.GAP.axis] = np.round(gaps, 3)
            pictures = pictures_of_ids(dataset_id, names) if key == "unmatched_structures" else ()
            downloads.table_with_csv(table, f"{key}.csv", alt=title, rows=5, pictures=pictures)
            if total > len(names):
                st.caption(f"The first {len(names):,} are shown.")


def _csv_form(dataset: Dataset) -> None:
    # no form: every change of the file or a setting shows what would be matched
    file = st.file_uploader(
        "Table of gaps (CSV)",
        type=["csv", "tsv", "txt"],
        key=f"labels-file-{session.form_key('labels')}",
        help="One column headed id or file, and one gap column whose header states its unit, "
        "such as gap_eV. A column level_of_theory may state the level row by row."
        + help_link("how-to/labels-and-units", "A table of gaps"),
    )
    key = session.form_key("labels")
    left_column, right_column = st.columns(2)
    gap_column = left_column.text_input(
        "Gap column", placeholder=_BY_HEADER, help=_GAP_COLUMN_HELP, key=f"labels-gap-{key}"
    ).strip()
    id_column = right_column.text_input(
        "Id column", placeholder=_BY_HEADER, help=_ID_COLUMN_HELP, key=f"labels-id-{key}"
    ).strip()
    unit = left_column.selectbox("Unit of the gap column", list(_STATED), key=f"labels-unit-{key}")
    level = right_column.text_input(
        "Level of theory",
        placeholder=_LEVEL_SHOWN,
        help=_LEVEL_HELP
        + help_link("how-to/theory-levels-and-baselines", "Name the level of theory"),
        key=f"labels-level-{key}",
    )
    table = None
    if file is not None:
        try:
            payload = _payload_of(
                file.getvalue(),
                name=file.name,
                unit=_STATED[unit],
                column=gap_column or None,
                id_column=id_column or None,
                level_of_theory=level,
            )
            table = match_table(stores.library(), dataset.id, payload)
        except BandgapError as error:
            frame.problem(error)
        else:
            _preview(dataset, table)
    keep = _keep_box(dataset)
    if not st.button("Match the gaps", type="secondary" if dataset.labels else "primary"):
        return
    if file is None:
        frame.problem(
            InputError(
                "No table was chosen. Choose a CSV file with a column id or file and a gap column."
            )
        )
    if file is None or table is None:
        return
    facts = table.store_columns(stores.library(), dataset.id)
    uploads.release(file)
    level = table.labels.level_of_theory
    _store(dataset, table.verdicts, table.match.gaps, level=level, facts=facts, keep=keep)


# Every change of the form runs the page again; a large table takes seconds.
_payload_of = st.cache_data(show_spinner=False, max_entries=4)(uploaded_payload)


def _preview(dataset: Dataset, table: MatchedTable) -> None:
    """Show what a match would store: how many structures get a gap, and the first of them."""
    labels = table.labels
    match = table.match
    if not match.n_matched:
        names = [", ".join(texts[:3]) for texts in (labels.ids or labels.files, _names(table))]
        st.warning(
            words.escaped_sentence(
                f"No name of {labels.source} is that of a structure. The table has {names[0]}; the "
                f"structures are {names[1]}. Name another id column, or change the names."
            ),
            icon=":material/warning:",
        )
        return
    level = labels.level_of_theory or "no level of theory stated"
    st.markdown(
        words.escaped_sentence(
            f"{match.n_matched:,} of {words.count(match.gaps.size, 'structure')} would get a gap "
            f"from the column {labels.column}, read as {labels.unit}; {level}. The first ones:"
        )
    )
    rows = np.flatnonzero(np.isfinite(match.gaps))[:PREVIEW_ROWS].tolist()
    preview = preview_frame(table, rows)
    tables.show(
        tables.with_pictures(preview, picture_addresses(dataset.id, rows)),
        alt="The first structures that would get a gap",
        columns=tables.columns(["id", "formula"])
        | {"gap_eV": tables.column("gap (eV)", format="%.3f")},
    )


def preview_frame(table: MatchedTable, rows: Sequence[int]) -> pd.DataFrame:
    """Return id, new gap in eV, formula and file of some structures."""
    verdicts = [table.verdicts[row] for row in rows]
    return pd.DataFrame(
        {
            "id": [verdict.id for verdict in verdicts],
            "gap_eV": table.match.gaps[list(rows)],
            "formula": [verdict.formula for verdict in verdicts],
            "file": [verdict.file for verdict in verdicts],
        }
    )


def _names(table: MatchedTable) -> list[str]:
    return [verdict.id if table.labels.ids else verdict.file for verdict in table.verdicts]


def _number_form(dataset: Dataset, numbers: Mapping[str, int]) -> None:
    if not numbers:
        st.caption(
            "These files contain no numbers for the structures. extXYZ files may, in their second "
            "line."
        )
        return
    with st.form(f"key-{session.form_key('labels')}", border=False):
        left_column, middle_column, right_column = st.columns(3)
        key = left_column.selectbox(
            "Number",
            list(numbers),
            format_func=lambda k: f"{k} (in {words.count(numbers[k], 'structure')})",
        )
        unit = middle_column.selectbox(
            "Its unit", _UNITS, index=None, placeholder="as its name states"
        )
        level = right_column.text_input(
            "Level of theory",
            placeholder=_LEVEL_SHOWN,
            help=_LEVEL_HELP
            + help_link("how-to/theory-levels-and-baselines", "Name the level of theory"),
        )
        keep = _keep_box(dataset)
        if not st.form_submit_button("Use as gaps"):
            return
        verdicts = stores.library().verdicts(dataset.id)
        try:
            values = np.array([v.info.get(key, np.nan) for v in verdicts], dtype=np.float64)
            gaps = gaps_from_numbers([v.id for v in verdicts], values, unit=unit, name=key)
        except BandgapError as error:
            frame.problem(error)
            return
        levels = distinct_levels([level, *(str(v.info.get(LEVEL_COLUMN, "")) for v in verdicts)])
        problems = [*filter(None, [mixed_levels_warning(levels)])]
        facts = {"source": f"{key} in the files", "problems": problems}
        _store(dataset, verdicts, gaps, level="; ".join(levels), facts=facts, keep=keep)


def _keep_box(dataset: Dataset) -> bool:
    """Draw the checkbox that keeps present gaps without a new value; False if there are none."""
    return bool(dataset.labels) and st.checkbox(
        "Keep the present gaps of structures that get no new one",
        help="Without it, the new gaps replace all present ones.",
    )


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
        facts["problems"] = [
            *facts["problems"],
            *(text for text in warnings if text not in facts["problems"]),
        ]
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
