"""The tab Details: files, split, near-copies, commands, learning curve and source model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from app import session
from app.components.result.learning_view import learning_view
from app.components.result.report_button import file_stem, report_page
from app.components.result.run_result import RunResult
from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import heldout_frame
from bandgap.foundation.browsers import find_browser
from bandgap.jobs.housekeeping import MAX_NAME
from bandgap.jobs.run_inputs import run_inputs
from bandgap.jobs.shell_commands import predict_command, serve_command, stored_command
from bandgap.jobs.starting import start_transfer
from bandgap.runs.pdf_report import pdf_bytes
from bandgap.storage.run_archives import run_archive


def details_view(result: RunResult) -> None:
    """Draw the downloads and all that is rarely asked of a run."""
    _downloads(result)
    st.markdown(split_text(result))
    _near_copies(result)
    learning_view(result)
    manifest = result.files.manifest
    with st.expander("The command to repeat it"):
        commands = (
            stored_command(manifest, source=result.run.source),
            predict_command(result.run.request, refitted=result.is_refit),
            serve_command(refitted=result.is_refit),
        )
        st.code("\n".join(commands), language=None, wrap_lines=True)
        st.caption(
            "STRUCTURES are the files of the data set, GAPS.csv is the table of their gaps. The "
            "last command lets other programs ask this run."
            + help_link("how-to/service", "Start it")
        )
    if figures := result.files.figures:
        with st.expander("Figures of the fit"):
            table = pd.DataFrame({"figure": list(figures), "value": list(figures.values())})
            downloads.table_with_csv(table, "figures.csv", alt="Figures of the fit")
    source = manifest.get("source", {})
    card = source.get("card") or {}
    if card.get("n_structures"):
        with st.expander("The source model"):
            tables.card(card, source.get("overlap"))


def split_text(result: RunResult) -> str:
    """Return how many labels the run learned from, held back and held out."""
    manifest = result.files.manifest
    n_labelled = int(manifest["data"]["n_labelled"])
    conformal = manifest.get("conformal") or {}
    n_back = 0 if result.is_refit else len(conformal.get("ids", ()))
    n_test = 0 if result.is_refit else result.files.n_test
    n_unused = n_labelled - result.files.n - n_back - n_test
    back = f", {n_back:,} held back for conformal intervals" if n_back else ""
    return (
        f"Of {words.count(n_labelled, 'labelled structure')} it learned from "
        f"{result.files.n:,}; {n_test:,} held out for the test{back}; "
        f"{f'{n_unused:,}' if n_unused else 'none'} unused. Seed {result.run.request.seed}."
    )


def _near_copies(result: RunResult) -> None:
    """Draw the warning on near-copies, and the button that tests by formula instead."""
    frame.warn([result.near_copies])
    if not result.near_copies or result.has_one_formula or result.is_refit or not result.has_data:
        return
    if st.button(
        "Test by formula",
        icon=":material/call_split:",
        key=f"by-formula-{result.run.id}",
        help="The same method learns again, with all structures of a formula on one side of the "
        "split." + help_link("explanation/calibration", "Near-copies across a split"),
    ):
        carry_out(partial(_start_by_formula, result), page="train")


def _start_by_formula(result: RunResult) -> None:
    run = result.run
    started = start_transfer(
        stores.jobs(),
        stores.library(),
        stores.library().dataset(run.workspace, run.dataset),
        source=run.source,
        request=run.request.changed(by_formula=True),
        title=f"By formula, {run.title}"[:MAX_NAME],
    )
    session.choose("run", started.run)


def _downloads(result: RunResult) -> None:
    """Draw the download buttons of a run."""
    run = result.run
    name = file_stem(run)
    folder = stores.home().run_folder(run.id)
    library, dataset = stores.library(), result.dataset
    inputs: Callable[[], dict[str, Path | bytes]] = dict
    if dataset is not None:
        inputs = partial(run_inputs, library, run, dataset, result.files.manifest)
    with frame.row():
        if find_browser() is not None:
            page = report_page(run)
            downloads.file_button(
                "Report (PDF)",
                lambda: pdf_bytes(page()),
                f"{name}.pdf",
                key=f"report-pdf-{run.id}",
                help="The same report, printed by the browser of the server; takes some seconds.",
            )
        downloads.file_button(
            "The run (zip)",
            lambda: run_archive(folder, name=name, inputs=inputs()),
            f"{name}.zip",
            key=f"zip-{run.id}",
            help="To predict on another machine or in another workspace, and to repeat the run by "
            "repeat.sh: with its structures and gaps."
            + help_link("how-to/share-a-run", "The run as a zip"),
        )
        downloads.csv_button(
            "Held-out predictions (CSV)",
            lambda: heldout_frame(result.heldout),
            "held_out.csv",
            key=f"heldout-{run.id}",
            help="Predictions, 95 % intervals and known gaps of the structures of the test.",
        )
