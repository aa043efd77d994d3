"""The checkboxes of the methods on the page Train, by family, with what a method lacks."""

from collections.abc import Mapping

import streamlit as st

from app.components.shared import words
from app.components.shared.guide_links import help_link
from bandgap.jobs.entries import MethodEntry
from bandgap.sources.proposed import Proposal

NO_TRANSFER = "without transfer"  # the family without a source model; it is listed last
PARTS = {
    "fisher": "Fisher information",
    "variational": "a variational posterior of its weights",
    "snapshots": "snapshots of its training",
}


def choose_methods(
    methods: Mapping[str, MethodEntry], *, parts: frozenset[str] | None, proposal: Proposal
) -> list[str]:
    """Draw a checkbox for every method and return the selected methods.

    The proposed method is selected initially, or else the first available one. The families of the
    proposed method and of its alternative are expanded.

    Parameters
    ----------
    methods
        Methods by name.
    parts
        Parts that the source model has besides its weights; None without a source model. A method
        that lacks a source model or a part is disabled, and its caption says why.
    proposal
        The proposed method.
    """
    families: dict[str, list[str]] = {}
    for name, method in sorted(methods.items(), key=lambda item: item[1].family == NO_TRANSFER):
        families.setdefault(method.family, []).append(name)
    missing = {name: _lacking(method, parts) for name, method in methods.items()}
    can_be_proposed = proposal.method in methods and not missing[proposal.method]
    default = proposal.method if can_be_proposed else _first(missing)
    picked: list[str] = []
    st.markdown("Methods", help=_HELP + help_link("explanation/methods/index", "Methods"))
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
                if _checkbox(key, methods[name], lacking=missing[name], initial=name == default):
                    picked.append(name)
    return picked


def proposal_sentence(proposal: Proposal, methods: Mapping[str, MethodEntry]) -> str:
    """Return the proposed method and the reason."""
    with_levels = (
        "" if proposal.levels == "none" else f", with {proposal.levels} levels (More settings)"
    )
    title = words.escaped(methods[proposal.method].title)
    return f"Proposed method: **{title}**{with_levels}. {proposal.sentence}"


def _first(missing: Mapping[str, str]) -> str:
    """Return the first available method, else the first one."""
    return next((name for name, lacking in missing.items() if not lacking), next(iter(missing)))


def _lacking(method: MethodEntry, parts: frozenset[str] | None) -> str:
    """Return a sentence on what a method needs and the source model lacks, or an empty text."""
    need = method.needs
    if parts is None:
        return "" if method.family == NO_TRANSFER else " Needs a source model."
    return (
        f" Needs a source model with {PARTS.get(need, need)}, which this one lacks."
        if need and need not in parts
        else ""
    )


def _checkbox(key: str, method: MethodEntry, *, lacking: str, initial: bool) -> bool:
    ticked = st.checkbox(
        method.title, value=initial and not lacking, key=key, disabled=bool(lacking)
    )
    st.caption(f"{method.summary} Takes {method.duration}.{lacking}")
    return ticked and not lacking


_HELP = (
    "Several methods make several runs with the same split, so that they can be compared. The "
    "first kind learns how far every layer may move and gives intervals from that; the last kind "
    "does without the source model."
)
