"""The scales of a Gaussian process on the source's features: length, spread and smoothness."""

import numpy as np
import streamlit as st

from app.components.posterior import posterior_words
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles

LENGTH = "length"
SPREAD = "spread"
SMOOTHNESS = "smoothness"
# Matern correlations at a distance of one length, by smoothness.
CORRELATION_AT_ONE_LENGTH = {0.5: 0.368, 1.5: 0.736, 2.5: 0.858}


def kernel(files: RunFiles) -> None:
    """Show the posterior of the kernel's length and spread; nothing for runs without a kernel."""
    traces = files.under("trace.")
    if LENGTH not in traces:
        return
    st.subheader(
        "How far one crystal tells of another",
        anchor=False,
        help=_HELP + help_link("research/methods", "vecchia_gp"),
    )
    smoothness = files.figures.get("smoothness", 0.0)
    length = (
        "**length**: "
        f"{posterior_words.scale_sentence(traces[LENGTH], unit='')}{length_words(smoothness)}"
    )
    st.markdown(length, width=720)
    st.markdown(
        f"**spread of the process**: {posterior_words.scale_sentence(traces[SPREAD], unit=' eV')}, "
        "how far gaps stray from the straight line in the source model's prediction.",
        width=720,
    )
    far = far_words(files.figures.get("far_share", 0.0), n=files.n_test)
    if far:
        st.markdown(far, width=720)
    if smoothness:
        st.markdown(smoothness_words(smoothness, draws=traces.get(SMOOTHNESS)), width=720)


def length_words(smoothness: float) -> str:
    """Return the unit of the length and, if it has a closed form, the correlation at one length."""
    unit = ", in units of the largest spread of the source model's features over your crystals."
    if smoothness not in CORRELATION_AT_ONE_LENGTH:
        return unit
    return (
        f"{unit} Crystals one length apart have a correlation of "
        f"{CORRELATION_AT_ONE_LENGTH[smoothness]:.2f}."
    )


def smoothness_words(smoothness: float, *, draws: np.ndarray | None) -> str:
    """Return the smoothness: a fixed value or, from its draws (chain, draw), a sampled one."""
    if draws is None:
        return f"**smoothness** {smoothness:g}, taken as known: {_SMOOTHNESS_WORDS}"
    return (
        f"**smoothness**: {posterior_words.scale_sentence(draws, unit='')}, sampled too: "
        f"{_SMOOTHNESS_WORDS}"
    )


def far_words(share: float, *, n: int) -> str:
    """Return a note on the share of `n` held-out structures far from the data; "" for none."""
    count = round(share * n)
    if not count:
        return ""
    some = f"**all {n:,}**" if count == n else f"**{count:,} of {n:,}**"
    return (
        f"At {some} held-out structures the crystals that the run learned from say next to nothing "
        "of how far the gap strays from this line: what is predicted there is the line alone, with "
        "an interval for the whole spread of the process. Labels of crystals like these would tell "
        "more."
    )


_HELP = (
    "A Gaussian process expects crystals that the source model sees as alike to have like gaps; "
    "its length says how alike is alike."
)
_SMOOTHNESS_WORDS = "0.5 lets the gap change abruptly from crystal to crystal, 2.5 only gently."
