r"""How unusual a structure is among known ones: p-values of flows and of neighbour distances.

Every known row belongs to one of K folds. Flow k is fitted to the rows outside of fold k, in their
whitened principal coordinates, and gives the rows of fold k and every new row a log-density and the
distance to the tenth nearest row that it was fitted to. For a new row, the rows of each fold are
compared with it by the flow that has not seen them. The counts of all folds together give
cross-conformal p-values (Vovk 2015):

    p_low     = (1 + #{i: s(x_i) <= s(x)}) / (n + 1)        unusually unlikely
    p_high    = (1 + #{i: s(x_i) >= s(x)}) / (n + 1)        unusually likely
    p_near    = (1 + #{i: dist(x_i) >= dist(x)}) / (n + 1)  far from all known rows
    p         = min(1, 2 min(p_density, p_near)),  p_density = min(1, 2 min(p_low, p_high))

A likely row is not a typical one: in many dimensions hardly any row lies near the mode. A flow also
extrapolates through its networks, which the distance to neighbours does not. The factors 2 are
Bonferroni's, valid whatever the dependence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.flows.fitting import FittedFlows, FlowTraining, fit_flows
from bandgap.inference.flows.masked_flow import BatchMoments, FlowConfig
from bandgap.inference.flows.nonparametric import BasePosterior
from bandgap.networks.perceptron import Params

Floats = NDArray[np.float64]

N_FOLDS = 5
# Fewer known rows give no p-value below 0.01: the smallest one is 2 / (n + 1).
MIN_ROWS = 200
MAX_ROWS = 2_000  # a fixed random subset of more rows is used
NEIGHBOUR = 10  # the distance to the tenth nearest row
LEAST_DIMENSIONS = 8
MOST_DIMENSIONS = 32
EXPLAINED = 0.95  # share of the variance that the coordinates have
ROWS_PER_DIMENSION = 10
STOPPING_SHARE = 0.15  # of the rows of a flow, by which its training is stopped
TIE = 1e-7  # scores that differ by less are equal: they depend on the other rows of a chunk
REPEATED_SHARE = 0.01  # share of equal values in a column from which it has no density
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class PValues:
    """How unusual each row is: p (n,), its smallest and largest value over the flows, and parts.

    The value of a flow is p if the known rows of all folds were those of its fold: the range is the
    uncertainty from training and from the finite number of known rows.
    """

    p: Floats
    lowest: Floats
    highest: Floats
    density: Floats
    neighbours: Floats

    def with_range(self) -> Floats:
        """Return p and its smallest and largest value over the flows, (3, n)."""
        return np.stack([self.p, self.lowest, self.highest])


@dataclass(frozen=True, eq=False)
class Unusualness:
    """Flows, coordinates and the scores of the known rows, from which p-values follow.

    Parameters
    ----------
    flows
        One flow for each fold.
    centres, rotations
        Map of features (q,) to the coordinates of every flow: (K, q) and (K, q, D).
    rows
        Known rows in the coordinates of every flow, (K, n, D).
    folds
        Fold of every known row, (n,).
    scores, distances
        Log-density and distance of every known row by the flow of its fold, (n,).
    """

    flows: FittedFlows
    centres: Tensor
    rotations: Tensor
    rows: Tensor
    folds: NDArray[np.int64]
    scores: Floats
    distances: Floats

    def p_values(self, features: NDArray[Any]) -> PValues:
        """Return the p-values of rows of features (n, q); rows with NaN have NaN.

        Raises InputError if the number of features differs.
        """
        if features.ndim != 2 or features.shape[1] != self.centres.shape[1]:
            raise InputError(
                f"density of the known structures: features have shape {features.shape}. "
                f"Accepted: (n, {self.centres.shape[1]})."
            )
        is_finite = np.isfinite(features).all(axis=1)
        parts = np.full((5, len(features)), np.nan)
        usable = np.flatnonzero(is_finite)
        for start in range(0, usable.size, _CHUNK):
            chunk = usable[start : start + _CHUNK]
            parts[:, chunk] = self._parts(np.asarray(features[chunk], dtype=np.float64))
        return PValues(*parts)

    def _parts(self, features: Floats) -> Floats:
        x = coordinates(torch.from_numpy(features), self.centres, self.rotations)
        scores = self.flows.log_density(x).numpy()
        distances = np.stack(
            [
                neighbour_distances(x[k], self.rows[k, torch.from_numpy(self.folds != k)])
                for k in range(len(x))
            ]
        )
        # counts (flow, kind, n) of the known rows in a fold that are as extreme as the new one
        counts = np.empty((len(x), 3, len(features)))
        sizes = np.empty(len(x))
        for k in range(len(x)):
            in_fold = self.folds == k
            known_scores = np.sort(self.scores[in_fold])
            known_distances = np.sort(self.distances[in_fold])
            sizes[k] = in_fold.sum()
            counts[k, 0] = np.searchsorted(known_scores, scores[k] + TIE, side="right")
            counts[k, 1] = sizes[k] - np.searchsorted(known_scores, scores[k] - TIE)
            counts[k, 2] = sizes[k] - np.searchsorted(known_distances, distances[k] - TIE)
        n = sizes.sum()
        together = (1 + counts.sum(axis=0)) / (1 + n)
        p, density = _combined(together)
        as_many = counts * (n / sizes)[:, None, None]
        of_flows, _ = _combined(((1 + as_many) / (1 + n)).transpose(1, 0, 2))
        lowest = np.minimum(of_flows.min(axis=0), p)
        highest = np.maximum(of_flows.max(axis=0), p)
        return np.stack([p, lowest, highest, density, together[2]])

    def distances_to_known(self, features: NDArray[Any]) -> Floats:
        """Return the distance (n,) of features (n, q) to the tenth nearest known row.

        It is the mean over the coordinates of all flows, each without the rows of its fold.
        """
        wide = torch.from_numpy(np.asarray(features, dtype=np.float64))
        x = coordinates(wide, self.centres, self.rotations)
        of_flows = [
            neighbour_distances(x[k], self.rows[k, torch.from_numpy(self.folds != k)])
            for k in range(len(x))
        ]
        distances: Floats = np.mean(of_flows, axis=0)
        return distances

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays for a safetensors file."""
        arrays: dict[str, NDArray[Any]] = {
            "shape": np.array([self.flows.config.n_blocks, self.flows.config.width]),
            "base_mean": self.flows.base.mean.numpy(),
            "base_covariance": self.flows.base.covariance.numpy(),
            "validation": self.flows.validation.numpy(),
            "epochs": np.array([self.flows.n_epochs]),
            "centres": self.centres.numpy(),
            "rotations": self.rotations.numpy(),
            "rows": self.rows.numpy(),
            "folds": self.folds,
            "scores": self.scores,
            "distances": self.distances,
        }
        for block, mean in enumerate(self.flows.moments.means):
            arrays[f"moments.mean.{block}"] = mean.numpy()
            arrays[f"moments.variance.{block}"] = self.flows.moments.variances[block].numpy()
        for name, value in self.flows.params.items():
            arrays[f"params.{name}"] = value.numpy()
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> "Unusualness":
        """Rebuild from `to_arrays`; raises ArtifactError for other arrays."""
        try:
            n_blocks, width = (int(value) for value in arrays["shape"])
            tensors = {
                name: torch.from_numpy(np.array(value, dtype=np.float64))
                for name, value in arrays.items()
            }
            params: Params = {
                name.removeprefix("params."): value
                for name, value in tensors.items()
                if name.startswith("params.")
            }
            rows = tensors["rows"]
            flows = FittedFlows(
                FlowConfig(rows.shape[2], n_blocks, width),
                params,
                BatchMoments(
                    tuple(tensors[f"moments.mean.{block}"] for block in range(n_blocks)),
                    tuple(tensors[f"moments.variance.{block}"] for block in range(n_blocks)),
                ),
                BasePosterior(tensors["base_mean"], tensors["base_covariance"]),
                tensors["validation"],
                int(arrays["epochs"][0]),
            )
            return Unusualness(
                flows,
                tensors["centres"],
                tensors["rotations"],
                rows,
                np.asarray(arrays["folds"], dtype=np.int64),
                np.asarray(arrays["scores"], dtype=np.float64),
                np.asarray(arrays["distances"], dtype=np.float64),
            )
        except DAMAGE as error:
            raise ArtifactError(
                f"stored density of the known structures is damaged ({error!r}). Train the model "
                "again."
            ) from error


def fit_unusualness(
    features: NDArray[Any],
    *,
    columns_are_continuous: bool = True,
    seed: int = 0,
    training: FlowTraining | None = None,
    progress: Progress = no_progress,
) -> Unusualness:
    """Fit the flows to the features of known structures.

    Parameters
    ----------
    features
        Features (n, q) of the known structures: pre-activations of a network's hidden layer, or
        standardised descriptors. Outputs of rectified units have no density.
    columns_are_continuous
        Whether no value may be frequent in a column. Descriptors have columns that are 0 where a
        structure lacks an element; their principal coordinates have a density all the same.
    seed
        Seed of folds, weights and parameters.
    training
        Settings of the training.
    progress
        Called after every epoch; may raise `Cancelled`.

    Raises
    ------
    InputError
        For fewer than 200 different rows, for values that are not finite, and where more than 1 %
        of the values of a column are equal.
    """
    if features.ndim != 2 or not np.isfinite(features).all():
        raise InputError(
            f"density of the known structures: features of shape {features.shape}. Accepted: a "
            "table of finite numbers."
        )
    different = np.unique(np.asarray(features, dtype=np.float64), axis=0)
    if len(different) < MIN_ROWS:
        raise InputError(
            f"{len(different)} different structures are too few for the density of the known "
            f"structures. It needs {MIN_ROWS}; with fewer, no p-value falls below 0.01."
        )
    random = np.random.default_rng(seed)
    # `unique` sorts the rows, so that their order in the table does not matter
    n = min(len(different), MAX_ROWS)
    drawn = different[random.permutation(len(different))[:n]]
    if columns_are_continuous:
        _refuse_repeated_values(drawn[:, drawn.std(axis=0) > 0])
    folds = np.arange(n) % N_FOLDS
    is_fold = torch.from_numpy(np.stack([folds == k for k in range(N_FOLDS)]))
    centres, rotations = _principal_coordinates(torch.from_numpy(drawn), ~is_fold)
    rows = coordinates(torch.from_numpy(drawn), centres, rotations)
    is_stopping = ~is_fold & torch.from_numpy(random.random((N_FOLDS, n)) < STOPPING_SHARE)
    flows = fit_flows(
        rows,
        is_fitted=~is_fold & ~is_stopping,
        is_stopping=is_stopping,
        config=FlowConfig(rows.shape[2]),
        training=training,
        seed=seed,
        progress=progress,
    )
    log_densities = flows.log_density(rows).numpy()
    own_row = np.arange(n)
    distances = np.empty(n)
    for k in range(N_FOLDS):
        distances[folds == k] = neighbour_distances(rows[k, is_fold[k]], rows[k, ~is_fold[k]])
    return Unusualness(
        flows, centres, rotations, rows, folds, log_densities[folds, own_row], distances
    )


def coordinates(features: Tensor, centres: Tensor, rotations: Tensor) -> Tensor:
    """Return features (n, q) in the whitened coordinates of every flow, (K, n, D)."""
    return (features[None] - centres[:, None, :]) @ rotations


def neighbour_distances(x: Tensor, rows: Tensor) -> Floats:
    """Return the distance (n,) of rows x (n, D) to the tenth nearest of other rows (m, D)."""
    distances: Floats = torch.cdist(x, rows).kthvalue(min(NEIGHBOUR, len(rows)), dim=1)[0].numpy()
    return distances


def _combined(parts: Floats) -> tuple[Floats, Floats]:
    """Return p and its density part from p_low, p_high and p_near, stacked on the first axis."""
    density = np.minimum(1.0, 2 * np.minimum(parts[0], parts[1]))
    return np.minimum(1.0, 2 * np.minimum(density, parts[2])), density


def _principal_coordinates(features: Tensor, is_used: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres (K, q) and whitening rotations (K, q, D) of the rows that each flow uses."""
    n_least = int(is_used.sum(1).min())
    singular: list[Tensor] = []
    directions: list[Tensor] = []
    centres: list[Tensor] = []
    for mask in is_used:
        used = features[mask]
        centre = used.mean(0)
        _, values, vectors = torch.linalg.svd(used - centre, full_matrices=False)
        centres.append(centre)
        singular.append(values / (len(used) - 1) ** 0.5)
        directions.append(vectors)
    variances = singular[0] ** 2
    explained = torch.cumsum(variances, 0) / variances.sum()
    n_wanted = int((explained < EXPLAINED).sum()) + 1
    n_nonzero = min(int((sd > 1e-9 * sd[0]).sum()) for sd in singular)
    most = min(MOST_DIMENSIONS, max(LEAST_DIMENSIONS, n_least // ROWS_PER_DIMENSION), n_nonzero)
    n_dimensions = min(max(n_wanted, LEAST_DIMENSIONS), most)
    rotations = [
        vectors[:n_dimensions].T / sd[:n_dimensions]
        for vectors, sd in zip(directions, singular, strict=True)
    ]
    return torch.stack(centres), torch.stack(rotations)


def _refuse_repeated_values(features: Floats) -> None:
    """Raise InputError where a value is so frequent in a column that it has no density."""
    for i, column in enumerate(features.T):
        _, counts = np.unique(column, return_counts=True)
        if counts.max() > max(1.0, REPEATED_SHARE * len(column)):
            raise InputError(
                f"Feature {i} has the same value in {counts.max()} of {len(column)} structures, so "
                "that it has no density. Give the inputs of the rectified units of a hidden "
                "layer, not their outputs."
            )
