"""Downloads of the page Result: report, the run as a zip, and the held-out predictions."""

import re

import streamlit as st

from app.components.result.run_result import RunResult
from app.components.result.verdict_view import parent_title
from app.components.shared import downloads, stores
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import DELETED_DATA
from app.components.shared.run_files import heldout_frame
from bandgap.foundation.browsers import find_browser
from bandgap.jobs.shell_commands import stored_command
from bandgap.runs.html_report import ReportText, report_html
from bandgap.runs.pdf_report import pdf_bytes
from bandgap.storage.run_archives import run_archive


def downloads_view(result: RunResult) -> None:
    """Draw the download buttons of a run."""
    run = result.run
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", run.title).strip("-") or "run"
    folder = stores.home().run_folder(run.id)
    st.markdown("**Take it with you**")
    with st.container(horizontal=True):
        downloads.file_button(
            "Report (HTML)",
            lambda: report_html(folder, text=report_text(result)).encode(),
            f"{name}.html",
            key=f"report-{run.id}",
            help="One file that needs no network: data, split, error, figures, settings, command "
            "and a methods paragraph." + help_link("how-to/share-a-run", "Report"),
        )
        if find_browser() is not None:
            downloads.file_button(
                "Report (PDF)",
                lambda: pdf_bytes(report_html(folder, text=report_text(result))),
                f"{name}.pdf",
                key=f"report-pdf-{run.id}",
                help="The same report, printed by the browser of the server; takes some seconds."
                + help_link("how-to/share-a-run", "Report"),
            )
        downloads.file_button(
            "The run (zip)",
            lambda: run_archive(folder, name=name),
            f"{name}.zip",
            key=f"zip-{run.id}",
            help="To predict on another machine or in another workspace."
            + help_link("how-to/share-a-run", "The run as a zip"),
        )
        downloads.csv_button(
            "Held-out predictions (CSV)",
            lambda: heldout_frame(result.heldout),
            "held_out.csv",
            key=f"heldout-{result.run.id}",
            help="Predictions, 95 % intervals and known gaps of the structures of the test.",
        )


def report_text(result: RunResult) -> ReportText:
    """Return the names of run, data set and parent, and the command, for the report of a run."""
    run = result.run
    return ReportText(
        title=run.title,
        data=stores.dataset_names(run.workspace).get(run.dataset, DELETED_DATA),
        parent=parent_title(run),
        command=stored_command(result.files.manifest, source=run.source),
    )
