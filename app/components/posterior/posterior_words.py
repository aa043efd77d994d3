"""Sentences that interpret a posterior: layers that moved, agreement of the chains, scales."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bandgap.foundation.quantities import disagreement, worst_of

STAYED = 0.15  # mean of c below which a layer "stays close" to the source model
MOVED = 0.5  # mean of c above which a layer "is re-learned"


def layer_sentence(c: np.ndarray, *, n: int, prior: np.ndarray | None = None) -> str:
    """Return which layers moved, in comparison with the prior.

    Parameters
    ----------
    c
        Posterior draws (draw, layer) of the layer weights.
    n
        Number of labelled structures.
    prior
        Draws (draw, layer) from the prior. The default is Dirichlet(1, ..., 1), where one weight
        of L has mean 1/L and variance (L - 1) / (L^2 (L + 1)).
    """
    layers = c.shape[1]
    mean = c.mean(axis=0)
    sd = c.std(axis=0)
    prior_mean = np.full(layers, 1 / layers) if prior is None else prior.mean(axis=0)
    prior_sd = (
        np.sqrt((layers - 1) / (layers**2 * (layers + 1))) if prior is None else prior.std(axis=0)
    )
    if np.all(np.abs(mean - prior_mean) < 0.5 * prior_sd) and np.all(sd > 0.6 * prior_sd):
        return (
            f"With {n:,} labelled structures the posterior of c hardly differs from its prior: "
            "the data cannot say yet which layers moved."
        )
    stayed = [k for k in range(layers) if mean[k] < STAYED]
    moved = [k for k in range(layers) if mean[k] > MOVED]
    between = [k for k in range(layers) if k not in stayed and k not in moved]
    parts = []
    if stayed:
        stay = "stays" if len(stayed) == 1 else "stay"
        parts.append(
            f"{_names(stayed, layers)} {stay} close to the source model "
            f"({_values(stayed, mean, sd)})"
        )
    if moved:
        parts.append(
            f"{_names(moved, layers)} is re-learned for your crystals ({_values(moved, mean, sd)})"
        )
    if between:
        verb = "takes" if len(between) == 1 else "take"
        parts.append(
            f"{_names(between, layers)} {verb} a part of the change ({_values(between, mean, sd)})"
        )
    text = "; ".join(parts) + "."
    return text[:1].upper() + text[1:]


def function_sentence(kappa: np.ndarray, *, prior: np.ndarray | None = None) -> str:
    """Return the share of each layer in the freedom to change the gap, from draws (draw, layer)."""
    mean = kappa.mean(axis=0)
    sd = kappa.std(axis=0)
    names = [*layer_names(len(mean))[:-1], "the output layer"]
    shares = [
        f"{100 * m:.0f} +/- {100 * s:.0f} % is in {name}"
        for name, m, s in zip(names, mean, sd, strict=True)
    ]
    text = f"Of the freedom to change the predicted gap, {', '.join(shares[:-1])} and {shares[-1]}"
    before = (
        ""
        if prior is None
        else f" (before: {', '.join(f'{100 * m:.0f} %' for m in prior.mean(axis=0))})"
    )
    return f"{text}{before}. A layer with many inputs changes the gap much with a small c."


def convergence_sentence(
    rhat: Mapping[str, float], ess: Mapping[str, float], *, divergences: int = 0
) -> str:
    """Return whether the chains agree and, if not, on which quantity and what to do."""
    text = disagreement(rhat)
    if text is None:
        text = (
            f"Chains agree (R-hat {rhat[worst_of(rhat)]:.3f}, {min(ess.values()):,.0f} effective "
            "draws)."
        )
    if divergences:
        text += (
            f" {divergences:,} divergent trajectories: the posterior may have a corner that was "
            "not visited."
        )
    return text


def converged(rhat: Mapping[str, float]) -> bool:
    """Return whether every R-hat is below its limit."""
    return bool(rhat) and disagreement(rhat) is None


def scale_sentence(draws: np.ndarray, *, unit: str) -> str:
    """Return median and central 95 % of a scale, or its value if all draws are equal."""
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975])
    if low == high:
        return f"{middle:.2g}{unit}, one number for all draws"
    return f"Median {middle:.2g}{unit} (95 %: {low:.2g} to {high:.2g})"


def summary_frame(
    draws: Mapping[str, np.ndarray], rhat: Mapping[str, float], ess: Mapping[str, float]
) -> pd.DataFrame:
    """Return one row per quantity: median, central 95 %, mean, sd, R-hat and effective draws."""
    columns: dict[str, np.ndarray] = {}
    for name, values in draws.items():
        if values.ndim == 3:
            columns |= {f"{name}{k + 1}": values[..., k].ravel() for k in range(values.shape[-1])}
        else:
            columns[name.removesuffix("_eV")] = values.ravel()
    rows = []
    for name in dict.fromkeys([*columns, *rhat, *ess]):
        row: dict[str, Any] = {"quantity": name}
        if name in columns:
            low, middle, high = np.quantile(columns[name], [0.025, 0.5, 0.975])
            row |= {
                "median": middle,
                "2.5 %": low,
                "97.5 %": high,
                "mean": columns[name].mean(),
                "sd": columns[name].std(),
            }
        rows.append(
            row | {"R-hat": rhat.get(name, np.nan), "effective draws": ess.get(name, np.nan)}
        )
    return pd.DataFrame(rows)


def layer_names(count: int) -> list[str]:
    """Return the names of `count` layers, of which the last one is the output layer."""
    return [f"layer {k + 1}" for k in range(count - 1)] + ["output layer"]


def _names(which: Sequence[int], layers: int) -> str:
    inner = [str(k + 1) for k in which if k < layers - 1]
    parts = []
    if inner:
        parts.append(("layer " if len(inner) == 1 else "layers ") + " and ".join(inner))
    if layers - 1 in which:
        parts.append("the output layer")
    return " and ".join(parts)


def _values(which: Sequence[int], mean: np.ndarray, sd: np.ndarray) -> str:
    return ", ".join(f"c{k + 1} = {mean[k]:.2f} +/- {sd[k]:.2f}" for k in which)
