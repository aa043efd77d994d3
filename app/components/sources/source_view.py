"""The source models of a workspace: a table, and what there is to know of the chosen one."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import session
import streamlit as st

from bandgap import plots
from bandgap.jobs.sources import Source, delete_source
from bandgap.sources.cards import extras_sentence
from components.shared import stores, tables, words
from components.shared.actions import carry_out
from components.shared.drawing import figure

CAPTION = (
    "Error on structures that the network did not learn from. A curve that still falls at its end asks for more "
    "epochs; a dotted curve far below the solid one asks for more structures."
)


def source_frame(sources: Mapping[str, Source]) -> pd.DataFrame:
    """Return one row a source model: its size, level of theory, error, descriptor and licence."""
    cards = [source.card for source in sources.values()]
    return pd.DataFrame(
        {
            "source model": [source.title for source in sources.values()],
            "structures": pd.array([card.get("n_structures") for card in cards], dtype="Int64"),
            "level of theory": [card.get("level_of_theory") or "not recorded" for card in cards],
            "validation RMSE (eV)": pd.array([card.get("validation_rmse_eV") for card in cards], dtype="Float64"),
            "features": pd.array([_features(source.manifest) for source in sources.values()], dtype="Int64"),
            "licence": [card.get("licence") or "not recorded" for card in cards],
            "trained": ["here" if source.job else "with the package" for source in sources.values()],
        }
    )


SOURCE_COLUMNS = {
    "source model": st.column_config.TextColumn("source model", width=190),
    "structures": st.column_config.NumberColumn("structures", format="localized", width=80),
    "level of theory": st.column_config.TextColumn("level of theory", width=140),
    "validation RMSE (eV)": st.column_config.NumberColumn("validation RMSE (eV)", format="%.2f", width=140),
    "features": st.column_config.NumberColumn("features", format="localized", width=70),
    "licence": st.column_config.TextColumn("licence", width=90),
    "trained": st.column_config.TextColumn("trained", width=100),
}


def source_details(source: Source) -> None:
    """Draw the card, the descriptor, the parts and the learning curve of a source model."""
    if source.problem:
        st.error(f"{words.escaped(source.title)}: {source.problem}", icon=":material/error:")
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(words.escaped(source.title), anchor=False)
        tables.card(source.card)
        st.markdown(f"**Descriptor**: {descriptor_sentence(source.manifest)}")
        st.markdown(f"**Carries beside its weights**: {extras_sentence(source.manifest)}", help=_EXTRAS_HELP)
    with right:
        history, scale = source.manifest.get("history"), source.manifest.get("gaps", {}).get("sd_eV")
        if history and scale:
            alt = "Error by epoch of the source's training"
            figure(plots.learning_curve, history, sd_eV=scale, key="learning-curve", alt=alt, caption=CAPTION)
        else:
            st.caption("This source model has no learning curve stored.")


def descriptor_sentence(manifest: Mapping[str, Any]) -> str:
    """Say of which terms and elements a source's descriptor is, and how long its vector."""
    descriptor, features = manifest.get("descriptor", {}), _features(manifest)
    terms = [f"{k} ({descriptor[k]['function'].replace('_', ' ')})" for k in ("k1", "k2", "k3") if descriptor.get(k)]
    if not terms or features is None:
        return "not recorded"
    return f"MBTR, {' and '.join(terms)}, {features:,} features, for {' '.join(descriptor.get('species', ()))}"


def delete_expander(source: Source) -> None:
    """Offer to delete a source model that was trained here, and say what goes with it."""
    with st.expander("Delete this source model"):
        st.markdown(
            "Deleting it removes its weights for good. Runs that started from it stay and can still predict, but no "
            "transfer can start from it any more, and an interrupted one cannot go on."
        )
        sure = st.checkbox("I do not need it any more", key=f"sure-{source.id}")
        if st.button("Delete this source model", disabled=not sure, icon=":material/delete:", key="delete-source"):
            carry_out(
                lambda: delete_source(stores.jobs(), stores.library(), session.workspace(), source.id),
                f"{source.title} is deleted.",
                forget="source",
            )


def _features(manifest: Mapping[str, Any]) -> int | None:
    count = manifest.get("network", {}).get("n_features")
    return int(count) if count else None


_EXTRAS_HELP = (
    "Some transfers need more than the weights: the variational posterior, the Fisher information or snapshots of the "
    "training. The methods on the page Train say which."
)
