"""The bin of the workspace: what was deleted, with a button that restores it."""

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out, restore_deleted
from bandgap.jobs.deletions import KEPT_DAYS, deletions, empty_bin

SHOWN = 20


def bin_expander() -> None:
    """Draw the folded bin; nothing where it is empty."""
    deleted_items = deletions(stores.library(), session.workspace())
    if not deleted_items:
        return
    with st.expander(f"Bin ({words.count(len(deleted_items), 'deleted object')})"):
        st.caption(
            f"What is deleted can be restored for {KEPT_DAYS} days. Until then it counts in the "
            "disk use of the workspace."
        )
        for deletion in deleted_items[:SHOWN]:
            with frame.row():
                st.button(
                    "Restore",
                    key=f"restore-{deletion.kind}-{deletion.id}",
                    on_click=frame.change,
                    args=(restore_deleted, deletion.kind, deletion.id),
                )
                st.markdown(
                    f"{words.sentence(deletion.kind)} **{words.escaped(deletion.name)}**, deleted "
                    f"{words.moment(deletion.time)}"
                )
        if len(deleted_items) > SHOWN:
            st.caption(f"The last {SHOWN} of {len(deleted_items):,} are shown.")
        ticked = st.checkbox("I need none of this any more", key="sure-bin")
        if st.button("Empty the bin", disabled=not ticked):
            carry_out(
                lambda: empty_bin(stores.jobs(), stores.library(), session.workspace()),
                "The bin is empty.",
            )
