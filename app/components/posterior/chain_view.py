"""Diagnostics of the chains: advice on each diagnostic, traces, rank plots and energies."""

import numpy as np
import streamlit as st

from app.components.posterior import posterior_words
from app.components.shared import words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.foundation.quantities import RHAT_LIMIT, Quantity, quantity_words, worst_of

# Effective draws below which R-hat and intervals are unreliable: Vehtari et al. (2021), section 4.
ENOUGH_DRAWS = 400
# Betancourt (2016).
LEAST_EBFMI = 0.3
LABELS = {"tau": "log tau", "sigma": "log sigma", "x": "log scale x", "energy": "energy"} | {
    name: quantity_words(name).removeprefix("the ") for name in ("predictions", "fit")
}


def chains(files: RunFiles) -> None:
    """Draw the diagnostics of a run with chains; nothing for other runs."""
    if not files.rhat:
        return
    st.subheader(
        "Do the chains agree?",
        anchor=False,
        help=f"{Quantity.RHAT.help} {Quantity.ESS.help}"
        + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
    )
    converged = posterior_words.converged(files.rhat)
    text = posterior_words.convergence_sentence(
        files.rhat, files.ess, divergences=files.divergences
    )
    if converged:
        st.markdown(text)
    elif not files.warnings:  # otherwise the warnings contain it
        st.warning(text, icon=":material/warning:")
    for line in advice(files):
        st.markdown(f"- {line}")
    traces = files.under("trace.")
    if "energy" in files.record:
        traces["energy"] = files.record["energy"]
    if traces:
        _figures(files, {name: traces[name] for name in sorted(traces, key=_position)})


def advice(files: RunFiles) -> list[str]:
    """Return one sentence on each diagnostic: its value, and what to do."""
    worst = worst_of(files.rhat)
    value = files.rhat[worst]
    fine = value <= RHAT_LIMIT
    lines = [
        f"**R-hat** {value:.3f} ({_label(worst)}): "
        + (
            "the chains agree; nothing to do."
            if fine
            else f"raise warm-up or draws until it is below {RHAT_LIMIT}."
        )
    ]
    if files.ess:
        scarce = min(files.ess, key=lambda name: files.ess[name])
        count = files.ess[scarce]
        enough = "enough for means and 95 % intervals." if count >= ENOUGH_DRAWS else _MORE_DRAWS
        lines.append(f"**Effective draws** {count:,.0f} ({_label(scarce)}): {enough}")
    if "divergences" in files.figures:
        lines.append(
            f"**Divergences** {files.divergences:,}: "
            + (
                "no path left the posterior."
                if not files.divergences
                else "raise the target acceptance, which shortens steps."
            )
        )
    if "ebfmi_min" in files.figures:
        share = files.figures["ebfmi_min"]
        good = (
            "momenta reach all energies."
            if share >= LEAST_EBFMI
            else "tails may be missed; raise warm-up and draws."
        )
        lines.append(f"**Energy** E-BFMI {share:.2f} (want above {LEAST_EBFMI}): {good}")
    return lines


def _figures(files: RunFiles, traces: dict[str, np.ndarray]) -> None:
    with st.container(horizontal=True):
        name = st.selectbox(
            "Quantity", list(traces), format_func=_label, key="trace-quantity", width=220
        )
        values = traces[name]
        if files.members > 1:
            numbers = list(range(files.members))
            which = st.selectbox(
                "Source network",
                numbers,
                format_func=lambda k: f"network {k + 1}",
                key="trace-network",
                width=220,
            )
            values = np.split(values, files.members)[which]
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        alt = f"Traces of {_label(name)}, one line a chain"
        figure(
            plots.traces, values, label=_label(name), key="trace", alt=alt, caption=_TRACE_CAPTION
        )
    with right_column:
        figure(
            plots.rank_plot,
            values,
            key="ranks",
            alt=f"Rank plot of {_label(name)}",
            caption=_RANK_CAPTION,
        )
    if name == "energy":
        alt = "Energies about their mean, and their changes"
        figure(plots.energies, values, key="energies", alt=alt, caption=_ENERGY_CAPTION)


def _position(name: str) -> tuple[int, str]:
    """Return the sort key of a quantity in the list: scales, then layers, then the energy."""
    scales = ["tau", "sigma", "x"]
    if name in scales:
        return scales.index(name), ""
    return len(scales) + (name == "energy"), name


def _label(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    if name.startswith("tau") and name[3:].isdigit():
        return f"log tau of layer {name[3:]}"
    return words.escaped(name)


_MORE_DRAWS = f"ends of 95 % intervals are uncertain below about {ENOUGH_DRAWS}; add draws."
_TRACE_CAPTION = (
    "Lines should lie on each other without drift. A line away from the others has not reached the "
    "same region yet."
)
_RANK_CAPTION = (
    "Every chain should keep near the dotted line. A slope or a hump is a chain that samples "
    "another distribution."
)
_ENERGY_CAPTION = (
    "The two curves should be about as wide. A much narrower change: the chain moves slowly "
    "through the tails."
)
