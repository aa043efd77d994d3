"""Parts of the page Compare below its table: differences and settings."""

import math
from collections.abc import Sequence

import streamlit as st

from app.components.shared import downloads, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from bandgap import plots
from bandgap.evaluation.run_tables import (
    Differences,
    StoredRun,
    difference_table,
    differences,
    differing_settings,
)

MOST_SHOWN = 8  # runs in the figure, the best first


@st.cache_data(max_entries=64, show_spinner=False)
def cached_differences(
    key: tuple[str, ...], _runs: Sequence[StoredRun], _baseline: StoredRun
) -> Differences:
    """Return the paired differences; `key`, of ids and labels, is that of the cache."""
    return differences(_runs, _baseline)


def difference_view(pairs: Differences, *, baseline: str) -> None:
    """Draw how each run differs from the baseline; say why where that cannot be measured."""
    for run, difference, text in pairs:
        if difference is None:
            st.caption(f"**{words.escaped(run.label)}**: {words.escaped(text)}")
    sorted_pairs = sorted(pairs, key=lambda pair: pair[1].difference_eV if pair[1] else math.inf)
    table = difference_table(sorted_pairs[:MOST_SHOWN])
    if table["difference_eV"].notna().any():
        figure(
            plots.difference_figure,
            table,
            table=table,
            key="differences",
            alt=f"Differences in RMSE to {baseline} with 95 % intervals",
            caption=_DIFFERENCE_CAPTION
            + help_link("explanation/which-source-and-method", "Check it on your data"),
        )


def settings(runs: Sequence[StoredRun]) -> None:
    """Draw the expander with the settings that differ."""
    table = differing_settings(runs)
    with st.expander(f"Settings that differ ({len(table)})"):
        if not table.empty:
            alt = "Settings in which the chosen runs differ"
            downloads.table_with_csv(table, "settings.csv", alt=alt, rows=100)
        st.caption("Settings that only one of the methods has are left out.")


_DIFFERENCE_CAPTION = (
    "Left of zero is better; a bar that crosses zero is a difference that this test set cannot "
    "show. Paired bootstrap over the crystals that both runs held out."
)
