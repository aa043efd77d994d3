"""Applicability domain: how unlike the training structures a new one is, and which is nearest.

Two numbers of the unit vectors of raw descriptors, without standardisation:

    distance    1 - cosine to the nearest training structure
    residual    norm of what the principal components of the training structures leave, the squared
                prediction error or Q of chemometrics (Jackson, Mudholkar 1979)

The distance finds other proportions, the residual a new element or environment. Each number has a
rank, the share of training structures with a smaller one. A structure is as unlike as the larger
of its ranks r, and its p-value is

    p = (1 + #{i: r_i >= r}) / (n + 1)

The distances of training structures are to the nearest other one, their residuals by components of
the structures outside of their fifth.
"""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]

FAR = 0.95  # percentile among the training structures above which a structure is called far
KNOWN_FROM = (
    10  # training structures with an element, from which it counts as learned in any training set
)
MAX_ROWS = 1000  # training rows that are stored; of more rows, a fixed random subset
# Fewer rows are judged by the distance alone: 8 components leave little of them.
MIN_RESIDUAL_ROWS = 30
N_FOLDS = 5
EXPLAINED = 0.95  # share of the variance that the components have
LEAST_COMPONENTS = 8
MOST_COMPONENTS = 32
ROWS_PER_COMPONENT = 10
_ROUNDING = 1e-6  # residuals below it are rounding errors of float32 descriptors

_TIE = (
    1e-12  # largest difference between cosines that count as equal; the first of such rows is named
)
_SAME = 1e-6  # distance of a training structure to itself: directions are float32
_CHUNK = 2000  # new rows at a time: 16 MB of distances to 1,000 rows


def _not_stored() -> Floats:
    """Return the default of an array of a domain: one without values."""
    values: Floats = field(default_factory=lambda: np.empty(0))
    return values


@dataclass(frozen=True)
class LearnedRange:
    """The range over the training rows of a value in eV that is a model input next to the
    descriptor.
    """

    name: str
    lowest_eV: float
    highest_eV: float

    def problem(self, value_eV: float) -> str:
        """Return a warning where a value is outside this range, else an empty text."""
        if self.lowest_eV <= value_eV <= self.highest_eV or math.isnan(value_eV):
            return ""  # NaN: a structure without the value is refused elsewhere
        return (
            f"Has a {self.name} of {value_eV:.3g} eV, outside the {self.lowest_eV:.3g} to "
            f"{self.highest_eV:.3g} eV of the training set"
        )


@dataclass(frozen=True)
class Judgement:
    """The similarity of one structure to the training set.

    `distance` and `percentile` are NaN for a refused structure.
    """

    text: str  # "ok", or a warning; "" for a refused structure
    distance: float = float("nan")  # 1 - cosine to the nearest training structure
    # Share of training structures that are less unlike the others, 0 to 1.
    percentile: float = float("nan")
    # Share of structures like the training set that are as unlike it or more; NaN with an element
    # that neither the source nor a training structure has.
    p: float = float("nan")
    nearest: str = ""  # id of the nearest training structure


@dataclass(frozen=True, eq=False)
class Domain:
    """Unit vectors of the training descriptors, their distances and residuals, and their elements.

    `ranges` are those of the values next to the descriptor, such as a baseline. A domain of few
    rows has no `residuals`, and judges by the distance alone.
    """

    ids: tuple[str, ...]  # (row,)
    n_features: int
    columns: NDArray[np.int64]  # (column,) features that are nonzero in a training row
    directions: NDArray[np.float32]  # (row, column) unit vectors
    distances: Floats  # (row,) sorted, of each training row to the nearest other row
    source_species: tuple[str, ...]
    target_counts: Mapping[str, int]  # training structures that contain the element
    ranges: tuple[LearnedRange, ...] = ()
    centre: Floats = _not_stored()  # (column,) mean unit vector
    components: Floats = _not_stored()  # (column, component) orthonormal
    residuals: Floats = _not_stored()  # (row,) sorted
    ranks: Floats = _not_stored()  # (row,) sorted, the larger rank of each row

    def judge(
        self,
        features: NDArray[Any],
        elements: Sequence[Collection[str]],
        *,
        values_eV: Floats | None = None,
    ) -> tuple[Judgement, ...]:
        """Return the judgement of each new structure.

        Parameters
        ----------
        features
            Raw descriptors, (n, p). Rows of NaN are refused structures.
        elements
            Element symbols of each structure.
        values_eV
            Values next to the descriptor, (n, range), in eV. Without them, ranges are not judged.

        Raises
        ------
        InputError
            When the number of features differs.
        """
        if features.shape[1] != self.n_features:
            raise InputError(
                f"domain: features have shape {features.shape}. Accepted: (n, {self.n_features})."
            )
        values = np.empty((len(features), 0)) if values_eV is None else values_eV
        return tuple(
            judgement
            for start in range(0, len(features), _CHUNK)
            for judgement in self._judge(
                features[start : start + _CHUNK],
                elements[start : start + _CHUNK],
                values[start : start + _CHUNK],
            )
        )

    def _judge(
        self, features: NDArray[Any], elements: Sequence[Collection[str]], values_eV: Floats
    ) -> list[Judgement]:
        unit = _directions(features)
        training = self.directions.astype(np.float64)
        reduced = np.ascontiguousarray(unit[:, self.columns])
        cosine = reduced @ training.T
        # for rows of NaN the index is 0 and not used
        nearest = np.argmax(cosine >= cosine.max(axis=1, keepdims=True) - _TIE, axis=1)
        # recomputed row by row: the bits of the matrix product can depend on the other rows
        nearest_cosine = (reduced * training[nearest]).sum(axis=1)
        distance = np.clip(1.0 - nearest_cosine, 0.0, 2.0)
        percentile = self._percentiles(distance, unit, reduced)
        refused = np.isnan(unit.sum(axis=1))
        return [
            Judgement("")
            if refused[i]
            else self._judgement_of(
                float(distance[i]),
                float(percentile[i]),
                self.ids[nearest[i]],
                elements[i],
                values_eV[i].tolist(),
            )
            for i in range(len(unit))
        ]

    def _percentiles(self, distance: Floats, unit: Floats, reduced: Floats) -> Floats:
        """Return the share of training rows that are less unlike the others, of rows (n,)."""
        rank = _shares_below(self.distances, distance)
        if not self.residuals.size:
            return rank
        # what a structure has in features that are zero in all training rows
        foreign = (unit**2).sum(axis=1) - (reduced**2).sum(axis=1)
        residual = _residuals(reduced, self.centre, self.components, foreign)
        residual[distance < _SAME] = 0.0
        return _shares_below(self.ranks, np.maximum(rank, _shares_below(self.residuals, residual)))

    def _judgement_of(
        self,
        distance: float,
        percentile: float,
        nearest: str,
        elements: Collection[str],
        values_eV: Sequence[float],
    ) -> Judgement:
        foreign, rare, untrained = self._unseen(elements)
        unseen_where = (
            "never seen by the source model nor in" if self.source_species else "never seen in"
        )
        sentences = []
        if foreign:
            sentences.append(f"Contains {', '.join(foreign)}, {unseen_where} the training set")
        if rare:
            counts = ", ".join(f"{e} in {self.target_counts[e]}" for e in rare)
            reason = "never seen by the source model" if self.source_species else "seldom seen"
            sentences.append(f"Contains {', '.join(rare)}, {reason}; training structures: {counts}")
        if untrained:
            sentences.append(
                f"Contains {', '.join(untrained)}, never seen in the training set, only by the "
                "source model"
            )
        if percentile > FAR:
            share = "all of it" if percentile >= 1.0 else f"{int(100 * percentile + 1e-9)} % of it"
            sentences.append(
                f"Farther from the training set than {share}; nearest known: {nearest} (cosine "
                f"distance {distance:.2g})"
            )
        range_problems = [
            learned.problem(value) for learned, value in zip(self.ranges, values_eV, strict=False)
        ]
        sentences += [text for text in range_problems if text]
        n = self.distances.size
        p = math.nan if foreign else (1 + round(n * (1.0 - percentile))) / (n + 1)
        return Judgement(". ".join(sentences) or "ok", distance, percentile, p, nearest)

    def _unseen(self, elements: Collection[str]) -> tuple[list[str], list[str], list[str]]:
        """Return three lists: elements in no training set, in few training structures only, in the
        source only.
        """
        source = set(self.source_species)
        counts = self.target_counts
        present = sorted(set(elements))
        foreign = [e for e in present if e not in source and not counts.get(e)]
        rare = [e for e in present if e not in source and 0 < counts.get(e, 0) < self._learned_from]
        untrained = [e for e in present if e in source and not counts.get(e)]
        return foreign, rare, untrained

    @cached_property
    def _learned_from(self) -> float:
        """Number of training structures with an element from which it counts as learned.

        It is at most half of the usual number: where every element is in few structures, that is
        no warning.
        """
        usual = statistics.median(self.target_counts.values()) if self.target_counts else 0.0
        return min(KNOWN_FROM, usual / 2)


def fit_domain(
    features: NDArray[Any],
    *,
    ids: Sequence[str],
    elements: Sequence[Collection[str]],
    source_species: Collection[str],
    ranges: Sequence[LearnedRange] = (),
) -> Domain:
    """Fit the domain to the labelled training structures.

    Parameters
    ----------
    features
        Raw descriptors of the training structures, (n, p).
    ids
        Identifier of each structure.
    elements
        Element symbols of each structure.
    source_species
        Elements in the training set of the source model.
    ranges
        Ranges of the values that the structures have next to their descriptor.
    """
    rows = list(range(len(ids)))
    if len(ids) > MAX_ROWS:
        rows = sorted(np.random.default_rng(0).choice(len(ids), MAX_ROWS, replace=False).tolist())
    unit = _directions(features[rows])
    columns = np.flatnonzero(np.any(unit != 0.0, axis=0))
    directions = np.ascontiguousarray(unit[:, columns])
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    distances = np.clip(1.0 - cosine.max(axis=1), 0.0, 2.0)
    return Domain(
        ids=tuple(ids[i] for i in rows),
        n_features=features.shape[1],
        columns=columns.astype(np.int64),
        directions=directions.astype(np.float32),
        distances=np.sort(distances),
        source_species=tuple(sorted(source_species)),
        target_counts=dict(sorted(Counter(e for row in elements for e in set(row)).items())),
        ranges=tuple(ranges),
        **_residual_parts(directions, distances),
    )


def _residual_parts(directions: Floats, distances: Floats) -> dict[str, Floats]:
    """Return the parts of a domain on residuals of unit vectors (n, c) with distances (n,)."""
    n = len(directions)
    if n < MIN_RESIDUAL_ROWS:
        return {}
    folds = np.random.default_rng(0).permutation(n) % N_FOLDS
    parts = [_principal_components(directions[folds != k]) for k in range(N_FOLDS)]
    n_components = parts[0][1].shape[1]
    residuals = np.empty(n)
    for k, (centre, components) in enumerate(parts):
        residuals[folds == k] = _residuals(
            directions[folds == k], centre, components[:, :n_components]
        )
    centre, components = _principal_components(directions, n_components)
    sorted_residuals = np.sort(residuals)
    ranks = np.maximum(
        _shares_below(np.sort(distances), distances), _shares_below(sorted_residuals, residuals)
    )
    return {
        "centre": centre,
        "components": components,
        "residuals": sorted_residuals,
        "ranks": np.sort(ranks),
    }


def _principal_components(rows: Floats, n_components: int = 0) -> tuple[Floats, Floats]:
    """Return the mean (c,) of rows (n, c) and their first principal components (c, k).

    There are `n_components`, or by default those that have `EXPLAINED` of the variance, at least a
    few.
    """
    from sklearn.utils.extmath import randomized_svd

    centre = rows.mean(axis=0)
    centred = rows - centre
    most = min(MOST_COMPONENTS, max(LEAST_COMPONENTS, len(rows) // ROWS_PER_COMPONENT))
    _, singular, components = randomized_svd(
        centred, n_components=min(n_components or most, *rows.shape), n_iter=2, random_state=0
    )
    n_wanted = int((np.cumsum(singular**2) < EXPLAINED * (centred**2).sum()).sum()) + 1
    return centre, components[: n_components or max(n_wanted, LEAST_COMPONENTS)].T


def _residuals(
    rows: Floats, centre: Floats, components: Floats, foreign: Floats | float = 0.0
) -> Floats:
    """Return the norms (n,) of what components leave of rows (n, c).

    `foreign` are the squares of further features, which are zero in the components.
    """
    centred = rows - centre
    square = (centred**2).sum(axis=1) - ((centred @ components) ** 2).sum(axis=1) + foreign
    return np.sqrt(np.where(square <= _ROUNDING**2, 0.0, square))


def _shares_below(known_values: Floats, values: Floats) -> Floats:
    """Return the share of sorted known values (n,) below each value."""
    shares: Floats = np.searchsorted(known_values, values) / known_values.size
    return shares


def _directions(features: NDArray[Any]) -> Floats:
    """Return unit vectors.

    A row of zeros remains zero, so that its distance from every row is 1.
    """
    wide = features.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(length == 0.0, 1.0, length)
