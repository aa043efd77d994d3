"""How a prior variance was chosen: the log evidence of every one that was tried."""

import streamlit as st

from app.components.shared.run_files import RunFiles

PREFIX = "log_evidence_a_row_at_"


def evidence(files: RunFiles) -> None:
    """Say which prior variance a run chose by its evidence; nothing where there was no choice."""
    scores = {n.removeprefix(PREFIX): v for n, v in files.figures.items() if n.startswith(PREFIX)}
    if not scores:
        return
    st.subheader("How far the weights may move", anchor=False, help=_HELP)
    st.markdown(evidence_sentence(scores), width=720)


def evidence_sentence(scores: dict[str, float]) -> str:
    """Say which prior variance was chosen and how the others did, from their log evidence a crystal."""
    order = sorted(scores, key=lambda name: -scores[name])
    best, rest = order[0], order[1:]
    others = ", ".join(f"{_named(name)} {scores[name]:.2f}" for name in rest)
    return (
        f"{_named(best).capitalize()} was chosen: under it your crystals were most likely, each at "
        f"the time when it was taken in (log evidence {scores[best]:.2f} a crystal; {others}). "
        "Differences below about 0.05 tell little."
    )


def _named(name: str) -> str:
    return "the output layer alone" if name == "output_alone" else f"prior variance {name}"


_HELP = (
    "The prior variance says how far the weights may move from the source model. Each crystal is "
    "predicted before it is learned from; the log of how likely its gap was, averaged, is the log "
    "evidence: higher is better."
)
