"""The choice of a prior variance: the log evidence of every value that was tried."""

import streamlit as st

from app.components.shared.run_files import RunFiles

PREFIX = "log_evidence_a_row_at_"


def evidence(files: RunFiles) -> None:
    """Show which prior variance a run chose by its evidence; nothing if there was no choice."""
    scores = {n.removeprefix(PREFIX): v for n, v in files.figures.items() if n.startswith(PREFIX)}
    if not scores:
        return
    st.subheader("How far the weights may move", anchor=False, help=_HELP)
    st.markdown(evidence_sentence(scores), width=720)


def evidence_sentence(scores: dict[str, float]) -> str:
    """Return which prior variance was chosen, from the log evidence per crystal of each."""
    best, *other_names = sorted(scores, key=lambda name: -scores[name])
    other_scores = ", ".join(f"{_label(name)} {scores[name]:.2f}" for name in other_names)
    return (
        f"{_label(best).capitalize()} was chosen: under it your crystals were most likely, each at "
        f"the time when it was taken in (log evidence {scores[best]:.2f} a crystal; "
        f"{other_scores}). Differences below about 0.05 tell little."
    )


def _label(name: str) -> str:
    return "the output layer alone" if name == "output_alone" else f"prior variance {name}"


_HELP = (
    "The prior variance says how far the weights may move from the source model. Each crystal is "
    "predicted before it is learned from; the log of how likely its gap was, averaged, is the log "
    "evidence: higher is better."
)
