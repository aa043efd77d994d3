"""Applicability domain: how similar a new structure is to the training structures, and which is
nearest.

The distance is 1 - cosine between raw descriptors, without standardisation.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.damage import DAMAGE, MAX_JSON_BYTES, parse_json
from bandgap.foundation.errors import ArtifactError, InputError

Floats = NDArray[np.float64]

# Measured on 1,200 organic crystals (250 for training, preset oe62-16, kernel ridge): 4 to 6 % of
# the
# other crystals are farther than 95 % of the training set, and their errors are 1.5 to 1.8 times as
# large.
# With standardised features the factor is 1.0 to 1.2.
FAR = (
    0.95  # percentile of the training set's nearest distances above which a structure is called far
)
KNOWN_FROM = (
    10  # training structures with an element, from which it counts as learned in any training set
)
MAX_ROWS = 1000  # training rows that are stored; of more rows, a fixed random subset

_TIE = (
    1e-12  # largest difference between cosines that count as equal; the first of such rows is named
)
_CHUNK = 2000  # new rows at a time: 16 MB of distances to 1,000 rows


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
    # Share of training structures with a smaller nearest distance, 0 to 1.
    percentile: float = float("nan")
    nearest: str = ""  # id of the nearest training structure
    unseen: tuple[str, ...] = ()  # elements that the text names as unseen or rare


@dataclass(frozen=True, eq=False)
class Domain:
    """Unit vectors of the training descriptors, their leave-one-out nearest distances, and their
    elements.

    `ranges` are those of the values next to the descriptor, such as a baseline.
    """

    ids: tuple[str, ...]  # (row,)
    n_features: int
    columns: NDArray[np.int64]  # (column,) features that are nonzero in a training row
    directions: NDArray[np.float32]  # (row, column) unit vectors
    distances: Floats  # (row,) sorted, of each training row to the nearest other row
    source_species: tuple[str, ...]
    target_counts: Mapping[str, int]  # training structures that contain the element
    ranges: tuple[LearnedRange, ...] = ()

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
            Values next to the descriptor, (n, range), in eV. Needed by a domain with ranges.

        Raises
        ------
        InputError
            When the number of features, of rows or of values differs.
        """
        if self.ranges and (
            values_eV is None or values_eV.shape != (len(features), len(self.ranges))
        ):
            names = ", ".join(learned.name for learned in self.ranges)
            shape = None if values_eV is None else values_eV.shape
            raise InputError(
                f"domain: values next to the descriptor have shape {shape}. Accepted: "
                f"({len(features)}, {len(self.ranges)}), of {names}."
            )
        if (
            features.ndim != 2
            or features.shape[1] != self.n_features
            or len(elements) != len(features)
        ):
            raise InputError(
                f"domain: features have shape {features.shape}, {len(elements)=}. Accepted: (n, "
                f"{self.n_features}), n"
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
        percentile = np.searchsorted(self.distances, distance) / self.distances.size
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
        unseen = (*foreign, *rare, *untrained)
        return Judgement(". ".join(sentences) or "ok", distance, percentile, nearest, unseen)

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

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the domain as arrays for a safetensors file; texts are JSON in bytes."""
        texts: dict[str, Any] = {
            "ids": self.ids,
            "source_species": self.source_species,
            "target_counts": dict(self.target_counts),
            "n_features": self.n_features,
        }
        if self.ranges:
            texts["ranges"] = [asdict(learned) for learned in self.ranges]
        return {
            "words": np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8).copy(),
            "columns": self.columns,
            "directions": self.directions,
            "distances": self.distances,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> "Domain":
        """Rebuild the domain from `to_arrays`; raises ArtifactError for other arrays."""
        try:
            text = np.asarray(arrays["words"], dtype=np.uint8).tobytes()
            texts = parse_json(text, what="words of the domain", max_bytes=MAX_JSON_BYTES)
            return Domain(
                ids=tuple(texts["ids"]),
                n_features=texts["n_features"],
                columns=np.asarray(arrays["columns"], dtype=np.int64),
                directions=np.asarray(arrays["directions"], dtype=np.float32),
                distances=np.asarray(arrays["distances"], dtype=np.float64),
                source_species=tuple(texts["source_species"]),
                target_counts=texts["target_counts"],
                ranges=tuple(LearnedRange(**learned) for learned in texts.get("ranges", ())),
            )
        except DAMAGE as error:
            raise ArtifactError(
                f"stored applicability domain is damaged ({error!r}). Train the model again."
            ) from error


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

    Raises
    ------
    InputError
        With fewer than two rows, for lengths that differ and for values that are not finite.
    """
    if features.ndim != 2 or not len(features) == len(ids) == len(elements) >= 2:
        raise InputError(
            f"domain: features have shape {features.shape}, {len(ids)=}, {len(elements)=}. "
            "Accepted: the same number of rows, at least two."
        )
    if not np.isfinite(features).all():
        raise InputError(
            "domain: the training features are not all finite. Leave out refused structures."
        )
    rows = list(range(len(ids)))
    if len(ids) > MAX_ROWS:
        rows = sorted(np.random.default_rng(0).choice(len(ids), MAX_ROWS, replace=False).tolist())
    unit = _directions(features[rows])
    columns = np.flatnonzero(np.any(unit != 0.0, axis=0))
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    return Domain(
        ids=tuple(ids[i] for i in rows),
        n_features=features.shape[1],
        columns=columns.astype(np.int64),
        directions=np.ascontiguousarray(unit[:, columns], dtype=np.float32),
        distances=np.sort(np.clip(1.0 - cosine.max(axis=1), 0.0, 2.0)),
        source_species=tuple(sorted(source_species)),
        target_counts=dict(sorted(Counter(e for row in elements for e in set(row)).items())),
        ranges=tuple(ranges),
    )


def _directions(features: NDArray[Any]) -> Floats:
    """Return unit vectors.

    A row of zeros remains zero, so that its distance from every row is 1.
    """
    wide = features.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(length == 0.0, 1.0, length)
