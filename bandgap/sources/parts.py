"""What a source can carry beyond its point estimate, computed from the rows that it was trained on.

Features that no weight of the first layer takes, such as those of elements that the source does not have, are left out
of the rows: their Fisher information is zero, their snapshots do not move, their variational posterior is the prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.fisher import fisher_diagonal
from bandgap.networks.perceptron import Params, forward
from bandgap.networks.standardise import Standardiser
from bandgap.networks.swag import SnapshotConfig, Snapshots, collect_snapshots
from bandgap.networks.training import RowSplit
from bandgap.networks.variational import VariationalConfig, VariationalFit, WeightPrior, fit_variational, prior_sds
from bandgap.sources.statistics import FeatureStatistics, feature_statistics

ROWS_PER_BLOCK = 4096  # rows that exist in float64 at once


@dataclass(frozen=True, eq=False)
class Parts:
    """Statistics of the last hidden features, Fisher information, variational posterior and snapshots, on the CPU."""

    features: FeatureStatistics
    fisher: Params
    variational: VariationalFit | None
    snapshots: Snapshots | None


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


def squared_error(params: Params, x: Tensor, y: Tensor, chosen: Tensor, *, used: NDArray[np.bool_]) -> float:
    """Return the mean squared error of the chosen ones of the rows x (n, m) and y (n,) of `used_rows`."""
    with torch.no_grad():
        residuals = forward(_narrow(params, torch.from_numpy(used)), x[chosen]) - y[chosen]
    return float(residuals.double().square().mean())


def source_parts(
    params: Params,
    x: Tensor,
    y: Tensor,
    *,
    used: NDArray[np.bool_],
    split: RowSplit,
    noise_variance: float,
    variational: Sequence[VariationalConfig] = (),
    snapshots: SnapshotConfig | None = None,
    seed: int,
    device: torch.device,
    progress: Progress = no_progress,
) -> Parts:
    """Compute the parts of the point estimate `params` from the rows x (n, m) and y (n,) of `used_rows`.

    Statistics and Fisher information are of all rows, the other parts of those that were not held out; of several
    settings of the variational fit the one is kept whose means err least on the held-out rows. `noise_variance` is in
    squared standardised units.
    """
    columns = torch.from_numpy(used)
    own = _narrow(params, columns)
    statistics = feature_statistics(own, x, residual_variance=noise_variance)
    place = {name: value.to(device) for name, value in own.items()}
    blocks = x if device.type == "cpu" else x.to(device)
    fisher = fisher_diagonal(place, blocks, noise_variance=noise_variance, progress=progress)
    zeros = {name: torch.zeros_like(value) for name, value in params.items()}
    made = Parts(statistics, _wide({n: v.float() for n, v in fisher.items()}, columns, zeros), None, None)
    if not variational and snapshots is None:
        return made
    rows = x[split.training].to(device), y[split.training].to(device)
    sds = prior_sds(params)
    prior_sd = {name: torch.full_like(value, sds[name]) for name, value in params.items()}
    prior = WeightPrior(
        {name: torch.zeros_like(value) for name, value in place.items()},
        {name: torch.full_like(value, sds[name]) for name, value in place.items()},
    )
    fits = []
    for config in variational:
        phase = f"variational fit of the source, KL times {config.kl_weight:g}"
        fit = fit_variational(
            place, *rows, config=config, generator=_stream(seed, 1), prior=prior, phase=phase, progress=progress
        )
        mean, sd = _wide(fit.mean, columns, zeros), _wide(fit.sd, columns, prior_sd)
        error = squared_error(mean, x, y, split.held_out, used=used)
        fits.append(replace(fit, mean=mean, sd=sd, validation_mse=error))
    if fits:
        made = replace(made, variational=min(fits, key=lambda fit: fit.validation_mse))
    if snapshots is not None:
        walk = collect_snapshots(place, *rows, config=snapshots, generator=_stream(seed, 2), progress=progress)
        parts = (_wide(part, columns, zeros) for part in (walk.mean, walk.diagonal, walk.deviations))
        made = replace(made, snapshots=Snapshots(*parts))
    return made


def _narrow(params: Params, columns: Tensor) -> Params:
    """Return the parameters without the first layer's weights of features that are not used."""
    return {name: value[:, columns] if name == "weight.1" else value for name, value in params.items()}


def _wide(values: Params, columns: Tensor, others: Params) -> Params:
    """Return the values on the CPU, those of features that are not used being the `others`' (leading axes allowed)."""
    found = {name: value.cpu() for name, value in values.items()}
    narrow = found["weight.1"]
    full = others["weight.1"].to(narrow).expand(*narrow.shape[:-1], columns.shape[0]).clone()
    full[..., columns] = narrow
    return {**found, "weight.1": full}


def _stream(seed: int, number: int) -> torch.Generator:
    """Return a generator of its own for each part, so that none depends on which others are made."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
