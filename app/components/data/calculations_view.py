"""Read calculations: upload of outputs, the table of their gaps, and the data set made of it."""

import uuid

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables, uploads, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.calculations import CalculationTable, add_labelled_dataset, calculation_table
from bandgap.jobs.housekeeping import delete_dataset
from bandgap.jobs.rows import Dataset

FORM = "calculations"
EXPANDER = "read-calculations"
ACCEPTED = (
    "vasprun.xml of VASP and XML files of Quantum ESPRESSO 6 or later (data-file-schema.xml), as "
    "they are, as .gz or in a .zip"
)
COLUMNS = {
    "kind": tables.column("direct or indirect"),
    "level_of_theory": tables.column("level of theory"),
    "problem": tables.column("remarks, or why there is no gap", "large"),
}


def calculations_expander(label: str) -> None:
    """Draw the expander with the form; it is empty while it is closed."""
    with st.expander(label, on_change="rerun", key=EXPANDER) as expander:
        if expander.open:
            calculations_form()


def calculations_form() -> None:
    """Draw the form that uploads outputs of calculations and queues their reading."""
    with st.form(f"{FORM}-{session.form_key(FORM)}", border=False):
        files = uploads.choose_files(
            "Outputs of calculations",
            f"{ACCEPTED}. {uploads.LIMITS}",
            form=FORM,
            link=help_link("how-to/from-calculations-to-labels", "How the gap is found"),
            several=True,
        )
        keep_unconverged = st.checkbox(
            "Keep unconverged gaps",
            help="Also use gaps of electronic loops that did not converge, with a warning.",
        )
        st.caption(f"Structure, gap and level of theory are read from {ACCEPTED}.")
        if st.form_submit_button("Read calculations") and uploads.stored_files(
            files,
            ACCEPTED,
            form=FORM,
            purpose="calculations",
            then=lambda new: stores.start(
                "read_calculations",
                f"Reading {new.name}",
                subject=new.id,
                dataset=new.id,
                keep_unconverged=keep_unconverged,
            ),
        ):
            st.rerun()


def calculations_view() -> bool:
    """Draw the newest calculations that were uploaded; return whether there are any."""
    uploaded = stores.library().datasets(session.workspace(), purpose="calculations")
    if not uploaded:
        return False
    calculations = uploaded[0]
    job = stores.latest(calculations.id)
    with st.container(border=True, key="calculations"):
        st.subheader("Calculations", anchor=False)
        if job is not None and job.state != "finished":
            job_panel(job)
            if not job.active and st.button("Read them again"):
                carry_out(lambda: uploads.check_again(job))
        else:
            try:
                _result(calculations, calculation_table(stores.home(), calculations.id))
            except BandgapError as error:
                frame.problem(error)
        if job is None or not job.active:
            _discard_button(calculations)
    return True


def _result(calculations: Dataset, table: CalculationTable) -> None:
    """Draw the table of calculations and the button that makes a data set of it."""
    st.write(table.summary)
    frame.warn([table.level_warning])
    rows = pd.DataFrame(table.columns)
    shown_columns = ["id", "formula", "gap_eV", "kind", "level_of_theory", "problem", "calculation"]
    tables.show(
        rows[shown_columns].astype({"gap_eV": "float64"}),
        alt="Gaps of the calculations",
        columns=tables.NAMES | {"gap_eV": tables.column("gap (eV)", format="%.4f")} | COLUMNS,
        rows=8,
    )
    n_usable = len(table.usable_rows)
    with frame.row():
        if st.button(
            f"Make a data set of {words.count(n_usable, 'gap')}",
            type="primary",
            disabled=not n_usable,
            help="Structures, gaps and level of theory become a data set, ready for Train. The "
            "uploaded outputs are deleted.",
        ):
            _make_dataset(calculations, table)
        downloads.csv_button("Download the table (CSV)", lambda: rows, "calculations.csv")


def _make_dataset(calculations: Dataset, table: CalculationTable) -> None:
    form = f"{FORM}-dataset"
    try:
        dataset = add_labelled_dataset(
            stores.library(),
            calculations,
            table,
            name=calculations.name,
            dataset_id=str(uuid.UUID(session.form_key(form))),
            jobs=stores.jobs(),
        )
        delete_dataset(stores.library(), session.workspace(), calculations.id)
    except BandgapError as error:
        frame.problem(error)
        return
    session.choose("data", dataset.id)
    session.renew(form)
    st.rerun()


def _discard_button(calculations: Dataset) -> None:
    if st.button("Discard", help="The uploaded outputs and their table are deleted."):
        carry_out(
            lambda: delete_dataset(stores.library(), session.workspace(), calculations.id),
            f"The calculations {calculations.name} are deleted.",
        )
