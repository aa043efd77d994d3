"""Results of runs without layer weights: the kind of posterior, features, and chosen settings."""

import re

import numpy as np
import streamlit as st

from app.components.posterior import kernel_view, posterior_words
from app.components.shared import words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.jobs.rows import RunRow
from bandgap.storage.manifests import posterior_kinds

SHOWN_FEATURES = 15
_CURVE = re.compile(r"nll_([a-z]+)_(.+)")
SETTINGS = {
    "alpha": "alpha (crystals that the source model counts as)",
    "strength": "strength of the pull to the source model",
    "gamma": "gamma (weight of the source's own prior)",
}


def instead(files: RunFiles, run: RunRow, *, family: str) -> None:
    """Show which posterior a run without layer weights has."""
    st.markdown(words.escaped(run.title) + " " + instead_sentence(files, family=family), width=720)
    draws = files.draws.get("sigma_eV")
    if draws is not None:
        st.markdown(f"**noise sigma**: {posterior_words.scale_sentence(draws, unit=' eV')}.")


def metals_sentence(files: RunFiles) -> str:
    """Return what a posterior does not describe where the labels contain metals; else empty."""
    if "metals" not in posterior_kinds(files.manifest):
        return ""
    count = words.count(int(files.figures.get("metals", 0)), "metal")
    return (
        f"The labels contain {count}. What is below describes the gaps of the semiconductors; a "
        "classifier gives the probability of a metal (page Calibration)."
    )


def instead_sentence(files: RunFiles, *, family: str) -> str:
    """Return what the result of the method is; the sentence begins with the method's title."""
    sigma = files.draws.get("sigma_eV")
    count = 0 if sigma is None else sigma.size
    if count == 1:
        return (
            "gives one best answer: it has no posterior of layer weights. "
            f"{_one_sigma_sentence(files)} Bayesian transfer has a posterior."
        )
    if family == "one trained network":
        return (
            f"gives one best answer from each of {words.count(count, 'source network')}: it has no "
            "posterior of layer weights. Where these answers differ, the interval is wider."
        )
    if kernel_view.LENGTH in files.under("trace."):
        return (
            "keeps the hidden layers as they were and has no output weights: it compares crystals "
            "by their last hidden features. Its posterior is that of the gap itself, and of the "
            "few scales of this comparison."
        )
    if family == "output layer alone":
        return (
            "keeps the hidden layers as they were; its posterior is that of the output layer, "
            "feature by feature."
        )
    if family == "many trained networks":
        networks = words.count(count, "network") if count else "several networks"
        return (
            f"has no layer weights: its posterior is {networks} of equal weight, which differ "
            "where they know little."
        )
    if family == "without transfer":
        return (
            "learns from your crystals alone: there are no layers that could stay at the source "
            "model."
        )
    return (
        "has a posterior of all weights, but no prior that shares the change out among layers, "
        "hence no c."
    )


def _one_sigma_sentence(files: RunFiles) -> str:
    """Return what makes an interval wide where there is one noise sigma."""
    if "metals" in posterior_kinds(files.manifest):
        return (
            "For a semiconductor its spread is one noise sigma, the same for every crystal. The "
            "interval differs from crystal to crystal only by the predicted gap and by the "
            "probability of a metal."
        )
    return (
        "Its interval is one noise sigma, the same for every crystal, so that it is not wider for "
        "an unfamiliar crystal."
    )


def features(files: RunFiles) -> None:
    """Draw which features of the output layer moved; nothing for methods without these data."""
    arrays = files.under("features.")
    if "change_eV" not in arrays:
        return
    change, spread = _pooled(arrays["change_eV"], arrays["change_sd_eV"])
    finite = np.flatnonzero(np.isfinite(change))
    if not finite.size:
        return
    share = np.nanmean(arrays["kept_share"][:, finite], axis=0) if "kept_share" in arrays else None
    st.subheader(
        "Which features moved",
        anchor=False,
        help=_FEATURE_HELP
        + help_link("explanation/methods/output-layer", "Transfer of the output layer"),
    )
    st.markdown(feature_sentence(change[finite], share, n_features=change.size), width=720)
    order = np.argsort(-np.abs(change[finite]), kind="stable")[:SHOWN_FEATURES]
    figure(
        plots.feature_changes,
        change[finite][order],
        spread[finite][order],
        None if share is None else share[order],
        features=finite[order] + 1,
        key="features",
        alt="Changes of the output weights, largest first",
        caption="Bars: one posterior standard deviation. A bar across zero is a weight that may as "
        "well have stayed.",
    )


def feature_sentence(change: np.ndarray, share: np.ndarray | None, *, n_features: int) -> str:
    """Return how many features moved.

    Parameters
    ----------
    change
        Changes (feature,) of the output weights, in eV.
    share
        Shares (feature,) of the change by the data alone that the posterior has, if known.
    n_features
        Number of all features.
    """
    largest = float(np.abs(change).max())
    tail = f" The largest change is {largest:.2f} eV for one standard deviation of a feature."
    if share is None:
        return f"{change.size} of {n_features} features could move.{tail}"
    moved = int((share > 0.5).sum())
    stayed = int((share < 0.1).sum())
    return (
        f"Of {words.count(n_features, 'feature')}, {moved} kept more than half of the change that "
        f"their data alone would make, {stayed} less than a tenth: these stayed at the source "
        f"model. Together that is the change of {share.sum():.1f} free features.{tail}"
    )


def chosen_setting(files: RunFiles) -> None:
    """Draw the validation curve of a setting that the run chose; nothing if there was no choice."""
    matches = [
        (match.group(1), float(match.group(2)), score)
        for key, score in files.figures.items()
        if (match := _CURVE.fullmatch(key))
    ]
    if not matches:
        return
    name = matches[0][0]
    values, scores = np.array(
        sorted((value, score) for setting, value, score in matches if setting == name)
    ).T
    picked = files.figures.get(name, float(values[np.argmin(scores)]))
    st.subheader(
        f"How {name} was chosen",
        anchor=False,
        help=_CURVE_HELP + help_link("reference/csv-columns", "nll"),
    )
    st.markdown(
        setting_sentence(name, picked, values, scores, share=files.figures.get("prior_share")),
        width=720,
    )
    figure(
        plots.validation_curve,
        values,
        scores,
        name=SETTINGS.get(name, name),
        selected=picked,
        key="validation",
        alt=f"Held-out score against {name}",
        caption="Lower is better. A flat curve: the choice hardly matters. A minimum at an end: "
        "try values beyond it.",
    )


def setting_sentence(
    name: str, picked: float, values: np.ndarray, scores: np.ndarray, *, share: float | None = None
) -> str:
    """Return the chosen value and its margin to the others.

    Parameters
    ----------
    name
        Name of the setting.
    picked
        The chosen value.
    values
        All values (value,) that were tried.
    scores
        Their scores (value,) on held-out rows; lower is better.
    share
        Weight of the source model's own predictions, if the setting determines one.
    """
    other_scores = scores[values != picked]
    picked_scores = scores[values == picked]
    margin = ""
    if picked_scores.size and other_scores.size:
        margin = f", {other_scores.min() - picked_scores[0]:+.3f} against the next best"
    text = (
        f"{name} = {picked:g} was chosen among {len(values)} values by held-out rows{margin} (NLL)."
    )
    if share is not None:
        text += f" The source model's own predictions carry {words.percent(share)} of the weight."
    return text


def _pooled(mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (feature,) over chains of equal length."""
    return mean.mean(axis=0), np.sqrt((sd**2).mean(axis=0) + mean.var(axis=0))


_FEATURE_HELP = (
    "The output layer weighs the features that the source model has learned. A weight that moved "
    "is a feature that means something else in your crystals."
)
_CURVE_HELP = (
    "NLL: mean negative log predictive density of gaps that took no part in the fit; lower is "
    "better."
)
