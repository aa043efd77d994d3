"""Posterior: what the transfer learned, which layers moved, and whether the chains agree."""

import streamlit as st
from components.posterior import chain_view, layer_view, method_view
from components.posterior.heldout_view import heldout_view
from components.shared import frame, stores, tables, words
from components.shared.run_choice import choose_run
from components.shared.run_files import read_run

LEAD = "What the transfer learned from your crystals, and how far its answer has settled."


def page() -> None:
    frame.heading("Posterior", LEAD)
    run = choose_run("The posterior is what a finished transfer learned.")
    if run is None:
        return
    files = read_run(run.id)
    st.markdown(words.accuracy_sentence(files.metrics, n_test=files.n_test))
    frame.warn([files.left_out, *files.warnings])
    if "c" in files.draws:
        layer_view.layers(files)
        layer_view.scales(files)
    else:
        family = stores.library().catalogue("method").get(run.method, {}).get("family", "")
        method_view.instead(files, run, family=family)
        method_view.features(files)
        method_view.chosen_setting(files)
    chain_view.chains(files)
    if files.rhat or "c" in files.draws:
        layer_view.numbers(files)
    heldout_view(run)
    with st.expander("The source model that it started from"):
        tables.card(files.source.get("card", {}), files.source.get("overlap"))


frame.show(page)
