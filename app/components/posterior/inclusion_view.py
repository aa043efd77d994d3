"""Inclusion probabilities of weights, for methods that switch units off with a probability."""

import numpy as np
import pandas as pd
import streamlit as st

from app.components.posterior import posterior_words
from app.components.shared import downloads, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots

SELDOM = 0.05
OFTEN = 0.95


def inclusion(files: RunFiles) -> None:
    """Draw the inclusion probabilities of the weights of every layer; nothing for other methods."""
    probabilities = files.under("inclusion.")
    if "weights" not in probabilities:
        return
    quantiles = probabilities["weights"].mean(axis=0)  # (quantile, layer)
    unit_names = sorted(name for name in probabilities if name.startswith("units."))
    units = [probabilities[name].mean(axis=0) for name in unit_names]
    names = posterior_words.layer_names(quantiles.shape[1])
    st.subheader(
        "Which weights take part",
        anchor=False,
        help=_HELP + help_link("research/methods", "pbp"),
    )
    st.markdown(inclusion_sentence(units, quantiles, names=names), width=720)
    figure(
        plots.layer_scales,
        quantiles,
        layers=names,
        title="inclusion probability of a weight (0 to 1)",
        log=False,
        key="inclusion",
        alt="Inclusion probabilities of the weights of every layer",
        caption="Median, central half (thick) and central 95 % (thin) of a layer's weights. Near "
        "0: seldom in use.",
    )
    with st.expander("Inclusion probabilities as a table: every layer in nine steps"):
        steps = np.linspace(0.1, 0.9, 9)
        rows = np.quantile(quantiles, steps, axis=0)
        table = pd.DataFrame(rows, columns=names).round(3)
        table.insert(0, "share of weights below", [words.percent(step) for step in steps])
        alt = "Inclusion probabilities of every layer in nine steps"
        downloads.table_with_csv(table, "inclusion.csv", alt=alt)


def inclusion_sentence(units: list[np.ndarray], quantiles: np.ndarray, *, names: list[str]) -> str:
    """Return how many hidden units are on, and how many weights take part.

    Parameters
    ----------
    units
        For each hidden layer the probabilities (unit,) that its units are on.
    quantiles
        Quantiles (quantile, layer) of the inclusion probabilities of the weights.
    names
        Names of the layers.
    """
    parts = [
        f"of {words.count(on.size, 'unit')} of {name}, {int((on > OFTEN).sum())} are on for nearly "
        f"every crystal and {int((on < SELDOM).sum())} for hardly any"
        for name, on in zip(names, units, strict=False)
    ]
    below = [float(np.mean(layer < SELDOM)) for layer in quantiles.T]
    seldom = ", ".join(
        f"{words.percent(share)} in {name}" for name, share in zip(names, below, strict=True)
    )
    text = "; ".join(parts) + "."
    return (
        f"{words.sentence(text)} Weights that take part in fewer than one prediction in twenty: "
        f"{seldom}. None has been removed."
    )


_HELP = (
    "A weight takes part in a prediction where the two units that it joins are not zero. Its "
    "inclusion probability is how often that is so for your crystals, given what the weights leave "
    "open."
)
