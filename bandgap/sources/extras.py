"""Extras of a source, computed from the rows on which it was trained.

Features without weights in the first layer, such as those of elements that the source does not
have, are left out of the rows. Their Fisher information is zero, their weights in the snapshots do
not move, and their variational posterior is the prior.
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
from bandgap.networks.variational import (
    VariationalFit,
    WeightPrior,
    fit_variational,
    prior_sds,
)
from bandgap.sources.model import SourceModel
from bandgap.sources.statistics import feature_statistics

# Rows in float64 at a time.
ROWS_PER_CHUNK = 4096
# Relative difference in error up to which rows count as those of the training.
ERROR_TOLERANCE = 0.02


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
    for start in range(0, features.shape[0], ROWS_PER_CHUNK):
        chunk = standardiser.features(features[start : start + ROWS_PER_CHUNK])[:, used]
        x[start : start + ROWS_PER_CHUNK] = torch.from_numpy(chunk)
    return x, torch.from_numpy(standardiser.gaps(gaps_eV)).float()


def rows_to_visit(
    standardiser: Standardiser,
    features: NDArray[np.floating[Any]],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    used: NDArray[np.bool_],
) -> tuple[Rows, Tensor]:
    """Return the same as `used_rows`, without a copy of the features of a large set."""
    if not is_large(features):
        return used_rows(standardiser, features, gaps_eV, used=used)
    y = torch.from_numpy(standardiser.gaps(gaps_eV)).float()
    return StandardisedRows(features, standardiser, used=used), y


def squared_error(
    params: Params, x: Rows, y: Tensor, subset: Tensor, *, used: NDArray[np.bool_]
) -> float:
    """Return the mean squared error on a subset of the rows x (n, m) and y (n,) of `used_rows`."""
    with torch.no_grad():
        predictions = forward(_narrow(params, torch.from_numpy(used)), x[subset])
        residuals = predictions - y[subset]
    return float(residuals.double().square().mean())


def checked_split(
    split: RowSplit | None, source: SourceModel, x: Rows, y: Tensor, *, label: str = "the source"
) -> RowSplit:
    """Return the split if the rows are those of the training, judged by the held-out error.

    Parameters
    ----------
    split
        The split of the training; None if the number of rows is not that of the training.
    source
        The source model.
    x, y
        Rows (n, m) and gaps (n,) of `used_rows`.
    label
        Name of the source in the error message.

    Raises
    ------
    InputError
        If they are not the rows of the training.
    """
    held_out = torch.arange(y.shape[0]) if split is None else split.held_out
    mse = squared_error(source.params, x, y, held_out, used=used_features(source.params))
    error = math.sqrt(mse) * source.standardiser.y_sd_eV
    expected = source.card.validation_rmse_eV
    if split is None or not abs(error - expected) <= ERROR_TOLERANCE * expected:
        raise InputError(
            f"{label} was trained on {source.card.n_structures} structures with an error of "
            f"{expected:.4f} eV on those held out; these are {y.shape[0]} structures with an error "
            f"of {error:.4f} eV. Give the structures and gaps that it was trained on, in the same "
            "order."
        )
    return split


def with_computed_extras(
    source: SourceModel,
    x: Rows,
    y: Tensor,
    *,
    split: RowSplit,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source with the extras that its config asks for.

    Statistics and Fisher information use all rows, the other extras those that were not held out.

    Parameters
    ----------
    source
        The source model.
    x, y
        Rows (n, m) and gaps (n,) of the training from `used_rows`.
    split
        The split of the training.
    seed
        Seed of the variational fit and of the snapshots.
    device, progress
        Where and how they are computed.
    """
    torch_device = choose_device(device)
    is_used = used_features(source.params)
    used = torch.from_numpy(is_used)
    narrow = _narrow(source.params, used)
    noise_variance = (source.card.validation_rmse_eV / source.standardiser.y_sd_eV) ** 2
    statistics = feature_statistics(narrow, x, residual_variance=noise_variance)
    params = {name: value.to(torch_device) for name, value in narrow.items()}
    all_rows = x if torch_device.type == "cpu" else x.to(torch_device)
    fisher = fisher_diagonal(params, all_rows, noise_variance=noise_variance, progress=progress)
    zeros = {name: torch.zeros_like(value) for name, value in source.params.items()}
    wide_fisher = _wide({n: v.float() for n, v in fisher.items()}, used, zeros)
    source = replace(source, features=statistics, fisher=wide_fisher)
    config = source.config
    if not config.variational and config.snapshots is None:
        return source
    rows = (x[split.training].to(torch_device), y[split.training].to(torch_device))
    if config.variational:
        fits = [
            replace(fit, validation_mse=squared_error(fit.mean, x, y, split.held_out, used=is_used))
            for fit in _variational_fits(source, params, rows, used, seed=seed, progress=progress)
        ]
        best = min(fits, key=lambda fit: fit.validation_mse)
        source = replace(source, variational=best)
    if config.snapshots is not None:
        walk = collect_snapshots(
            params, *rows, config=config.snapshots, generator=_stream(seed, 2), progress=progress
        )
        snapshots = Snapshots(
            _wide(walk.mean, used, zeros),
            _wide(walk.diagonal, used, zeros),
            _wide(walk.deviations, used, zeros),
        )
        source = replace(source, snapshots=snapshots)
    return source


def _variational_fits(
    source: SourceModel,
    params: Params,
    rows: tuple[Tensor, Tensor],
    used: Tensor,
    *,
    seed: int,
    progress: Progress,
) -> list[VariationalFit]:
    """Return a variational fit for each of the config's settings, from the training rows.

    `params` are the weights of the used features, on the device of the rows.
    """
    sds = prior_sds(source.params)
    prior = WeightPrior(
        {name: torch.zeros_like(value) for name, value in params.items()},
        {name: torch.full_like(value, sds[name]) for name, value in params.items()},
    )
    zeros = {name: torch.zeros_like(value) for name, value in source.params.items()}
    prior_sd = {name: torch.full_like(value, sds[name]) for name, value in source.params.items()}
    fits = []
    for config in source.config.variational:
        fit = fit_variational(
            params,
            *rows,
            config=config,
            generator=_stream(seed, 1),
            prior=prior,
            phase=f"variational fit of the source, KL times {config.kl_weight:g}",
            progress=progress,
        )
        mean = _wide(fit.mean, used, zeros)
        fits.append(replace(fit, mean=mean, sd=_wide(fit.sd, used, prior_sd)))
    return fits


def _narrow(params: Params, used: Tensor) -> Params:
    """Return the parameters without the first layer's weights of unused features."""
    return {name: value[:, used] if name == "weight.1" else value for name, value in params.items()}


def _wide(values: Params, used: Tensor, fill: Params) -> Params:
    """Return the values on the CPU, with those of `fill` for unused features.

    Values may have leading axes.
    """
    on_cpu = {name: value.cpu() for name, value in values.items()}
    narrow = on_cpu["weight.1"]
    full = fill["weight.1"].to(narrow).expand(*narrow.shape[:-1], used.shape[0]).clone()
    full[..., used] = narrow
    return {**on_cpu, "weight.1": full}


def _stream(seed: int, number: int) -> torch.Generator:
    """Return a generator for one extra, so that it does not depend on which others are computed."""
    return torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    )
