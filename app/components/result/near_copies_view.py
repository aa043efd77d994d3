"""The warning on near-copies across the split, and the button that tests by formula instead."""

import streamlit as st

from app import session
from app.components.result.run_result import RunResult
from app.components.shared import frame, stores
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from bandgap.evaluation.near_copies import near_copies_sentence
from bandgap.jobs.starting import start_transfer


def near_copies_view(result: RunResult) -> None:
    """Draw the warning, and the button unless all structures have one formula."""
    run = result.run
    manifest = result.files.manifest
    one_formula = manifest.get("data", {}).get("n_formulas") == 1
    tested = manifest.get("tested", {})
    text = near_copies_sentence(tested, one_formula=one_formula, remedy="")
    frame.warn([text.strip()])
    datasets = {dataset.id: dataset for dataset in stores.library().datasets(run.workspace)}
    if not text or one_formula or "refit" in manifest or run.dataset not in datasets:
        return
    if not st.button(
        "Test by formula",
        icon=":material/call_split:",
        key=f"by-formula-{run.id}",
        help="The same method learns again, with all structures of a formula on one side of the "
        "split." + help_link("explanation/calibration", "Near-copies across a split"),
    ):
        return

    def start() -> None:
        started = start_transfer(
            stores.jobs(),
            stores.library(),
            datasets[run.dataset],
            source=run.source,
            request=run.request.changed(by_formula=True),
            title=f"{run.title}, by formula",
        )
        session.choose("run", started.run)

    carry_out(start, page="train")
