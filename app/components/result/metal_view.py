"""Metals in the tab Errors: whether their probability is right, and the confusion."""

import streamlit as st

from app.components.shared import downloads
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from bandgap import plots
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metal_tables import confusion_table, p_metal_table
from bandgap.foundation.quantities import Quantity


def metal_view(heldout: HeldOut) -> None:
    """Draw the calibration of the probability of a metal and the confusion of both classes."""
    left_column, right_column = st.columns(2, gap="medium")
    with left_column:
        st.markdown(
            "**Is a probability of a metal the share of metals?**",
            help=Quantity.P_METAL.help + help_link("explanation/metals", "Metals"),
        )
        table = p_metal_table(heldout)
        figure(
            plots.p_metal_figure,
            table,
            table=table,
            key="p-metal",
            alt="Share of metals against the predicted probability, with the range of chance",
            caption="Groups of equal size by predicted probability; grey bars are chance.",
        )
    with right_column:
        st.markdown("**Metals and semiconductors, known and predicted**")
        downloads.table_with_csv(
            confusion_table(heldout),
            "metals.csv",
            alt="Metals and semiconductors, known and predicted",
            columns={
                "predicted_metal": st.column_config.Column("predicted metal"),
                "predicted_semiconductor": st.column_config.Column("predicted semiconductor"),
            },
        )
        st.caption("A structure with a probability of 0.5 or more counts as predicted metal.")
