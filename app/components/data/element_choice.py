"""The periodic table of a data set, which filters the tables and figures of the page Data."""

from typing import Literal, get_args

import streamlit as st

from app import session
from app.components.shared import stores, words
from app.components.shared.periodic_table import ElementCell, periodic_table
from bandgap.jobs.listing import ElementFigures, element_figures
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source

Colour = Literal["number of structures", "mean known gap"]


def choose_elements(dataset: Dataset, *, stamp: str) -> tuple[str, ...]:
    """Draw the periodic table in an expander and return the elements that structures must contain.

    `stamp` changes with the data.
    """
    before = session.filter_elements(dataset.id)
    name = " and ".join(before) if before else "all elements"
    with st.expander(
        f"Periodic table: {name}", on_change="rerun", key=f"elements-{dataset.id}"
    ) as expander:
        if not expander.open:
            return before
        figures = _figures(dataset.id, stamp)
        selected = _table(dataset, figures, before)
    if selected != before:
        session.set_filter_elements(dataset.id, selected)
        st.rerun()
    return selected


def _table(
    dataset: Dataset, figures: dict[str, ElementFigures], before: tuple[str, ...]
) -> tuple[str, ...]:
    has_gaps = any(element.mean_gap_eV is not None for element in figures.values())
    sources = stores.sources()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        colours: tuple[Colour, ...] = get_args(Colour) if has_gaps else get_args(Colour)[:1]
        colour = st.segmented_control(
            "Colour", colours, default=colours[0], required=True, key=f"colour-{dataset.id}"
        )
        source = None
        if sources:
            source = sources[
                st.selectbox(
                    "Mark elements that this source model has not seen",
                    list(sources),
                    format_func=lambda i: sources[i].title,
                    key=f"seen-by-{dataset.id}",
                    width=330,
                )
            ]
        if before and st.button("All elements", icon=":material/close:"):
            session.set_filter_elements(dataset.id, ())
            session.renew(f"elements-{dataset.id}")
            st.rerun()
    by_gap = colour == "mean known gap"
    unseen = unseen_elements(figures, source)
    selected = periodic_table(
        cells_of(figures, by_gap=by_gap),
        selected=before,
        key=f"periodic-{session.form_key(f'elements-{dataset.id}')}",
        label="Elements of the structures",
        logarithmic=not by_gap,
        unseen=unseen,
    )
    rare = sum(element.count < 3 for element in figures.values())
    text = f"{words.count(len(figures), 'element')}; {rare} in fewer than 3 structures."
    if source is not None:
        text += (
            f" Dashed: {words.escaped(source.title)} has never seen {', '.join(unseen)}."
            if unseen
            else f" {words.escaped(source.title)} knows all of them."
        )
    st.caption(f"{text} Click elements to see only structures that contain all of them.")
    return selected


def cells_of(figures: dict[str, ElementFigures], *, by_gap: bool) -> dict[str, ElementCell]:
    """Return the cells of elements, by number of structures or by mean gap."""
    cells = {}
    for symbol, element in figures.items():
        gap = element.mean_gap_eV
        title = f"{symbol}: {words.count(element.count, 'structure')}"
        if gap is not None:
            title += f", mean gap {gap:.2f} eV"
        if not by_gap:
            cells[symbol] = ElementCell(float(element.count), f"{element.count:,}", title)
        elif gap is not None:
            cells[symbol] = ElementCell(gap, f"{gap:.1f}", title)
    return cells


def unseen_elements(figures: dict[str, ElementFigures], source: Source | None) -> list[str]:
    """Return the elements that the descriptor of a source model lacks; none if it names none."""
    if source is None:
        return []
    species = (source.manifest.get("descriptor") or {}).get("species") or ()
    return [symbol for symbol in figures if symbol not in species] if species else []


@st.cache_data(max_entries=8, show_spinner=False)
def _figures(dataset: str, stamp: str) -> dict[str, ElementFigures]:
    """Return the figures of the elements of a data set; `stamp` is a key of the cache."""
    return element_figures(stores.library(), dataset)
