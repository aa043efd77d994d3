"""The methods on the page Train: three cards, and all others by family and what they lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.shared import words
from app.components.shared.guide_links import help_link
from bandgap.jobs.entries import MethodEntry
from bandgap.sources.method_cards import ROLE_TEXTS, MethodCard, comparison_problem
from bandgap.sources.proposed import Proposal

NO_TRANSFER = "without transfer"  # the family without a source model; it is listed last
PARTS = {
    "fisher": "Fisher information",
    "variational": "a variational posterior of its weights",
    "snapshots": "snapshots of its training",
}


@dataclass(frozen=True)
class OwnError:
    """What a finished run measured on the data of the form, and from how many labels it learned."""

    n: int
    sentence: str


@dataclass(frozen=True)
class Choice:
    """The selected methods, and a place on the card of each shown method for its time."""

    methods: list[str]
    time_places: Mapping[str, DeltaGenerator]


def choose_methods(
    methods: Mapping[str, MethodEntry],
    *,
    parts: frozenset[str] | None,
    proposal: Proposal,
    cards: Sequence[MethodCard],
    errors_here: Mapping[str, OwnError],
    more: DeltaGenerator,
) -> Choice:
    """Draw three cards and, in another place, a checkbox for every other method.

    The proposed method is selected initially, or else the first available one.

    Parameters
    ----------
    methods
        Methods by name.
    parts
        Parts that the source model has besides its weights; None without a source model. A method
        that lacks a source model or a part is disabled, and its caption says why.
    proposal
        The proposed method.
    cards
        The cards; those of methods that are not registered are left out.
    errors_here
        What finished runs measured on the same data, by method.
    more
        Place of the expander with all other methods.
    """
    missing = {name: _lacking(method, parts) for name, method in methods.items()}
    can_be_proposed = proposal.method in methods and not missing[proposal.method]
    default = proposal.method if can_be_proposed else _first(missing)
    suffix = "" if parts is not None else "-alone"
    visible_cards = [card for card in cards if card.method in methods and not missing[card.method]]
    picked: list[str] = []
    places: dict[str, DeltaGenerator] = {}
    st.markdown("Methods", help=_HELP + help_link("explanation/methods/index", "Methods"))
    if visible_cards:
        for place, card in zip(st.columns(len(visible_cards)), visible_cards, strict=True):
            name = card.method
            with place.container(border=True, height="stretch"):
                if _card(
                    card, methods[name], key=f"method-{name}{suffix}", initial=name == default
                ):
                    picked.append(name)
                own_error = errors_here[name].sentence if name in errors_here else ""
                st.markdown(f"{card.sentence or _NOT_MEASURED} {own_error}")
                places[name] = st.empty()
                places[name].caption("Time: not estimated yet.")  # keeps the place of the line
    own_errors = [errors_here[card.method] for card in visible_cards if card.method in errors_here]
    problems = [comparison_problem(visible_cards)]
    if len({error.n for error in own_errors}) > 1:
        problems.append("Your runs learned from different numbers of labels.")
    if text := " ".join(filter(None, problems)):
        st.caption(text)
    if can_be_proposed:
        st.caption(proposal_sentence(proposal, methods))
    on_cards = {card.method for card in visible_cards}
    remaining = {name: method for name, method in methods.items() if name not in on_cards}
    if remaining:
        with more.expander(f"All methods ({len(methods)})", expanded=default in remaining):
            picked += _other_methods(
                remaining,
                missing=missing,
                default=default,
                suffix=suffix,
                proposal=proposal,
                errors_here=errors_here,
            )
    return Choice([name for name in methods if name in picked], places)


def _card(card: MethodCard, method: MethodEntry, *, key: str, initial: bool) -> bool:
    """Draw role, checkbox and summary of a card, and return whether it is ticked."""
    st.markdown(f"**{card.role}**", help=ROLE_TEXTS[card.role])
    ticked = st.checkbox(method.title, value=initial, key=key)
    st.caption(method.summary)
    return ticked


def _other_methods(
    methods: Mapping[str, MethodEntry],
    *,
    missing: Mapping[str, str],
    default: str,
    suffix: str,
    proposal: Proposal,
    errors_here: Mapping[str, OwnError],
) -> list[str]:
    """Draw the checkboxes by heading, those of research last, and return the ticked ones."""
    headings: dict[str, list[str]] = {}
    for name, method in sorted(methods.items(), key=lambda item: _place_in_list(item[1])):
        headings.setdefault(method.heading, []).append(name)
    picked = []
    for heading, names in headings.items():
        if heading:
            st.markdown(f"**{heading}**")
        for name in names:
            if _checkbox(
                f"method-{name}{suffix}",
                methods[name],
                lacking=missing[name],
                initial=name == default,
                shows_layers=name == proposal.alternative,
                error=errors_here[name].sentence if name in errors_here else "",
            ):
                picked.append(name)
    return picked


def _place_in_list(method: MethodEntry) -> tuple[bool, bool]:
    """Return the order of headings: research methods last, before them those without transfer."""
    return method.standing == "research", method.family == NO_TRANSFER


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


def _checkbox(
    key: str,
    method: MethodEntry,
    *,
    lacking: str,
    initial: bool,
    shows_layers: bool,
    error: str,
) -> bool:
    badge = ":blue-badge[shows which layers moved] " if shows_layers else ""
    ticked = st.checkbox(
        method.title, value=initial and not lacking, key=key, disabled=bool(lacking)
    )
    st.caption(f"{badge}{method.summary} Takes {method.duration}.{lacking} {error}".strip())
    return ticked and not lacking


_HELP = (
    "Several methods make several runs with the same split, so that they can be compared. Research "
    "methods were not better than the recommended ones where that was measured, or are slower. An "
    "error over several splits is the range of the recorded ones, or their mean plus and minus "
    "their standard deviation."
)
_NOT_MEASURED = "Not measured on crystals like these yet."
