"""Source models: list, training data, errors, forms that train or add one or add a run."""

from collections.abc import Mapping
from typing import Any

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
from bandgap.jobs.deletions import KEPT_DAYS, bin_source
from bandgap.jobs.sources import JOB_ORIGINS, Source
from bandgap.sources.cards import extras_sentence

CAPTION = (
    "Error on structures that the network did not learn from. A curve that still falls at its end "
    "asks for more epochs; a dotted curve far below the solid one asks for more structures."
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
    datasets = {d.id: d for d in stores.library().datasets(session.workspace())}
    usable = {i: stores.library().counts(i)["usable"] for i in datasets}
    has_trained = any(source.job for source in sources.values())
    with st.expander("Train another source model", expanded=not has_trained and not active):
        source_form(datasets, usable, primary=True)
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
    if not source.problem and st.button(
        f"Transfer from {words.escaped(source.title)}", key="transfer-from"
    ):
        session.choose("source", source.id)
        st.switch_page("views/train.py")
    if source.job:
        delete_expander(source)


def source_frame(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Return one row per source model: structures, level of theory, error, features and licence."""
    cards = [source.card for source in sources.values()]
    return pd.DataFrame(
        {
            "source model": [source.title for source in sources.values()],
            "structures": pd.array([card.get("n_structures") for card in cards], dtype="Int64"),
            "level of theory": [card.get("level_of_theory") or "not recorded" for card in cards],
            "validation RMSE (eV)": pd.array(
                [card.get("held_out_rmse_eV") or card.get("validation_rmse_eV") for card in cards],
                dtype="Float64",
            ),
            "features": pd.array(
                [_features(source.manifest) for source in sources.values()], dtype="Int64"
            ),
            "licence": [_licence(card) for card in cards],
            "trained": [source.trained for source in sources.values()],
        }
    )


SOURCE_COLUMNS = {
    "source model": tables.column("source model", 190),
    "structures": tables.column("structures", 80, "%d"),
    "level of theory": tables.column("level of theory", 140),
    "validation RMSE (eV)": tables.column("validation RMSE (eV)", 140, "%.2f"),
    "features": tables.column("features", 70, "%d"),
    "licence": tables.column("licence", 90),
    "trained": tables.column("trained", 100),
}


def source_details(source: Source) -> None:
    """Draw the card, the descriptor, the extra parts and the learning curve of a source model."""
    if source.problem:
        st.error(f"{words.escaped(source.title)}: {source.problem}", icon=":material/error:")
        return
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        st.subheader(words.escaped(source.title), anchor=False)
        frame.warn(source.manifest.get("warnings", ()))
        tables.card(source.card)
        st.markdown(f"**Descriptor**: {descriptor_sentence(source.manifest)}")
        st.markdown(
            f"**Contains besides its weights**: {extras_sentence(source.manifest)}",
            help=_EXTRAS_HELP
            + help_link("tutorials/source-of-your-own", "Extras that some methods need"),
        )
    with right_column:
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
        else:
            st.caption("This source model has no learning curve stored.")


def descriptor_sentence(manifest: Mapping[str, Any]) -> str:
    """Return the terms, elements and number of features of a source's descriptor."""
    descriptor = manifest.get("descriptor", {})
    features = _features(manifest)
    terms = [
        f"{k} ({descriptor[k]['function'].replace('_', ' ')})"
        for k in ("k1", "k2", "k3")
        if descriptor.get(k)
    ]
    blocks = [
        label
        for name, label in _BLOCKS.items()
        if descriptor.get(name, "none") not in (None, False, "none")
    ]
    if not (terms or blocks) or features is None:
        return "not recorded"
    if terms:
        blocks = [f"MBTR, {' and '.join(terms)}", *blocks]
    species = f", for {' '.join(descriptor['species'])}" if descriptor.get("species") else ""
    return f"{', '.join(blocks)}, {features:,} features{species}"


def delete_expander(source: Source) -> None:
    """Draw the form that deletes a source model of the workspace, with what it removes."""
    with st.expander("Delete this source model"):
        st.markdown(
            f"The bin keeps it for {KEPT_DAYS} days. Runs that started from it stay and can "
            "still predict, but no transfer can start from it any more, and an interrupted one "
            "cannot be resumed."
        )
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


def _licence(card: Mapping[str, Any]) -> str:
    """Return the name of the licence without its credit line, which is on the card."""
    return str(card.get("licence") or "not recorded").split(". ")[0]


def _features(manifest: Mapping[str, Any]) -> int | None:
    count = manifest.get("network", {}).get("n_features")
    return int(count) if count else None


_BLOCKS = {
    "composition": "composition",
    "neighbours": "neighbours",
    "soap": "SOAP",
    "potential": "features of a pretrained potential",
    "second_potential": "those of a second potential",
    "graph": "readout of a graph network",
}
_EXTRAS_HELP = (
    "Some transfers need more than the weights: the variational posterior, the Fisher information "
    "or snapshots of the training. The methods on the page Train say which."
)


frame.show(page)
