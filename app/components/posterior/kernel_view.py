"""What a Gaussian process on the source's features learned of its own scales: length, spread, noise, smoothness."""

import streamlit as st

from components.posterior import posterior_words
from components.shared.run_files import RunFiles

LENGTH, SPREAD = "length", "spread"


def kernel(files: RunFiles) -> None:
    """Say where the posterior of the kernel's length and spread lies; nothing for runs without a kernel's chains."""
    found = files.under("trace.")
    if LENGTH not in found:
        return
    st.subheader("How far one crystal tells of another", anchor=False, help=_HELP)
    st.markdown(f"**length**: {posterior_words.scale_sentence(found[LENGTH], unit='')}. {_LENGTH_WORDS}", width=720)
    st.markdown(
        f"**spread of the process**: {posterior_words.scale_sentence(found[SPREAD], unit=' eV')}, how far gaps stray "
        "from the straight line in the source model's prediction.",
        width=720,
    )
    smoothness = files.figures.get("smoothness")
    if smoothness:
        st.markdown(f"**smoothness** {smoothness:g}, taken as known: {_SMOOTHNESS_WORDS}", width=720)


_HELP = (
    "A Gaussian process expects crystals that the source model sees as alike to have like gaps; its length says how "
    "alike is alike."
)
_LENGTH_WORDS = (
    "It is in units of the largest spread of the source model's features over your crystals: at one length the "
    "correlation has fallen to 0.37, 0.74 or 0.86, for smoothness 0.5, 1.5 or 2.5."
)
_SMOOTHNESS_WORDS = "0.5 lets the gap change abruptly from crystal to crystal, 2.5 only gently."
