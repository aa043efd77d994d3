"""The periodic table of a data set, which filters the table of structures on the page Data."""

import streamlit as st

from app.components.shared import stores, words
from app.components.shared.periodic_table import ElementCell, periodic_table
from bandgap.jobs.listing import ElementFigures, element_figures
from bandgap.jobs.rows import Dataset


def choose_elements(dataset: Dataset, *, stamp: str) -> tuple[str, ...]:
    """Draw the periodic table and return the elements that structures must contain.

    `stamp` changes with the data.
    """
    remembered = f"elements_of_{dataset.id}"  # a component that is not drawn loses its state
    cells = {}
    for symbol, element in _figures(dataset.id, stamp).items():
        title = f"{symbol}: {words.count(element.count, 'structure')}"
        if element.mean_gap_eV is not None:
            title += f", mean gap {element.mean_gap_eV:.2f} eV"
        cells[symbol] = ElementCell(element.count, title)
    selected = periodic_table(
        cells,
        selected=st.session_state.get(remembered, ()),
        key=f"periodic-{dataset.id}",
        label="Elements of the structures: choose some to see only structures with all of them",
    )
    st.session_state[remembered] = selected
    return selected


@st.cache_data(max_entries=8, show_spinner=False)
def _figures(dataset: str, stamp: str) -> dict[str, ElementFigures]:
    """Return the figures of the elements of a data set; `stamp` is a key of the cache."""
    return element_figures(stores.library(), dataset)
