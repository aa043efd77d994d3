r"""How unusual a structure is among known ones: p-values of flows and of distances.

Every known row belongs to one of K folds. Flow k is fitted to the rows outside of fold k, in their
whitened principal coordinates, and gives the rows of fold k and every new row a log-density and the
distance to the tenth nearest row that it was fitted to. The descriptors give two more scores, the
distance to the nearest known one and the residual (`known_descriptors`).

A score v of a new row is compared with the scores of the rows of fold k: its surprise is

    e(v) = -log(share of the fold's scores above v)          up to their 90th percentile q
    e(v) = -log(0.1) + (v - q) / (mean excess over q)        beyond it

A row that is too likely is unusual too: in many dimensions hardly any row lies near the mode. The
surprise of a log-density is that of its more unusual side, less log 2. The total surprise E of a
row is the largest of its four. The rows of each fold are compared with the new row by the flow that
has not seen them, and the counts of all folds together give a cross-conformal p-value (Vovk 2015):

    p = (1 + #{i: E(x_i) >= E(x)}) / (n + 1)

A new row is compared with scores that do not contain its own, a known row with scores that do. With
few rows p is therefore somewhat too small: of 200 simulated normal rows, 6.2 % of new ones have a p
up to 0.05; of 2,000, 4.6 to 5.2 %.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.flows.fitting import FittedFlows, FlowTraining, fit_flows
from bandgap.inference.flows.known_descriptors import KnownDescriptors, fit_known_descriptors
from bandgap.inference.flows.masked_flow import BatchMoments, FlowConfig
from bandgap.inference.flows.nonparametric import BasePosterior
from bandgap.networks.perceptron import Params

Floats = NDArray[np.float64]

N_FOLDS = 5
# Fewer known rows give no p-value below 0.005: the smallest one is 1 / (n + 1).
MIN_ROWS = 200
MAX_ROWS = 2_000  # a fixed random subset of more rows is used
NEIGHBOUR = 10  # the distance to the tenth nearest row
LEAST_DIMENSIONS = 8
MOST_DIMENSIONS = 32
EXPLAINED = 0.95  # share of the variance that the coordinates have
ROWS_PER_DIMENSION = 10
STOPPING_SHARE = 0.15  # of the rows of a flow, by which its training is stopped
TIE = 1e-7  # scores that differ by less are equal: they depend on the other rows of a chunk
TAIL = 0.1  # share of a fold's scores beyond which the surprise is extrapolated
REPEATED_SHARE = 0.01  # share of equal values in a column from which it has no density
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class PValues:
    """How unusual each row is: p (n,), its smallest and largest value over the flows, and parts.

    The value of a flow is p if the known rows of all folds were those of its fold: the range is the
    uncertainty from training and from the finite number of known rows. The parts are the p-values
    of one score alone: log-density (of both sides), distance to neighbours among the features,
    distance and residual of the descriptor.
    """

    p: Floats
    lowest: Floats
    highest: Floats
    density: Floats
    neighbours: Floats
    distance: Floats
    residual: Floats

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
    descriptors
        Descriptors of the known rows.
    scores
        Four scores of every known row by the flow of its fold, (4, n): log-density, distance to
        neighbours, distance and residual of the descriptor.
    """

    flows: FittedFlows
    centres: Tensor
    rotations: Tensor
    rows: Tensor
    folds: NDArray[np.int64]
    descriptors: KnownDescriptors
    scores: Floats

    def p_values(self, features: NDArray[Any], descriptors: NDArray[Any] | None = None) -> PValues:
        """Return the p-values of rows of features (n, q); rows with NaN have NaN.

        `descriptors` are (n, p). Default: the features. Raises InputError if the number of features
        or of descriptors differs.
        """
        if features.ndim != 2 or features.shape[1] != self.centres.shape[1]:
            raise InputError(
                f"density of the known structures: features have shape {features.shape}. "
                f"Accepted: (n, {self.centres.shape[1]})."
            )
        wide = features if descriptors is None else descriptors
        if wide.shape != (len(features), self.descriptors.n_features):
            raise InputError(
                f"density of the known structures: descriptors have shape {wide.shape}. "
                f"Accepted: ({len(features)}, {self.descriptors.n_features})."
            )
        is_finite = np.isfinite(features).all(axis=1) & np.isfinite(wide).all(axis=1)
        values = np.full((7, len(features)), np.nan)
        usable = np.flatnonzero(is_finite)
        for start in range(0, usable.size, _CHUNK):
            chunk = usable[start : start + _CHUNK]
            scores = self._scores(
                np.asarray(features[chunk], dtype=np.float64),
                np.asarray(wide[chunk], dtype=np.float64),
            )
            values[:, chunk] = self._p_values_of(scores)
        return PValues(*values)

    def _scores(self, features: Floats, descriptors: Floats) -> Floats:
        """Return the scores of rows, compared with each fold, (4, K, n)."""
        x = coordinates(torch.from_numpy(features), self.centres, self.rotations)
        log_densities = self.flows.log_density(x).numpy()
        neighbours = self._neighbour_distances(x)
        return np.stack([log_densities, neighbours, *self.descriptors.scores(descriptors)])

    def _p_values_of(self, scores: Floats) -> Floats:
        """Return p, its range and its four parts from scores (4, K, n)."""
        n_folds, n_rows = scores.shape[1:]
        # known rows of each fold that are as unusual as the new one: in all, and by each part
        counts = np.empty((n_folds, 5, n_rows))
        sizes = np.bincount(self.folds, minlength=n_folds)
        for k in range(n_folds):
            known_scores = self.scores[:, self.folds == k]
            known_parts = surprises(known_scores, known_scores)
            parts = surprises(scores[:, k], known_scores)
            counts[k, 0] = _at_least(parts.max(axis=0), known_parts.max(axis=0))
            for i in range(len(parts)):
                counts[k, 1 + i] = _at_least(parts[i], known_parts[i])
        n = len(self.folds)
        p, *parts_p = (1 + counts.sum(axis=0)) / (1 + n)
        # the value of a flow: as if the known rows of all folds were those of its fold
        of_flows = (1 + counts[:, 0] * (n / sizes)[:, None]) / (1 + n)
        lowest = np.minimum(of_flows.min(axis=0), p)
        highest = np.maximum(of_flows.max(axis=0), p)
        return np.stack([p, lowest, highest, *parts_p])

    def _neighbour_distances(self, x: Tensor) -> Floats:
        """Return the distances (K, n) of rows in the coordinates of every flow, (K, n, D)."""
        return np.stack(
            [
                neighbour_distances(x[k], self.rows[k, torch.from_numpy(self.folds != k)])
                for k in range(len(x))
            ]
        )

    def distances_to_known(self, features: NDArray[Any]) -> Floats:
        """Return the distance (n,) of features (n, q) to the tenth nearest known row.

        It is the mean over the coordinates of all flows, each without the rows of its fold.
        """
        wide = torch.from_numpy(np.asarray(features, dtype=np.float64))
        x = coordinates(wide, self.centres, self.rotations)
        distances: Floats = self._neighbour_distances(x).mean(axis=0)
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
        }
        for name, array in self.descriptors.to_arrays().items():
            arrays[f"descriptors.{name}"] = array
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
            folds = np.asarray(arrays["folds"], dtype=np.int64)
            descriptors = {
                name.removeprefix("descriptors."): value
                for name, value in arrays.items()
                if name.startswith("descriptors.")
            }
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
                folds,
                KnownDescriptors.from_arrays(descriptors, folds),
                np.asarray(arrays["scores"], dtype=np.float64),
            )
        except DAMAGE as error:
            raise ArtifactError(
                f"stored density of the known structures is damaged ({error!r}). Train the model "
                "again."
            ) from error


def fit_unusualness(
    features: NDArray[Any],
    descriptors: NDArray[Any] | None = None,
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
    descriptors
        Descriptors (n, p) of the same structures, as computed. Default: the features.
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
    wide = features if descriptors is None else descriptors
    if len(wide) != len(features) or not np.isfinite(wide).all():
        raise InputError(
            f"density of the known structures: descriptors of shape {wide.shape}. Accepted: "
            f"{len(features)} rows of finite numbers."
        )
    different, first_rows = np.unique(
        np.asarray(features, dtype=np.float64), axis=0, return_index=True
    )
    if len(different) < MIN_ROWS:
        raise InputError(
            f"{len(different)} different structures are too few for the density of the known "
            f"structures. It needs {MIN_ROWS}; with fewer, no p-value falls below 0.005."
        )
    random = np.random.default_rng(seed)
    # `unique` sorts the rows, so that their order in the table does not matter
    n = min(len(different), MAX_ROWS)
    order = random.permutation(len(different))[:n]
    drawn = different[order]
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
    drawn_descriptors = np.asarray(wide[first_rows[order]], dtype=np.float64)
    known_descriptors = fit_known_descriptors(drawn_descriptors, folds, seed=seed)
    unusualness = Unusualness(
        flows, centres, rotations, rows, folds, known_descriptors, np.empty((4, 0))
    )
    # of each row, the scores by the flow of its fold
    scores = unusualness._scores(drawn, drawn_descriptors)
    return replace(unusualness, scores=scores[:, folds, np.arange(n)])


def surprises(scores: Floats, known_scores: Floats) -> Floats:
    """Return how surprising scores (4, m) are among those of known rows (4, n), (4, m).

    The first score, a log-density, is surprising on both sides; the others where they are large.
    """
    log_density, *distances = scores
    known_log_density, *known_distances = known_scores
    unlikely = surprise(-log_density, -known_log_density)
    likely = surprise(log_density, known_log_density)
    return np.stack(
        [
            np.maximum(unlikely, likely) - math.log(2.0),
            *map(surprise, distances, known_distances),
        ]
    )


def surprise(values: Floats, known_values: Floats) -> Floats:
    """Return -log of the share of known values above each value; exponential beyond the tail."""
    ordered = np.sort(known_values)
    n = len(ordered)
    # equal values are as common as the least surprising of them: all residuals may be zero
    different, first = np.unique(ordered, return_index=True)
    shares_above = 1.0 - (first + 0.5) / n
    inside = -np.log(np.maximum(np.interp(values, different, shares_above), TAIL))
    threshold = float(np.quantile(ordered, 1.0 - TAIL))
    excess = ordered[ordered > threshold] - threshold
    scale = float(excess.mean()) if excess.size else 0.0
    scale = max(scale, 1e-12 * abs(threshold), float(np.finfo(np.float64).tiny))
    beyond = np.maximum(values - threshold, 0.0) / scale
    total: Floats = inside + beyond
    return total


def _at_least(values: Floats, known_values: Floats) -> NDArray[np.int64]:
    """Return for each value how many known values are as large or larger."""
    ordered = np.sort(known_values)
    n_smaller = np.searchsorted(ordered, values - TIE)
    return np.asarray(len(ordered) - n_smaller, dtype=np.int64)


def coordinates(features: Tensor, centres: Tensor, rotations: Tensor) -> Tensor:
    """Return features (n, q) in the whitened coordinates of every flow, (K, n, D)."""
    return (features[None] - centres[:, None, :]) @ rotations


def neighbour_distances(x: Tensor, rows: Tensor) -> Floats:
    """Return the distance (n,) of rows x (n, D) to the tenth nearest of other rows (m, D)."""
    distances: Floats = torch.cdist(x, rows).kthvalue(min(NEIGHBOUR, len(rows)), dim=1)[0].numpy()
    return distances


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
