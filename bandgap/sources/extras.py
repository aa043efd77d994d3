"""What a source can carry beyond its point estimate, computed from the rows that it was trained on.

Features that no weight of the first layer takes, such as those of elements that the source does not have, are left out
of the rows: their Fisher information is zero, their snapshots do not move, their variational posterior is the prior.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.perceptron import Params, fisher_diagonal, forward
from bandgap.networks.row_blocks import Rows, StandardisedRows, is_large
from bandgap.networks.standardise import Standardiser
from bandgap.networks.swag import Snapshots, collect_snapshots
from bandgap.networks.training import RowSplit
from bandgap.networks.variational import WeightPrior, fit_variational, prior_sds
from bandgap.sources.model import SourceModel
from bandgap.sources.statistics import feature_statistics

ROWS_PER_BLOCK = 4096  # rows that exist in float64 at once
SAME_ERROR = 0.02  # relative difference in error up to which rows count as those that a source was trained on


def used_features(params: Params) -> NDArray[np.bool_]:
    """Return which features (p,) have any weight that is not zero."""
    return (params["weight.1"] != 0).any(0).cpu().numpy()


def used_rows(
    standardiser: Standardiser,
    features: NDArray[np.floating[Any]],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    used: NDArray[np.bool_],
) -> tuple[Tensor, Tensor]:
    """Return the standardised features that are used (n, m) and gaps (n,), in float32."""
    x = torch.empty(features.shape[0], int(used.sum()))
    for start in range(0, features.shape[0], ROWS_PER_BLOCK):
        block = standardiser.features(features[start : start + ROWS_PER_BLOCK])[:, used]
        x[start : start + ROWS_PER_BLOCK] = torch.from_numpy(block)
    return x, torch.from_numpy(standardiser.gaps(gaps_eV)).float()


def rows_to_visit(
    standardiser: Standardiser,
    features: NDArray[np.floating[Any]],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    used: NDArray[np.bool_],
) -> tuple[Rows, Tensor]:
    """Return what `used_rows` does, for features of a large set without a copy of them."""
    if not is_large(features):
        return used_rows(standardiser, features, gaps_eV, used=used)
    return StandardisedRows(features, standardiser, used=used), torch.from_numpy(
        standardiser.gaps(gaps_eV)
    ).float()


def squared_error(
    params: Params, x: Rows, y: Tensor, chosen: Tensor, *, used: NDArray[np.bool_]
) -> float:
    """Return the mean squared error of the chosen ones of the rows x (n, m) and y (n,) of `used_rows`."""
    with torch.no_grad():
        residuals = forward(_narrow(params, torch.from_numpy(used)), x[chosen]) - y[chosen]
    return float(residuals.double().square().mean())


def checked(
    split: RowSplit | None, source: SourceModel, x: Rows, y: Tensor, *, what: str = "the source"
) -> RowSplit:
    """Return the split where rows x (n, m) and y (n,) of `used_rows` are those of the training, by the held-out error.

    Raises InputError where they are not, and without a split, which is where their number is another one.
    """
    held_out = torch.arange(y.shape[0]) if split is None else split.held_out
    mse = squared_error(source.params, x, y, held_out, used=used_features(source.params))
    error, expected = math.sqrt(mse) * source.standardiser.y_sd_eV, source.card.validation_rmse_eV
    if split is None or not abs(error - expected) <= SAME_ERROR * expected:
        raise InputError(
            f"{what} was trained on {source.card.n_structures} structures with an error of {expected:.4f} eV on "
            f"those held out; these are {y.shape[0]} structures with an error of {error:.4f} eV. Give the structures "
            "and gaps that it was trained on, in the same order."
        )
    return split


def with_parts(
    source: SourceModel,
    x: Rows,
    y: Tensor,
    *,
    split: RowSplit,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source with the extras that its config asks for, from its rows x (n, m) and y (n,) of `used_rows`.

    Statistics and Fisher information are of all rows, the other parts of those that were not held out; of several
    settings of the variational fit the one is kept whose means err least on the held-out rows.
    """
    params, config, used, chosen = (
        source.params,
        source.config,
        used_features(source.params),
        choose_device(device),
    )
    noise_variance = (source.card.validation_rmse_eV / source.standardiser.y_sd_eV) ** 2
    columns = torch.from_numpy(used)
    own = _narrow(params, columns)
    statistics = feature_statistics(own, x, residual_variance=noise_variance)
    place = {name: value.to(chosen) for name, value in own.items()}
    blocks = x if chosen.type == "cpu" else x.to(chosen)
    fisher = fisher_diagonal(place, blocks, noise_variance=noise_variance, progress=progress)
    zeros = {name: torch.zeros_like(value) for name, value in params.items()}
    wide = _wide({n: v.float() for n, v in fisher.items()}, columns, zeros)
    made = replace(source, features=statistics, fisher=wide)
    if not config.variational and config.snapshots is None:
        return made
    rows = x[split.training].to(chosen), y[split.training].to(chosen)
    sds = prior_sds(params)
    prior_sd = {name: torch.full_like(value, sds[name]) for name, value in params.items()}
    prior = WeightPrior(
        {name: torch.zeros_like(value) for name, value in place.items()},
        {name: torch.full_like(value, sds[name]) for name, value in place.items()},
    )
    fits = []
    for wanted in config.variational:
        phase = f"variational fit of the source, KL times {wanted.kl_weight:g}"
        fit = fit_variational(
            place,
            *rows,
            config=wanted,
            generator=_stream(seed, 1),
            prior=prior,
            phase=phase,
            progress=progress,
        )
        mean, sd = _wide(fit.mean, columns, zeros), _wide(fit.sd, columns, prior_sd)
        error = squared_error(mean, x, y, split.held_out, used=used)
        fits.append(replace(fit, mean=mean, sd=sd, validation_mse=error))
    if fits:
        made = replace(made, variational=min(fits, key=lambda fit: fit.validation_mse))
    if config.snapshots is not None:
        walk = collect_snapshots(
            place, *rows, config=config.snapshots, generator=_stream(seed, 2), progress=progress
        )
        parts = (
            _wide(part, columns, zeros) for part in (walk.mean, walk.diagonal, walk.deviations)
        )
        made = replace(made, snapshots=Snapshots(*parts))
    return made


def _narrow(params: Params, columns: Tensor) -> Params:
    """Return the parameters without the first layer's weights of features that are not used."""
    return {
        name: value[:, columns] if name == "weight.1" else value for name, value in params.items()
    }


def _wide(values: Params, columns: Tensor, others: Params) -> Params:
    """Return the values on the CPU, those of features that are not used being the `others`' (leading axes allowed)."""
    found = {name: value.cpu() for name, value in values.items()}
    narrow = found["weight.1"]
    full = others["weight.1"].to(narrow).expand(*narrow.shape[:-1], columns.shape[0]).clone()
    full[..., columns] = narrow
    return {**found, "weight.1": full}


def _stream(seed: int, number: int) -> torch.Generator:
    """Return a generator of its own for each part, so that none depends on which others are made."""
    return torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    )
