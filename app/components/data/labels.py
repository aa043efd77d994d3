"""Where a data set's gaps come from, what did not match, and the forms for others: a table, or numbers of the files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import session
from app.components.shared import frame, stores, tables, uploads, words
from bandgap.datasets.gaps import gaps_from_numbers, merged_gaps
from bandgap.datasets.labels import match_labels, other_gaps, read_labels
from bandgap.datasets.units import Unit
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import Dataset, Verdict

_UNITS: tuple[Unit, ...] = ("eV", "Hartree")
_STATED: dict[str, Unit | None] = {"stated in the header": None} | {unit: unit for unit in _UNITS}
_KEPT = 1_000  # names of unmatched rows that are kept to show
_LEVEL_HELP = (
    "How the gaps were computed. It travels with the run and its predictions; mixing levels gives "
    "a warning."
)
_LEVEL_SHOWN = "PBE, HSE06, GW, ..."


def labels_view(dataset: Dataset, numbers: Mapping[str, int]) -> None:
    """Show where the gaps come from and what did not match, and offer to give others.

    `numbers` counts the structures by the name of a number that their file gives.
    """
    labels = dataset.labels
    if labels:
        level = words.escaped(dataset.level_of_theory) or "no level of theory stated"
        known = f"{words.count(labels['matched'], 'gap')} from {words.escaped(labels['source'])}"
        st.markdown(f"Known gaps: **{known}**, {level}.")
        if beside := labels.get("beside"):
            names = ", ".join(
                f"{words.escaped(name)} of {count:,}" for name, count in beside.items()
            )
            st.caption(
                f"Kept beside: {names}. The page Train can learn the difference to it (More "
                "settings)."
            )
    else:
        st.write("No gap is known yet. A transfer learns from structures with a known gap.")
    _unmatched(labels)
    table, files = st.tabs(["From a CSV table", "From the structure files"])
    with table:
        _csv_form(dataset)
    with files:
        _number_form(dataset, numbers)


def _unmatched(labels: Mapping[str, Any]) -> None:
    for text in labels.get("problems", []):
        st.warning(words.escaped(text), icon=":material/warning:")
    left, right = st.columns(2)
    sides = (
        (left, "unmatched_labels", "Rows of the table without a structure"),
        (right, "unmatched_structures", "Structures without a row in the table"),
    )
    for column, key, title in sides:
        names, total = labels.get(key), labels.get(f"n_{key}", 0)
        if not names:
            continue
        with column:
            st.markdown(f"**{title}** ({total:,})")
            gaps = labels.get("unmatched_gaps_eV") if key == "unmatched_labels" else None
            shown = pd.DataFrame({"id" if gaps is None else "name in the table": names})
            if gaps is not None:
                shown[Quantity.GAP.axis] = np.round(gaps, 3)
            tables.show(shown, alt=title, rows=5)
            if total > len(names):
                st.caption(f"The first {len(names):,} are shown.")


def _csv_form(dataset: Dataset) -> None:
    with st.form(f"labels-{session.form_key('labels')}", border=False):
        file = st.file_uploader(
            "Table of gaps (CSV)",
            type=["csv", "tsv", "txt"],
            help="One column headed id or file, and one gap column whose header states its unit, "
            "such as gap_eV. A column level_of_theory may state the level row by row.",
        )
        left, right = st.columns(2)
        unit = left.selectbox("Unit of the gap column", list(_STATED))
        level = right.text_input("Level of theory", placeholder=_LEVEL_SHOWN, help=_LEVEL_HELP)
        keep = _keep_box(dataset)
        if not st.form_submit_button(
            "Match the gaps", type="secondary" if dataset.labels else "primary"
        ):
            return
        try:
            if file is None:
                raise InputError(
                    "No table was chosen. Choose a CSV file with a column id or file and a gap "
                    "column."
                )
            read = read_labels(
                file.getvalue(), unit=_STATED[unit], name=file.name, level_of_theory=level
            )
            verdicts = stores.library().verdicts(dataset.id)
            ids, files = [v.id for v in verdicts], [v.file for v in verdicts]
            found = match_labels(ids, files, read)
            others = other_gaps(file.getvalue(), gap_column=read.column, name=file.name)
            beside = {name: match_labels(ids, files, other) for name, other in others.items()}
        except BandgapError as error:
            frame.problem(error)
            return
        kept = found.unmatched_labels[:_KEPT]
        for name, other in beside.items():
            stores.library().save_numbers(dataset.id, name, other.gaps)
        facts = {
            "source": file.name,
            "beside": {name: other.n_matched for name, other in beside.items()},
            "problems": [*read.problems, *found.problems],
            "n_unmatched_labels": len(found.unmatched_labels),
            "unmatched_labels": list(kept),
            "unmatched_gaps_eV": _gaps_of(kept, read.ids or read.files, read.gaps_eV),
            "n_unmatched_structures": len(found.unmatched_structures),
            "unmatched_structures": list(found.unmatched_structures[:_KEPT]),
        }
        uploads.release(file)
        _store(dataset, verdicts, found.gaps, level=read.level_of_theory, facts=facts, keep=keep)


def _number_form(dataset: Dataset, numbers: Mapping[str, int]) -> None:
    if not numbers:
        st.caption(
            "These files hold no numbers beside the structures. extXYZ files may, in their second "
            "line."
        )
        return
    with st.form(f"key-{session.form_key('labels')}", border=False):
        left, middle, right = st.columns(3)
        key = left.selectbox(
            "Number",
            list(numbers),
            format_func=lambda k: f"{k} (in {words.count(numbers[k], 'structure')})",
        )
        unit = middle.selectbox("Its unit", _UNITS, index=None, placeholder="as its name states")
        level = right.text_input("Level of theory", placeholder=_LEVEL_SHOWN, help=_LEVEL_HELP)
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
        facts = {"source": f"{key} in the files", "problems": []}
        _store(dataset, verdicts, gaps, level=level.strip(), facts=facts, keep=keep)


def _keep_box(dataset: Dataset) -> bool:
    """Ask, where there are gaps already, whether those without a new one stay."""
    return bool(dataset.labels) and st.checkbox(
        "Keep the present gaps of structures that get no new one",
        help="Without it, the new gaps replace all present ones.",
    )


def _gaps_of(
    names: tuple[str, ...], of: tuple[str, ...], gaps_eV: NDArray[np.float64]
) -> list[float] | None:
    by_name = dict(zip(of, gaps_eV.tolist(), strict=True))
    return [by_name[name] for name in names] if all(name in by_name for name in names) else None


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
    facts["beside"] = {
        **dataset.labels.get("beside", {}),
        **facts.get("beside", {}),
    }  # the store still has them
    stores.library().save_gaps(dataset.id, gaps, labels=facts, level_of_theory=level)
    session.renew("labels")
    session.tell(
        f"{words.count(matched, 'structure')} of {len(gaps):,} got a gap; {facts['matched']:,} "
        "have one now."
    )
    st.rerun()
