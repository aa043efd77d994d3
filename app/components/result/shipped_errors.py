"""The errors of a shipped model, which learned from all of its crystals and has no test set."""

import pandas as pd
import streamlit as st

from app.components.shared import tables
from app.components.shared.run_files import read_run
from bandgap.datasets.shipped_models import about_model
from bandgap.jobs.rows import RunRow

COLUMNS = {
    "n": tables.column("gaps"),
    "rmse_eV": tables.column("RMSE (eV)", format="%.2f"),
    "mae_eV": tables.column("MAE (eV)", format="%.2f"),
    "coverage_95": tables.column("share in the 95 % interval", format="%.2f"),
    "auc_metal": tables.column("ROC area of metals", format="%.3f"),
}


def shipped_errors(run: RunRow) -> bool:
    """Show the errors of a shipped model by chemistry; return whether the run is one."""
    errors = about_model(read_run(run.id).manifest).get("errors")
    if not errors:
        return False
    st.caption("Errors in eV on crystals of other formulas. The model then learned from all.")
    st.dataframe(pd.DataFrame(errors), hide_index=True, column_config=COLUMNS)
    return True
