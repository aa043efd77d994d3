"""The checkboxes of the form that starts transfers: every method by its family, and why one cannot be chosen."""

from collections.abc import Mapping

import streamlit as st

from app.components.shared import words
from bandgap.jobs.entries import MethodEntry
from bandgap.sources.proposed import Proposal

LAST = "without transfer"  # the family that is only there to compare with
PARTS = {
    "fisher": "Fisher information",
    "variational": "a variational posterior of its weights",
    "snapshots": "snapshots of its training",
}


def choose_methods(
    methods: Mapping[str, MethodEntry], *, parts: frozenset[str] | None, proposal: Proposal
) -> list[str]:
    """Draw a checkbox for every method and return those that are chosen; `parts` is what the source model carries.

    The proposed method is chosen to begin with, else the first that can be; the family of the proposal's alternative is
    open too. One that needs a source model where there is none (`parts` is
    None), or a part that the source lacks, says so and cannot be.
    """
    families: dict[str, list[str]] = {}
    for name, method in sorted(methods.items(), key=lambda item: item[1].family == LAST):
        families.setdefault(method.family, []).append(name)
    missing = {name: _lacking(method, parts) for name, method in methods.items()}
    can_be_proposed = proposal.method in methods and not missing[proposal.method]
    default = proposal.method if can_be_proposed else _first(missing)
    chosen: list[str] = []
    st.markdown("Methods", help=_HELP)
    if can_be_proposed:
        st.caption(proposal_sentence(proposal, methods))
    for family, names in families.items():
        title = (
            f"{words.sentence(family)} ({len(names)})"
            if family
            else words.count(len(names), "method")
        )
        with st.expander(title, expanded=default in names or proposal.alternative in names):
            for name in names:
                key = f"method-{name}" + ("" if parts is not None else "-alone")
                if _checkbox(key, methods[name], lacking=missing[name], chosen=name == default):
                    chosen.append(name)
    return chosen


def proposal_sentence(proposal: Proposal, methods: Mapping[str, MethodEntry]) -> str:
    """Say what is proposed, why, and what was measured."""
    with_levels = (
        "" if proposal.levels == "none" else f", with {proposal.levels} levels (More settings)"
    )
    title = words.escaped(methods[proposal.method].title)
    return f"Proposed method: **{title}**{with_levels}. {proposal.sentence}"


def _first(missing: Mapping[str, str]) -> str:
    """Return the first method that can be, as where the catalogue is an earlier version's."""
    return next((name for name, lacking in missing.items() if not lacking), next(iter(missing)))


def _lacking(method: MethodEntry, parts: frozenset[str] | None) -> str:
    """Return what a method needs and does not have, as a sentence, or an empty text."""
    need = method.needs
    if parts is None:
        return "" if method.family == LAST else " Needs a source model."
    return (
        f" Needs a source model with {PARTS.get(need, need)}, which this one lacks."
        if need and need not in parts
        else ""
    )


def _checkbox(key: str, method: MethodEntry, *, lacking: str, chosen: bool) -> bool:
    ticked = st.checkbox(
        method.title, value=chosen and not lacking, key=key, disabled=bool(lacking)
    )
    st.caption(f"{method.summary} Takes {method.duration}.{lacking}")
    return ticked and not lacking


_HELP = (
    "Several methods make several runs with the same split, so that they can be compared. The "
    "first kind learns how far every layer may move and gives intervals from that; the last kind "
    "does without the source model."
)
