"""The form that gives structures their gaps: from a CSV table, or from a number that stands in the structure files."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import session
import streamlit as st

from bandgap.datasets.labels import EV_PER_HARTREE, match_labels, read_labels
from bandgap.errors import BandgapError, InputError
from bandgap.jobs.rows import Dataset, Verdict
from components import stores, words

_FROM_HEADER = "stated in the header"
_UNITS = {"eV": 1.0, "Hartree": EV_PER_HARTREE}
_KEPT = 1_000  # names of unmatched rows that are kept to show


def label_expander(dataset: Dataset, verdicts: Sequence[Verdict]) -> None:
    """Show where the gaps come from and what did not match, and offer to give others."""
    labels = dataset.labels
    known = f"{words.count(labels['matched'], 'gap')} from {labels['source']}" if labels else "none yet"
    level = f", {dataset.level_of_theory}" if dataset.level_of_theory else ""
    with st.expander(f"Known gaps: {known}{level}", expanded=not labels):
        _unmatched(labels)
        table, keys = st.tabs(["From a CSV table", "From the structure files"])
        with table:
            _csv_form(dataset, verdicts)
        with keys:
            _key_form(dataset, verdicts)


def _unmatched(labels: Any) -> None:
    for text in labels.get("problems", []):
        st.warning(text)
    titles = {
        "unmatched_labels": "Rows of the table without a structure",
        "unmatched_structures": "Structures without a row in the table",
    }
    left_over = [key for key in titles if labels.get(key)]
    if not left_over:
        return
    for column, key in zip(st.columns(len(left_over)), left_over, strict=True):
        names, total, title = labels[key], labels[f"n_{key}"], titles[key]
        column.dataframe({f"{title} ({total:,})": names}, hide_index=True, height="content" if len(names) < 6 else 180)


def _csv_form(dataset: Dataset, verdicts: Sequence[Verdict]) -> None:
    with st.form(f"labels-{session.form_key('labels')}", border=False):
        file = st.file_uploader(
            "Table of gaps (CSV)",
            type=["csv", "tsv", "txt"],
            help="One column headed id or file, and one gap column whose header states its unit, such as gap_eV.",
        )
        left, right = st.columns(2)
        unit = left.selectbox("Unit of the gap column", [_FROM_HEADER, *_UNITS])
        level = right.text_input("Level of theory", placeholder="PBE, HSE06, GW, ...", help=_LEVEL_HELP)
        if st.form_submit_button("Match the gaps"):
            try:
                if file is None:
                    raise InputError(
                        "No table was chosen. Choose a CSV file with a column id or file and a gap column."
                    )
                read = read_labels(
                    file.getvalue(), unit=None if unit == _FROM_HEADER else unit, name=file.name, level_of_theory=level
                )
                found = match_labels([v.id for v in verdicts], [v.file for v in verdicts], read)
            except BandgapError as error:
                st.error(str(error))
                return
            _store(
                dataset,
                found.gaps,
                level=read.level_of_theory,
                labels={
                    "source": file.name,
                    "matched": found.n_matched,
                    "problems": [*read.problems, *found.problems],
                    "n_unmatched_labels": len(found.unmatched_labels),
                    "unmatched_labels": list(found.unmatched_labels[:_KEPT]),
                    "n_unmatched_structures": len(found.unmatched_structures),
                    "unmatched_structures": list(found.unmatched_structures[:_KEPT]),
                },
            )


def _key_form(dataset: Dataset, verdicts: Sequence[Verdict]) -> None:
    keys = Counter(key for v in verdicts for key in v.info)
    if not keys:
        st.caption("These files hold no numbers beside the structures. extXYZ files may, in their second line.")
        return
    with st.form(f"key-{session.form_key('labels')}", border=False):
        left, middle, right = st.columns(3)
        key = left.selectbox(
            "Number", list(keys), format_func=lambda k: f"{k} (in {words.count(keys[k], 'structure')})"
        )
        unit = middle.selectbox("Its unit", list(_UNITS))
        level = right.text_input("Level of theory", placeholder="PBE, HSE06, GW, ...", help=_LEVEL_HELP)
        if st.form_submit_button("Use as gaps"):
            gaps = np.array([v.info.get(key, np.nan) for v in verdicts], dtype=np.float64) * _UNITS[unit]
            _store(
                dataset,
                gaps,
                level=level.strip(),
                labels={"source": f"{key} in the files", "matched": int(np.isfinite(gaps).sum())},
            )


def _store(dataset: Dataset, gaps: np.ndarray, *, level: str, labels: dict[str, Any]) -> None:
    stores.library().save_gaps(dataset.id, gaps, labels=labels, level_of_theory=level)
    session.renew("labels")
    session.tell(f"{words.count(labels['matched'], 'structure')} of {len(gaps):,} now have a gap.", tone="info")
    st.rerun()


_LEVEL_HELP = "How the gaps were computed. It travels with the run and its predictions; mixing levels gives a warning."
