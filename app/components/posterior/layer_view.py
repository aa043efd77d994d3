"""Layers that moved: their weights c, shares of the change of the gap, and scales, with priors."""

from typing import Any

import numpy as np
import streamlit as st

from app.components.posterior import posterior_words
from app.components.shared import downloads
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.foundation.quantities import Quantity


def layers(files: RunFiles) -> None:
    """Draw the layer weights c and their prior, with sentences that interpret them."""
    c = _flat(files, "c")
    prior = _prior(files, "c")
    names = posterior_words.layer_names(c.shape[1])
    st.subheader(
        "Which layers moved",
        anchor=False,
        help=Quantity.C.help + help_link("tutorials/reading-a-posterior", "Which layers moved?"),
    )
    st.markdown(posterior_words.layer_sentence(c, n=files.n, prior=prior))
    if "kappa" in files.draws:
        sentence = posterior_words.function_sentence(
            _flat(files, "kappa"), prior=_prior(files, "kappa")
        )
        st.markdown(
            sentence,
            help=Quantity.KAPPA.help
            + help_link("tutorials/reading-a-posterior", "Which layers moved?"),
        )
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        alt = "Posterior density of the layer weights, and their prior"
        figure(
            plots.layer_weights,
            c,
            layers=names,
            prior_draws=prior,
            key="layers",
            alt=alt,
            caption=_RIDGE_CAPTION,
        )
    with right_column:
        if c.shape[1] == 3:
            alt = "Layer weights of three layers in a ternary diagram"
            figure(
                plots.ternary,
                c,
                layers=names,
                prior=prior,
                key="ternary",
                alt=alt,
                caption=_TERNARY_CAPTION,
            )
        elif "kappa" in files.draws:
            _shares(files, names)
    if c.shape[1] == 3 and "kappa" in files.draws:
        _shares(files, names)


def scales(files: RunFiles) -> None:
    """Draw tau and sigma with their priors, and tau of every layer."""
    st.subheader("How far it moved", anchor=False)
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        for quantity, key, log in (
            (Quantity.TAU, "tau", True),
            (Quantity.SIGMA, "sigma_eV", False),
        ):
            if key in files.draws:
                _scale(files, quantity, key, log=log)
    with right_column:
        if "c" in files.draws and "tau" in files.draws:
            names = posterior_words.layer_names(files.draws["c"].shape[-1])
            prior = None
            if (before := _prior(files, "c")) is not None:
                prior = _floored(before * files.record["prior.tau"].reshape(-1, 1))
            draws = _flat(files, "c") * files.draws["tau"].reshape(-1, 1)
            st.markdown(
                f"**{Quantity.LAYER_TAU.label}**",
                help=Quantity.LAYER_TAU.help
                + help_link("explanation/methods/bayesian-all-layers", "btl_pcp_pe"),
            )
            _intervals(
                _floored(draws),
                names,
                prior,
                title=Quantity.LAYER_TAU.axis,
                key="layer-tau",
                alt="Scale of every layer, and its prior",
            )


def numbers(files: RunFiles) -> None:
    """Show all figures as a table in an expander."""
    what = "Layer weights, tau, sigma" if "c" in files.draws else "Scales"
    with st.expander(f"{what}, R-hat and effective draws as a table"):
        table = posterior_words.summary_frame(files.draws, files.rhat, files.ess)
        downloads.table_with_csv(table, "scales.csv", alt="Scales, R-hat and effective draws")


def _shares(files: RunFiles, names: list[str]) -> None:
    _intervals(
        _flat(files, "kappa"),
        names,
        _prior(files, "kappa"),
        title=f"{Quantity.KAPPA.label} (0 to 1)",
        log=False,
        key="kappa",
        alt="Share of every layer in the change of the predicted gap, and its prior",
    )


def _intervals(
    draws: np.ndarray, names: list[str], prior: np.ndarray | None, **options: Any
) -> None:
    figure(
        plots.layer_scales, draws, layers=names, prior=prior, caption=_INTERVAL_CAPTION, **options
    )


def _scale(files: RunFiles, quantity: Quantity, key: str, *, log: bool) -> None:
    draws = files.draws[key]
    unit = f" {quantity.unit}" if quantity.unit else ""
    st.markdown(
        f"**{quantity.label}**: {posterior_words.scale_sentence(draws, unit=unit)}",
        help=quantity.help,
    )
    if np.ptp(draws) > 0:
        figure(
            plots.draws_density,
            draws,
            quantity=quantity,
            log=log,
            prior_draws=files.record.get(f"prior.{key}"),
            key=key,
            alt=f"Posterior density of {quantity.label}, and its prior",
        )


def _flat(files: RunFiles, name: str) -> np.ndarray:
    return files.draws[name].reshape(-1, files.draws[name].shape[-1])


def _prior(files: RunFiles, name: str) -> np.ndarray | None:
    draws = files.record.get(f"prior.{name}")
    return None if draws is None else draws.reshape(-1, draws.shape[-1]).astype(np.float64)


def _floored(values: np.ndarray) -> np.ndarray:
    """Return values raised to at least 1e-12, so that a logarithmic axis can show them."""
    floored: np.ndarray = np.maximum(values, 1e-12)
    return floored


_RIDGE_CAPTION = (
    "Filled: after learning. Dashed: before (prior). A filled curve near 0 is a layer that stayed "
    "as it was."
)
_TERNARY_CAPTION = (
    "One point a draw. A corner is where one layer took all the change; the prior is spread over "
    "all."
)
_INTERVAL_CAPTION = (
    "Median, central half (thick) and central 95 % (thin); diamonds and their bars: before (prior)."
)
