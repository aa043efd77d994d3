"""The tab on what a transfer learned: its layers, or other weights, and its chains."""

import numpy as np
import streamlit as st

from app.components.result import learned_words
from app.components.result.more_draws import more_draws
from app.components.result.run_result import RunResult
from app.components.shared import downloads, frame, stores, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.foundation.quantities import Quantity
from bandgap.inference.prior_comparison import equal_to_prior
from bandgap.storage.manifests import posterior_kinds

LEAST_EBFMI = 0.3  # Betancourt (2016)
SCALES = ("length", "spread", "smoothness")  # of a kernel; their traces are no logarithms


def layers_label(files: RunFiles) -> str:
    """Return the label of the tab, "" where a run has only one best answer."""
    if "c" in files.draws:
        return "Layers"
    return "What it learned" if files.rhat or _sentences(files) else ""


def layers_view(result: RunResult) -> None:
    """Draw what the run learned, and whether its chains agree."""
    files = result.files
    frame.warn(equal_to_prior(files.diagnostics.get("scales", ())))
    if "metals" in posterior_kinds(files.manifest):
        st.caption("Below are the gaps of the semiconductors; a classifier knows the metals.")
    for text in _sentences(files):
        st.markdown(text)
    if "c" in files.draws:
        _layers(files)
    if files.rhat:
        _chains(result)
    draws = files.draws | {name: v for name, v in files.under("trace.").items() if name in SCALES}
    if files.rhat or "c" in draws:
        with st.expander("The numbers, with R-hat and effective draws"):
            table = learned_words.summary_frame(draws, files.rhat, files.ess)
            downloads.table_with_csv(table, "scales.csv", alt="Scales, R-hat and effective draws")


def _sentences(files: RunFiles) -> list[str]:
    """Return what a run without layer weights learned."""
    methods = stores.library().methods()
    titles = {name: methods[name].title for name in files.pool if name in methods}
    return learned_words.learned_sentences(files, titles=titles)


def _layers(files: RunFiles) -> None:
    """Draw which layers correct the gap, and the posterior of the layer weights."""
    st.markdown(
        learned_words.layer_sentence(files.diagnostics.get("correction"), n=files.n),
        help=learned_words.CORRECTION_HELP
        + help_link("explanation/reading-a-result", "Which layers correct the source model"),
    )
    c = files.draws["c"]
    prior = files.record.get("prior.c")
    figure(
        plots.layer_weights,
        c.reshape(-1, c.shape[-1]),
        layers=plots.layer_names(c.shape[-1]),
        prior_draws=None
        if prior is None
        else prior.reshape(-1, prior.shape[-1]).astype(np.float64),
        key="layers",
        alt="Posterior density of the layer weights, and their prior",
        caption="Freedom of each layer to move. Filled: after learning; dashed: before. Where "
        "they are alike, the labels say nothing.",
    )


def _chains(result: RunResult) -> None:
    """Draw whether the chains agree, the button for more draws, and the traces."""
    files = result.files
    if result.verdict.chains_agree:  # otherwise it is a warning at the top, with the next step
        st.markdown(
            learned_words.convergence_sentence(files),
            help=f"{Quantity.RHAT.help} {Quantity.ESS.help}"
            + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
        )
        more_draws(result)
    if files.figures.get("ebfmi_min", 1.0) < LEAST_EBFMI:
        share = files.figures["ebfmi_min"]
        frame.warn([f"Tails may be missed (E-BFMI {share:.2f}): raise warm-up and draws."])
    traces = {
        f"{name}, network {k + 1}" if files.members > 1 else name: part
        for name, values in files.under("trace.").items()
        for k, part in enumerate(np.split(values, files.members))
    }
    if not traces:
        return
    with st.expander("The chains"):
        name = st.selectbox("Quantity", sorted(traces), key="trace-quantity", width=260)
        figure(
            plots.traces,
            traces[name],
            label=words.escaped(name),
            key="trace",
            alt=f"Traces of {name}, one line a chain",
            caption="Lines should lie on each other without drift.",
        )
