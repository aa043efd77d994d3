"""NPTL of the output layer alone: the posterior bootstrap in closed form.

With frozen hidden layers, sample m of NPTL (Lee and others 2024, algorithm 1; `nptl.py`) is a
weighted ridge regression of the collapsed labels t on the hidden features h, with the probe's
penalty lambda:

    argmin_(w, b) sum_i omega_i (t_i - h_i'w - b)^2 + 2 lambda |w|^2

The weights omega have mean 2, so that omega = 2 and t = y is the probe itself. This is the local
step of the bootstrap with shared parameters (Fong, Lyddon and Holmes, 2019); the shared parameters
are the source's. There is no learning rate and no epoch: it takes milliseconds per sample, and
shows what moving the hidden layers adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation import citations
from bandgap.foundation.config import AtLeastTwo, Candidates, Count
from bandgap.foundation.progress import Update
from bandgap.inference.last_layer.linear_probe import weighted_ridge
from bandgap.networks.hidden_layers import arrays_of
from bandgap.posterior import Diagnostics, Floats, LastLayerPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.nptl import ALPHAS, DEFAULT_ALPHA, BootstrapRecipe, Pseudo
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import (
    HeldOut,
    Start,
    check_noise,
    choose,
    fit_sigma,
    held_out_masks,
    start_of,
)
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import Setting


@dataclass(frozen=True)
class NptlHeadConfig(Scales):
    """Samples, candidates for alpha, blocks, pseudo labels and scales, as for `nptl`."""

    samples: Count = 200
    alphas: Candidates = ALPHAS
    choice_samples: Count = 50
    blocks: AtLeastTwo = 10
    pseudo: Pseudo = "point"
    sigma: HeldOut = "auto"


def fit(
    source: SourceModel, data: TargetData, config: NptlHeadConfig, fitting: Fitting
) -> LastLayerPosterior:
    """Draw all output layers given the rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the transfer"))
    masks = held_out_masks(data.gaps_eV.size, rule=config.sigma, seed=fitting.seed)
    is_cross_validated = len(masks) > 1

    def start(trained: NDArray[np.bool_], fold: int = -1) -> Start:
        return start_of(
            source, data, trained=trained, fold=fold, **config.scales, coordinates="full"
        )

    folds = [start(mask, k if is_cross_validated else -1) for k, mask in enumerate(masks)]
    final = start(np.ones_like(masks[0])) if is_cross_validated else folds[0]
    y = np.concatenate([data.gaps_eV[~mask] for mask in masks])
    setting = Setting("alpha", config.alphas, DEFAULT_ALPHA)
    means = []
    for done, alpha in enumerate(config.alphas, start=1):
        heads = [
            draw_heads(fold, config, alpha=alpha, samples=config.choice_samples, seed=fitting.seed)
            for fold in folds
        ]
        means.append(_left_out_eV(folds, heads))
        fitting.progress(Update("choosing alpha", done, len(config.alphas)))
    index, sigmas, scores = choose(y, np.stack(means), default=setting.default_index)
    alpha = config.alphas[index]
    sigma_eV = float(sigmas[index])
    output = draw_heads(final, config, alpha=alpha, samples=config.samples, seed=fitting.seed)
    if not is_cross_validated:
        sigma_eV = fit_sigma(y, _left_out_eV(folds, [output]))
    check_noise(sigma_eV, final)
    figures = {
        f"nll_alpha_{a:g}": float(score) for a, score in zip(config.alphas, scores, strict=True)
    }
    n = final.n_trained
    return LastLayerPosterior(
        standardiser=final.standardiser,
        hidden=arrays_of(hidden_layers(source.params)),
        output=output[None],
        sigma=np.full((1, config.samples), sigma_eV / final.standardiser.y_sd_eV),
        seed=fitting.seed,
        diagnostics=Diagnostics(figures | {"alpha": alpha, "prior_share": alpha / (n + alpha)}),
    )


def draw_heads(
    start: Start, config: NptlHeadConfig, *, alpha: float, samples: int, seed: int
) -> Floats:
    """Return the output layers (samples, q + 1) of a start, the intercept last."""
    recipe = BootstrapRecipe(config.blocks, config.pseudo)
    hidden = start.hidden[start.trained]
    heads = []
    for number in range(samples):
        sample = recipe.sample(start, number, value=alpha, seed=seed)
        heads.append(
            weighted_ridge(hidden, sample.labels, sample.omega, penalty=2 * start.probe.penalty)
        )
    return np.stack(heads)


def _left_out_eV(folds: Sequence[Start], heads: Sequence[Floats]) -> Floats:
    """Return predictions (samples, n) in eV for all held-out rows, fold by fold."""
    parts = []
    for start, fold_heads in zip(folds, heads, strict=True):
        h = start.hidden[~start.trained]
        values = fold_heads[:, :-1] @ h.T + fold_heads[:, -1:]
        parts.append(start.standardiser.gaps_eV(values))
    return np.concatenate(parts, axis=1)


METHOD: Final = Method(
    name="nptl_head",
    family="output layer alone",
    standing="research",
    title="Nonparametric transfer, output layer",
    summary=(
        "Keeps the source model's hidden layers and refits its output layer to randomly "
        "reweighted crystals."
    ),
    references=(citations.NPTL,),
    duration="seconds",
    cost=Cost(2, 2.5),
    config=NptlHeadConfig,
    fit=fit,
)
