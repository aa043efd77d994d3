"""Rename and delete data sets, and the room that each takes; what a deletion loses is said before."""

import pandas as pd
import session
import streamlit as st

from bandgap.jobs.disk import QUOTA_VARIABLE, quota_bytes, room
from bandgap.jobs.housekeeping import Losses, delete_dataset, losses, rename_dataset
from bandgap.jobs.rows import Dataset
from components.shared import stores, tables, words
from components.shared.actions import carry_out


def care_expander(dataset: Dataset, datasets: list[Dataset]) -> None:
    """Offer to rename or delete the chosen data set, beside the room of all; nothing is read while it is closed."""
    with st.expander("Rename, delete, disk use", on_change="rerun", key=f"care-{dataset.id}") as folded:
        if not folded.open:
            return
        left, right = st.columns(2, gap="large")
        with left:
            _rename(dataset)
            _delete(dataset)
        with right:
            _space(datasets)


def losses_sentence(found: Losses) -> str:
    """Say what goes with a data set and what stays."""
    stay = (
        f"{words.count(len(found.runs), 'run')} that learned from it, with all predictions, will stay"
        if found.runs
        else "No run learned from it"
    )
    return (
        f"Deleting removes {words.count(found.structures, 'structure')} with {words.count(found.gaps, 'gap')} and "
        f"{words.count(found.files, 'uploaded file')} ({words.size(found.n_bytes)}). {stay}. This cannot be undone."
    )


def _rename(dataset: Dataset) -> None:
    with st.form(f"rename-{dataset.id}", border=False):
        name = st.text_input("Name", value=dataset.name, max_chars=120)
        if st.form_submit_button("Rename"):
            carry_out(
                lambda: rename_dataset(stores.library(), session.workspace(), dataset.id, name),
                f"The data set is now called {name}.",
            )


def _delete(dataset: Dataset) -> None:
    st.write(losses_sentence(losses(stores.library(), session.workspace(), dataset.id)))
    sure = st.checkbox("Yes, delete this data set", key=f"sure-{dataset.id}")
    if st.button("Delete the data set", disabled=not sure, icon=":material/delete:"):
        carry_out(
            lambda: delete_dataset(stores.library(), session.workspace(), dataset.id),
            f"{dataset.name} is deleted.",
            forget="data",
        )


def _space(datasets: list[Dataset]) -> None:
    taken, quota = room(stores.library(), session.workspace()), quota_bytes()
    sizes = taken.datasets
    of = f" of at most {words.size(quota)}" if quota else ""
    runs = f", {words.size(taken.runs)} of it in runs" if taken.runs else ""
    st.write(f"This workspace takes **{words.size(taken.taken)}**{of}{runs}.")
    st.caption(f"Who runs this server sets the limit ({QUOTA_VARIABLE}); at the limit nothing more can be stored.")
    others = taken.uploads - sum(sizes[d.id] for d in datasets)
    names = [d.name for d in datasets] + (["structures uploaded for predictions"] if others else [])
    room_of = [words.size(sizes[d.id]) for d in datasets] + ([words.size(others)] if others else [])
    tables.show(pd.DataFrame({"data set": names, "room": room_of}), alt="Room of every data set", rows=100)
