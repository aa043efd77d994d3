"""Weights of the methods in a run that combines several, and the scaling of their intervals."""

from collections.abc import Mapping

import streamlit as st

from app.components.shared import stores, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots

_NO_TRANSFER = ", no transfer"  # suffix of titles, not repeated for every method here


def pool(files: RunFiles) -> None:
    """Draw the weights of the methods; nothing for a run of one method."""
    weights = files.pool
    if not weights:
        return
    methods = stores.library().methods()
    titles = {
        name: methods[name].title.removesuffix(_NO_TRANSFER) if name in methods else name
        for name in weights
    }
    weight_of_title = {
        titles[name]: weight for name, weight in sorted(weights.items(), key=lambda item: -item[1])
    }
    st.subheader(
        "Which method carries the answer",
        anchor=False,
        help=_HELP + help_link("explanation/methods/without-transfer", "stacking"),
    )
    spread = files.figures.get("spread", 1.0)
    st.markdown(pool_sentence(weight_of_title, spread=spread), width=720)
    figure(
        plots.method_weights,
        list(weight_of_title.values()),
        methods=list(weight_of_title),
        key="pool",
        alt="Weights of the methods, largest first",
        caption="All weights together are 1. A weight near 0: on your crystals the other methods "
        "do better without it.",
    )


def pool_sentence(weights: Mapping[str, float], *, spread: float) -> str:
    """Return the weights of the methods, largest first, and the factor on all intervals."""
    (first, largest), *smaller = weights.items()
    smaller_text = ", ".join(
        f"{words.escaped(title)} {words.percent(weight)}" for title, weight in smaller
    )
    text = f"{words.escaped(first)} carries {words.percent(largest)} of the answer; {smaller_text}."
    if spread == 1.0:
        return f"{text} The combined interval is not scaled."
    change = "narrower" if spread < 1 else "wider"
    return (
        f"{text} The combined interval was made {words.percent(abs(spread - 1.0))} {change}, which "
        "fits the gaps of left-out crystals better."
    )


_HELP = (
    "Each method was asked for crystals that it had not seen. The weights are those under which "
    "the gaps of these crystals are most probable, so a method that is sure of wrong answers loses "
    "its weight."
)
