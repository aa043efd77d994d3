"""Source models: list, training data, errors, forms that train or add one or add a run."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.actions import delete_button
from app.components.shared.bin_view import bin_expander
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from app.components.shared.waiting import registered
from app.components.sources.archive_form import run_upload, source_upload
from app.components.sources.source_setup import source_form
from bandgap import plots
from bandgap.jobs.deletions import bin_source
from bandgap.jobs.sources import JOB_ORIGINS, Source
from bandgap.sources.cards import extras_sentence

CAPTION = (
    "A curve that still falls at its end asks for more epochs; a dotted curve far below the solid "
    "one asks for more structures."
)


def page() -> None:
    frame.heading(
        "Source models",
        "Networks that learned gaps from many structures; a transfer starts from one.",
    )
    active = [job for job in stores.source_jobs() if job.active]
    for job in active:
        job_panel(job)
    selected = stores.latest(session.selected_id("source"), *JOB_ORIGINS)
    if selected is not None and not selected.is_current:
        job_panel(selected)
    registered("source")
    sources = stores.sources()
    if sources:
        present(sources)
    with st.expander("Train another source model", expanded=not sources and not active):
        source_form()
    with st.expander("Add a source model that was trained in a shell"):
        source_upload()
    run_upload()
    bin_expander()


def present(sources: dict[str, Source]) -> None:
    ids = list(sources)
    selected = session.selected_id("source") if session.selected_id("source") in sources else ids[0]
    table = source_frame(sources)
    key = f"sources-{len(ids)}"
    row = tables.pick(
        table, alt="Source models of this workspace", columns=SOURCE_COLUMNS, key=key, rows=8
    )
    downloads.table_csv(lambda: table, "sources.csv")
    if row is not None and ids[row] != selected:
        session.choose("source", ids[row])
        st.rerun()
    source = sources[selected]
    source_details(source)
    with frame.row():
        if not source.problem and st.button(
            f"Transfer from {words.escaped(source.title)}", key="transfer-from"
        ):
            session.choose("source", source.id)
            st.switch_page("views/train.py")
        if source.job:
            delete_button(
                "source model",
                source.id,
                source.title,
                lambda: bin_source(
                    stores.jobs(),
                    stores.library(),
                    session.workspace(),
                    source.id,
                    name=source.title,
                ),
            )


def source_frame(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Return one row per source model: structures, level of theory, error, features and licence."""
    rows = [
        {
            "source model": source.title,
            "structures": source.card.get("n_structures"),
            "level of theory": source.card.get("level_of_theory") or "not recorded",
            "validation RMSE (eV)": source.card.get("held_out_rmse_eV")
            or source.card.get("validation_rmse_eV"),
            "features": _features(source),
            # without its credit line, which is on the card
            "licence": str(source.card.get("licence") or "not recorded").split(". ")[0],
            "trained": source.trained,
        }
        for source in sources.values()
    ]
    types = {"structures": "Int64", "features": "Int64", "validation RMSE (eV)": "Float64"}
    return pd.DataFrame(rows).astype(types)


SOURCE_COLUMNS = {
    "validation RMSE (eV)": tables.column("validation RMSE (eV)", format="%.2f"),
}


def source_details(source: Source) -> None:
    """Draw the learning curve of a source model, and its card, descriptor and extra parts."""
    if source.problem:
        st.error(f"{words.escaped(source.title)}: {source.problem}", icon=":material/error:")
        return
    st.subheader(words.escaped(source.title), anchor=False)
    frame.warn(source.manifest.get("warnings", ()))
    history = source.manifest.get("history")
    scale = source.manifest.get("gaps", {}).get("sd_eV")
    if history and scale:
        alt = "Error by epoch of the source's training"
        figure(
            plots.learning_curve,
            history,
            sd_eV=scale,
            key="learning-curve",
            alt=alt,
            caption=CAPTION,
        )
    with st.expander("What it learned from, and its descriptor"):
        tables.card(source.card)
        species = " ".join(source.manifest.get("descriptor", {}).get("species") or ())
        elements = f", for {species}" if species else ""
        st.markdown(f"**Descriptor**: {_features(source) or 0:,} features{elements}")
        st.markdown(
            f"**Contains besides its weights**: {extras_sentence(source.manifest)}",
            help=_EXTRAS_HELP
            + help_link("tutorials/source-of-your-own", "Extras that some methods need"),
        )


def _features(source: Source) -> int | None:
    count = source.manifest.get("network", {}).get("n_features")
    return int(count) if count else None


_EXTRAS_HELP = (
    "Some research methods need more than the weights: the variational posterior, the Fisher "
    "information or snapshots of the training."
)


page()
