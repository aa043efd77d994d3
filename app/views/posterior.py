"""Posterior: what the transfer learned, which layers moved, and whether the chains agree."""

import streamlit as st

from app.components.posterior import (
    chain_view,
    evidence_view,
    inclusion_view,
    kernel_view,
    layer_view,
    method_view,
    more_draws,
    pool_view,
)
from app.components.result.verdict_view import refit_caption
from app.components.shared import frame, stores, tables, words
from app.components.shared.run_choice import choose_run
from app.components.shared.run_files import RunFiles, read_run
from bandgap.jobs.rows import RunRow

LEAD = "What the transfer learned from your crystals, and how far its answer has settled."


def page() -> None:
    frame.heading("Posterior", LEAD)
    run = choose_run("The posterior is what a finished transfer learned.")
    if run is None:
        return
    files = read_run(run.id)
    st.markdown(words.accuracy_sentence(files.metrics, n_test=files.n_test))
    refit_caption(run, files.manifest)
    if text := method_view.metals_sentence(files):
        st.caption(text, width=720)
    frame.warn([files.left_out, files.copies, *files.warnings, *files.scales_equal_to_prior])
    has_layers = "c" in files.draws
    tabs = posterior_tabs(files)
    parts = dict(zip(tabs, st.tabs(tabs), strict=True))
    with parts[tabs[0]]:
        if has_layers:
            layer_view.layers(files)
        else:
            _without_layers(files, run)
    if has_layers:
        with parts["Scales"]:
            layer_view.scales(files)
            if "Chains" not in parts:
                layer_view.numbers(files)
    if "Chains" in parts:
        with parts["Chains"]:
            chain_view.chains(files)
            more_draws.more_draws(files, run)
            layer_view.numbers(files)
    with parts["Source model"]:
        tables.card(files.source.get("card", {}), files.source.get("overlap"))


def posterior_tabs(files: RunFiles) -> list[str]:
    """Return the labels of the tabs, without those that would be empty for this run."""
    has_layers = "c" in files.draws
    labels = ["Layers", "Scales"] if has_layers else ["What it learned"]
    if files.rhat:
        labels.append("Chains")
    return [*labels, "Source model"]


def _without_layers(files: RunFiles, run: RunRow) -> None:
    """Draw what a run without layer weights has learned."""
    method = stores.library().methods().get(run.method)
    method_view.instead(files, run, family=method.family if method else "")
    method_view.features(files)
    inclusion_view.inclusion(files)
    evidence_view.evidence(files)
    kernel_view.kernel(files)
    pool_view.pool(files)
    method_view.chosen_setting(files)


frame.show(page)
