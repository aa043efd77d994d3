"""Posterior: what the transfer learned, which layers moved, and whether the chains agree."""

import streamlit as st
from components import frame, posterior_words, tables
from components.heldout_view import heldout_view
from components.run_choice import choose_run
from components.run_files import RunFiles, read_run

from bandgap import plots
from bandgap.quantities import Quantity


def page() -> None:
    frame.heading("Posterior", "What the transfer learned from your crystals, and how far its answer has settled.")
    run = choose_run("The posterior is what a finished transfer learned.")
    if run is None:
        return
    files = read_run(run.id)
    st.markdown(posterior_words.accuracy_sentence(files.metrics, n_test=files.n_test))
    for text in files.warnings:
        st.warning(text, icon=":material/warning:")
    if "c" in files.draws:
        posterior_of(files)
    else:
        st.caption(
            f"{run.title} gives one best answer: it has no posterior of layer weights. Bayesian transfer has one."
        )
    heldout_view(run)
    with st.expander("The molecule model that it started from"):
        tables.card(files.source.get("card", {}), files.source.get("overlap"))


def posterior_of(files: RunFiles) -> None:
    convergence(files)
    left, right = st.columns([3, 2], gap="large")
    with left:
        layers(files, n=files.n)
    with right:
        scales(files)
    with st.expander("Layer weights, tau, sigma, R-hat and effective draws as a table"):
        numbers = posterior_words.summary_frame(files.draws, files.rhat, files.ess)
        st.dataframe(numbers, hide_index=True, placeholder="", height=tables.height(numbers))


def convergence(files: RunFiles) -> None:
    """Say in words whether the chains agree; a disagreement is a warning beside everything that rests on it."""
    text = posterior_words.convergence_sentence(files.rhat, files.ess, divergences=files.divergences)
    if posterior_words.converged(files.rhat):
        st.markdown(text, help=f"{Quantity.RHAT.help} {Quantity.ESS.help}")
    elif not files.warnings:  # otherwise they say it already
        st.warning(text, icon=":material/warning:")


def layers(files: RunFiles, *, n: int) -> None:
    c = files.draws["c"].reshape(-1, files.draws["c"].shape[-1])
    st.subheader("Which layers moved", anchor=False, help=Quantity.C.help)
    st.markdown(posterior_words.layer_sentence(c, n=n))
    fig = plots.layer_weights(c, layers=posterior_words.layer_names(c.shape[1]))
    caption = "Filled: after learning. Dashed: before (prior). A filled curve near 0 is a layer that stayed as it was."
    frame.figure(fig, key="layers", alt="Posterior density of the layer weights beside their prior", caption=caption)


def scales(files: RunFiles) -> None:
    for quantity, key, log in ((Quantity.TAU, "tau", True), (Quantity.SIGMA, "sigma_eV", False)):
        draws = files.draws[key]
        unit = f" {quantity.unit}" if quantity.unit else ""
        st.subheader(quantity.label[:1].upper() + quantity.label[1:], anchor=False, help=quantity.help)
        st.markdown(posterior_words.scale_sentence(draws, unit=unit))
        frame.figure(
            plots.draws_density(draws, quantity=quantity, log=log),
            key=key,
            alt=f"Posterior density of {quantity.label}",
        )


frame.show(page)
