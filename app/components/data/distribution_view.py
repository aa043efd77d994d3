"""Distributions of gaps, elements and sizes of a data set, as figures and tables."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.shared import downloads, words
from app.components.shared.drawing import figure
from bandgap import plots
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.listing import Overview
from bandgap.plots.structures import MOST_ELEMENTS
from bandgap.predictions.gap_distribution import ZERO_EV

GAPS_CAPTION = (
    "Known gaps. A second hump or a far tail often means two levels of theory or a wrong unit."
)
FEW_STRUCTURES = 3  # an element in fewer structures is rare
ELEMENTS_CAPTION = (
    "Structures that contain an element. An element that few structures contain is learned badly."
)
SIZES_CAPTION = (
    "Atoms in the cell or molecule. Cost grows with the size; a size far from the others may be a "
    "supercell."
)


def distribution_view(view: Overview) -> None:
    """Draw the distributions of the usable structures of a data set."""
    n = view.n_atoms.size
    if not n:
        st.info("No structure of this data set can be used; the verdicts say why.")
        return
    st.markdown(
        f"{words.count(view.crystals, 'crystal')}, {words.count(view.molecules, 'molecule')}; "
        "refused ones left out."
    )
    left_column, right_column = st.columns(2, gap="medium")
    with left_column:
        if not view.gaps_eV.size:
            st.info("No gap is known yet. Give them under Known gaps.")
        gaps = view.gaps_eV[view.gaps_eV > ZERO_EV]
        _histogram(
            plots.gap_histogram,
            gaps,
            what="Known gaps in eV",
            key="gaps",
            caption=gaps_caption(view.gaps_eV.size - gaps.size),
        )
    with right_column:
        alt = "Structures by element"
        figure(
            plots.element_counts,
            view.elements,
            n=n,
            key="elements",
            alt=alt,
            caption=elements_caption(view.elements),
        )
    left_column, right_column = st.columns(2, gap="medium")
    with left_column:
        _histogram(
            plots.size_histogram,
            view.n_atoms,
            what="Numbers of atoms",
            key="sizes",
            caption=SIZES_CAPTION,
        )
    with right_column, st.expander("The numbers as tables"):
        downloads.table_with_csv(
            summary_table(view), "quantiles.csv", alt="Quantiles of gaps and sizes"
        )
        downloads.table_with_csv(element_table(view), "elements.csv", alt=alt, rows=6)


def _histogram(
    make: Callable[..., Any], values: NDArray[Any], *, what: str, key: str, caption: str
) -> None:
    """Draw a histogram, or a sentence where all values are equal; nothing without values."""
    if values.size and np.ptp(values) == 0:
        st.markdown(f"{what}: all are {values[0]:g}.")
    elif values.size:
        figure(make, values, key=key, alt=what, caption=caption)


def gaps_caption(n_metals: int) -> str:
    """Return the caption of the histogram of gaps, which leaves out the metals."""
    if n_metals:
        return f"Known gaps above zero; {words.count(n_metals, 'metal')} left out."
    return GAPS_CAPTION


def elements_caption(counts: Mapping[str, int]) -> str:
    """Return the caption of the bars of elements: how many there are, and how many are rare."""
    n_rare = sum(count < FEW_STRUCTURES for count in counts.values())
    rare = f", {n_rare} of them in fewer than {FEW_STRUCTURES} structures" if n_rare else ""
    drawn = f"; the {MOST_ELEMENTS} most frequent are drawn" if len(counts) > MOST_ELEMENTS else ""
    return f"{words.count(len(counts), 'element')}{rare}{drawn}. {ELEMENTS_CAPTION}"


def summary_table(view: Overview) -> pd.DataFrame:
    """Return number, mean and quantiles of gaps and sizes."""
    rows = {Quantity.GAP.axis: view.gaps_eV, Quantity.N_ATOMS.axis: view.n_atoms.astype(np.float64)}
    statistics = [
        (
            name,
            values.size,
            round(float(values.mean()), 2),
            *np.quantile(values, [0, 0.05, 0.5, 0.95, 1]).round(2),
        )
        for name, values in rows.items()
        if values.size
    ]
    return pd.DataFrame(
        statistics, columns=["quantity", "n", "mean", "min", "5 %", "median", "95 %", "max"]
    )


def element_table(view: Overview) -> pd.DataFrame:
    """Return the number and share of structures that contain each element."""
    share = [f"{100 * count / max(view.n_atoms.size, 1):.0f} %" for count in view.elements.values()]
    return pd.DataFrame(
        {"element": list(view.elements), "structures": list(view.elements.values()), "share": share}
    )
