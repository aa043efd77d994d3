"""The methods on the page Train: three cards, and a box with all others."""

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.shared import words
from app.components.shared.guide_links import help_link
from bandgap.jobs.entries import MethodEntry
from bandgap.sources.method_cards import ROLE_TEXTS, MethodCard, basis_sentence
from bandgap.sources.proposed import Proposal

NO_TRANSFER = "without transfer"  # the family without a source model


def choose_methods(
    methods: Mapping[str, MethodEntry],
    *,
    parts: frozenset[str] | None,
    proposal: Proposal,
    cards: Sequence[MethodCard],
    more: DeltaGenerator,
    is_demo: bool,
) -> tuple[list[str], Mapping[str, DeltaGenerator]]:
    """Draw three cards and, in another place, a box with every other method.

    Returns the chosen methods, and a place on the card of each shown method for its error and time.
    The proposed method is chosen initially, or else the first available one; of a demo also the
    baseline, to compare it with.

    Parameters
    ----------
    methods
        Methods by name.
    parts
        Parts that the source model has besides its weights; None without a source model. Methods
        that lack a source model or a part are not offered.
    proposal
        The proposed method.
    cards
        The cards; those of methods that are not available are left out.
    more
        Place of the expander with all other methods.
    is_demo
        Whether the target data are those of a demo.
    """
    available = {
        name: method
        for name, method in methods.items()
        if (method.family == NO_TRANSFER if parts is None else method.need_in(parts))
    }
    default = proposal.method if proposal.method in available else next(iter(available), "")
    suffix = ("" if parts is not None else "-alone") + ("-demo" if is_demo else "")
    visible_cards = [card for card in cards if card.method in available]
    picked: list[str] = []
    places: dict[str, DeltaGenerator] = {}
    for place, card in zip(st.columns(max(len(visible_cards), 1)), visible_cards, strict=False):
        name = card.method
        reasons = f" {proposal.sentence}" if name == proposal.method else ""
        with place.container(border=True, height="stretch"):
            st.markdown(
                f"**{card.role}**",
                help=ROLE_TEXTS[card.role]
                + reasons
                + help_link("explanation/methods/index", "Methods"),
            )
            is_chosen = name == default or (is_demo and card.role == "Baseline")
            if st.checkbox(available[name].title, value=is_chosen, key=f"method-{name}{suffix}"):
                picked.append(name)
            st.caption(available[name].summary)
            places[name] = st.caption("\u00a0")  # keeps the place of the line that replaces it
    if text := basis_sentence(visible_cards):
        st.caption(text)
    other_methods = {name: method for name, method in available.items() if name not in places}
    with more.expander(f"More methods ({len(other_methods)})", expanded=default in other_methods):
        further = st.multiselect(
            "Further methods",
            sorted(other_methods, key=lambda name: other_methods[name].is_research),
            default=[default] if default in other_methods else [],
            format_func=lambda name: other_methods[name].label,
            key=f"methods{suffix}",
            help=_HELP,
        )
        for name in further:
            method = other_methods[name]
            st.caption(f"**{words.escaped(method.title)}**: {method.summary}")
    return [name for name in methods if name in (*picked, *further)], places


_HELP = (
    "Several methods make several runs with the same split, the quickest first, so that they can "
    "be compared. Research methods were not better than the recommended ones where that was "
    "measured, or are slower."
)
