"""Sentences that interpret what a run learned: layers, features, kernels, pools and chains."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from app.components.shared import words
from app.components.shared.run_files import RunFiles
from bandgap import plots
from bandgap.foundation.quantities import disagreement, worst_of

CORRECTION_HELP = (
    "The network with the source's weights is corrected by the transfer. The part of a layer is "
    "what its change adds to the correction that held-out gaps ask for, on average over the orders "
    "in which the layers can be changed. In brackets: 95 % over draws and held-out structures."
)


def layer_sentence(correction: Mapping[str, Any] | None, *, n: int) -> str:
    """Return how much of the learned correction comes from which layer, in eV.

    Parameters
    ----------
    correction
        Entry `correction` of the diagnostics: `needed_eV`, `made_eV` and, by layer, `layers_eV`,
        the last two with mean and both ends of the 95 % interval. None where it is not stored.
    n
        Number of labelled structures.
    """
    if correction is None:
        return (
            "How much of the correction comes from which layer is measured on held-out structures "
            "when a run is trained. This run has none."
        )
    labels = words.count(n, "label")
    made_text = _range(correction["made_eV"])
    if correction["made_eV"][1] <= 0:
        return (
            f"Whether the layers correct the source model cannot be told from {labels} yet: the "
            f"held-out gaps ask for {correction['needed_eV']:.2f} eV, the transfer gives "
            f"{made_text}."
        )
    *hidden, output = plots.layer_names(len(correction["layers_eV"]))
    parts = dict(zip([*hidden, f"the {output}"], correction["layers_eV"], strict=True))
    told_parts = [f"{_range(part)} by {name}" for name, part in parts.items() if _is_told(part)]
    untold_parts = [f"{name}, {_range(v)}" for name, v in parts.items() if not _is_told(v)]
    text = (
        f"Held-out gaps ask for a correction of {correction['needed_eV']:.2f} eV; the transfer "
        f"gives {made_text}"
    )
    text += f": {', '.join(told_parts)}." if told_parts else "."
    if untold_parts:
        text += f" Cannot be told from {labels} yet: {'; '.join(untold_parts)}."
    return text


def _is_told(part: list[float]) -> bool:
    """Return whether an interval excludes zero."""
    return part[1] > 0 or part[2] < 0


def _range(part: list[float]) -> str:
    mean, low, high = part
    return f"{mean:z.2f} eV (95 %: {low:z.2f} to {high:z.2f})"


def learned_sentences(files: RunFiles, *, titles: Mapping[str, str]) -> list[str]:
    """Return what a run without layer weights learned; `titles` are those of pooled methods."""
    sentences = [
        _feature_sentence(files.under("features.")),
        pool_sentence(files.pool, titles),
        far_sentence(files.figures.get("far_share", 0.0), n=files.n_test),
    ]
    return [text for text in sentences if text]


def _feature_sentence(arrays: Mapping[str, np.ndarray]) -> str:
    """Return how many features of the output layer moved, and how far."""
    if "change_eV" not in arrays:
        return ""
    change = arrays["change_eV"].mean(axis=0)
    finite = np.isfinite(change)
    if not finite.any():
        return ""
    largest = float(np.abs(change[finite]).max())
    tail = f" The largest change is {largest:.2f} eV for one standard deviation of a feature."
    if "kept_share" not in arrays:
        return f"{finite.sum()} of {change.size} features could move.{tail}"
    share = np.nanmean(arrays["kept_share"][:, finite], axis=0)
    return (
        f"Of {words.count(change.size, 'feature')} of the source model, {(share > 0.5).sum()} kept "
        f"more than half of the change that their data alone would make; {(share < 0.1).sum()} "
        f"stayed.{tail}"
    )


def pool_sentence(weights: Mapping[str, float], titles: Mapping[str, str]) -> str:
    """Return the weights of the methods, largest first."""
    if not weights:
        return ""
    parts = ", ".join(
        f"{words.escaped(titles.get(name, name).removesuffix(', no transfer'))} "
        f"{words.percent(weight)}"
        for name, weight in sorted(weights.items(), key=lambda item: -item[1])
    )
    return f"Who carries the answer: {parts}."


def far_sentence(share: float, *, n: int) -> str:
    """Return a note on the share of `n` held-out structures far from the data; "" for none."""
    count = round(share * n)
    if not count:
        return ""
    return (
        f"At **{count:,} of {n:,}** held-out structures the labels say next to nothing: the "
        "prediction is the source model's line alone. Labels of crystals like these would tell "
        "more."
    )


def convergence_sentence(files: RunFiles) -> str:
    """Return how far the chains agree, and on divergent trajectories."""
    text = disagreement(files.rhat) or (
        f"Chains agree (R-hat {files.rhat[worst_of(files.rhat)]:.3f}, "
        f"{min(files.ess.values()):,.0f} effective draws)."
    )
    if divergences := files.figures.get("divergences"):
        text += (
            f" {divergences:,.0f} divergent trajectories: the posterior may have a corner that "
            "was not visited."
        )
    return text


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
    samples = pd.DataFrame(
        {name: pd.Series(column) for name, column in columns.items()}, dtype=float
    )
    low, middle, high = (samples.quantile(share) for share in (0.025, 0.5, 0.975))
    table = pd.DataFrame(
        {
            "median": middle,
            "2.5 %": low,
            "97.5 %": high,
            "mean": samples.mean(),
            "sd": samples.std(ddof=0),
            "R-hat": pd.Series(rhat, dtype=float),
            "effective draws": pd.Series(ess, dtype=float),
        }
    )
    names = pd.Index(dict.fromkeys([*columns, *rhat, *ess]), name="quantity", dtype="str")
    return table.reindex(names).reset_index().dropna(axis="columns", how="all")
