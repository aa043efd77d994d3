"""The periodic table of a data set, which filters the table of structures on the page Data."""

import streamlit as st

from app import session
from app.components.shared import stores, words
from app.components.shared.periodic_table import ElementCell, periodic_table
from bandgap.jobs.listing import ElementFigures, element_figures
from bandgap.jobs.rows import Dataset


def choose_elements(dataset: Dataset, *, stamp: str) -> tuple[str, ...]:
    """Draw the periodic table and return the elements that structures must contain.

    `stamp` changes with the data.
    """
    selected = periodic_table(
        cells_of(_figures(dataset.id, stamp)),
        selected=session.filter_elements(dataset.id),
        key=f"periodic-{dataset.id}",
        label="Elements of the structures: choose some to see only structures with all of them",
    )
    session.set_filter_elements(dataset.id, selected)
    return selected


def cells_of(figures: dict[str, ElementFigures]) -> dict[str, ElementCell]:
    """Return the cells of elements, coloured by the number of structures."""
    cells = {}
    for symbol, element in figures.items():
        title = f"{symbol}: {words.count(element.count, 'structure')}"
        if element.mean_gap_eV is not None:
            title += f", mean gap {element.mean_gap_eV:.2f} eV"
        cells[symbol] = ElementCell(element.count, title)
    return cells


@st.cache_data(max_entries=8, show_spinner=False)
def _figures(dataset: str, stamp: str) -> dict[str, ElementFigures]:
    """Return the figures of the elements of a data set; `stamp` is a key of the cache."""
    return element_figures(stores.library(), dataset)
