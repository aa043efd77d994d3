"""Whether the chains agree: one sentence of advice for each diagnostic, with traces, rank plots and energies."""

import numpy as np
import streamlit as st

from app.components.posterior import posterior_words
from app.components.shared import words
from app.components.shared.drawing import figure
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.foundation.quantities import RHAT_LIMIT, Quantity, quantity_words, worst_of

ENOUGH_DRAWS = 400  # Vehtari et al. (2021), section 4: effective draws below which R-hat and intervals are unreliable
LEAST_EBFMI = 0.3  # Betancourt (2016)
LABELS = {"tau": "log tau", "sigma": "log sigma", "x": "log scale x", "energy": "energy"} | {
    name: quantity_words(name).removeprefix("the ") for name in ("predictions", "fit")
}


def chains(files: RunFiles) -> None:
    """Draw the diagnostics of a run that has chains; nothing for others."""
    if not files.rhat:
        return
    st.subheader(
        "Do the chains agree?", anchor=False, help=f"{Quantity.RHAT.help} {Quantity.ESS.help}"
    )
    agreed = posterior_words.converged(files.rhat)
    text = posterior_words.convergence_sentence(
        files.rhat, files.ess, divergences=files.divergences
    )
    if agreed:
        st.markdown(text)
    elif not files.warnings:  # otherwise they say it already
        st.warning(text, icon=":material/warning:")
    for line in advice(files):
        st.markdown(f"- {line}")
    found = files.under("trace.") | {
        name: files.record[name] for name in ("energy",) if name in files.record
    }
    if found:
        _figures(files, {name: found[name] for name in sorted(found, key=_place)})


def advice(files: RunFiles) -> list[str]:
    """Return one sentence on each diagnostic: what it is, and what to do about it."""
    worst = worst_of(files.rhat)
    value = files.rhat[worst]
    fine = value <= RHAT_LIMIT
    lines = [
        f"**R-hat** {value:.3f} ({_named(worst)}): "
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
        lines.append(f"**Effective draws** {count:,.0f} ({_named(scarce)}): {enough}")
    if "divergences" in files.figures:
        found = files.divergences
        lines.append(
            f"**Divergences** {found:,}: "
            + (
                "no path left the posterior."
                if not found
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
            "Quantity", list(traces), format_func=_named, key="trace-quantity", width=220
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
    left, right = st.columns(2, gap="large")
    with left:
        alt = f"Traces of {_named(name)}, one line a chain"
        figure(
            plots.traces, values, label=_named(name), key="trace", alt=alt, caption=_TRACE_CAPTION
        )
    with right:
        figure(
            plots.rank_plot,
            values,
            key="ranks",
            alt=f"Rank plot of {_named(name)}",
            caption=_RANK_CAPTION,
        )
    if name == "energy":
        alt = "Energies about their mean beside their changes"
        figure(plots.energies, values, key="energies", alt=alt, caption=_ENERGY_CAPTION)


def _place(name: str) -> tuple[int, str]:
    """Return where a quantity stands in the list: scales, then layers, then the energy."""
    known = ["tau", "sigma", "x"]
    return (known.index(name), "") if name in known else (len(known) + (name == "energy"), name)


def _named(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    if name.startswith("tau") and name[3:].isdigit():
        return f"log tau of layer {name[3:]}"
    return words.escaped(name)


_MORE_DRAWS = f"ends of 95 % intervals are uncertain below about {ENOUGH_DRAWS}; raise the draws."
_TRACE_CAPTION = (
    "Lines should lie on each other without drift. A line that stays apart has not found the "
    "others yet."
)
_RANK_CAPTION = (
    "Every chain should keep near the dotted line. A slope or a hump is a chain that sees another "
    "posterior."
)
_ENERGY_CAPTION = (
    "The two curves should be about as wide. A much narrower change: the chain creeps through the "
    "tails."
)
