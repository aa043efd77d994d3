"""Applicability domain: is a new structure like those that the model was trained on, and which of them is nearest?

Distance is 1 - cosine between descriptors as computed, not standardised. Measured on 1,200 organic crystals (250 for
training, preset `oe62-16`, kernel ridge): 4 to 6 % of the others come out farther than 95 % of the training set, as
they should, and their errors are 1.5 to 1.8 times as large. With standardised features the factor is 1.0 to 1.2.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import ArtifactError, InputError

Floats = NDArray[np.float64]

FAR = 0.95  # share of the training set's own distances above which a structure is called far
KNOWN_FROM = 10  # training structures with an element from which it counts as learned without the source model
MAX_ROWS = 1000  # training rows kept; of more, a fixed random choice

_TIE = 1e-12  # between cosines of rows that are as near as each other, of which the first is named
_CHUNK = 2000  # new rows at a time: 16 MB of distances to 1,000 rows


@dataclass(frozen=True)
class LearnedRange:
    """The ends over the training rows of a value in eV that structures have next to their descriptor, and its name."""

    name: str
    lowest_eV: float
    highest_eV: float

    def problem(self, value_eV: float) -> str:
        """Return in words that a value is outside this range, or an empty text."""
        if self.lowest_eV <= value_eV <= self.highest_eV or math.isnan(value_eV):
            return ""  # a structure without the value is refused
        return (
            f"Has a {self.name} of {value_eV:.3g} eV, outside the {self.lowest_eV:.3g} to {self.highest_eV:.3g} eV of "
            "the training set"
        )


@dataclass(frozen=True)
class Judgement:
    """How one structure stands to the training set; `distance` and `percentile` are NaN for a refused structure."""

    text: str  # "ok", or the warning in words; "" for a refused structure
    distance: float = float("nan")  # 1 - cosine to the nearest training structure
    percentile: float = float("nan")  # share of training structures that are nearer to their nearest one, 0 to 1
    nearest: str = ""  # id of the nearest training structure
    unseen: tuple[str, ...] = ()  # elements that the text names


@dataclass(frozen=True, eq=False)
class Domain:
    """Directions of the training descriptors, their leave-one-out nearest distances, and the elements seen.

    `ranges` are those of the values next to the descriptor, such as a baseline; runs of older versions have none.
    """

    ids: tuple[str, ...]  # (row,)
    n_features: int
    columns: NDArray[np.int64]  # (column,) features that are not zero throughout the training set
    directions: NDArray[np.float32]  # (row, column) unit vectors
    distances: Floats  # (row,) sorted, of each training row to its nearest other one
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
        """Judge new structures by raw descriptors (n, p) and the elements (symbols) of each; rows of NaN are refused.

        A domain with ranges needs the values (n, range). Raises InputError when the number of features, of rows or of
        values differs.
        """
        if self.ranges and (values_eV is None or values_eV.shape != (len(features), len(self.ranges))):
            names, found = ", ".join(r.name for r in self.ranges), None if values_eV is None else values_eV.shape
            raise InputError(
                f"domain: values next to the descriptor have shape {found}. Accepted: ({len(features)}, "
                f"{len(self.ranges)}), of {names}."
            )
        if features.ndim != 2 or features.shape[1] != self.n_features or len(elements) != len(features):
            raise InputError(
                f"domain: features have shape {features.shape}, {len(elements)=}. Accepted: (n, {self.n_features}), n"
            )
        values = np.empty((len(features), 0)) if values_eV is None else values_eV
        return tuple(
            judgement
            for start in range(0, len(features), _CHUNK)
            for judgement in self._judge(
                features[start : start + _CHUNK], elements[start : start + _CHUNK], values[start : start + _CHUNK]
            )
        )

    def _judge(self, features: NDArray[Any], elements: Sequence[Collection[str]], values_eV: Floats) -> list[Judgement]:
        unit, known = _directions(features), self.directions.astype(np.float64)
        own = np.ascontiguousarray(unit[:, self.columns])
        cosine = own @ known.T
        nearest = np.argmax(cosine >= cosine.max(axis=1, keepdims=True) - _TIE, axis=1)  # 0 of NaN rows, not used
        exact = (own * known[nearest]).sum(axis=1)  # no bit depends on the rows beside it, as the product's may
        distance = np.clip(1.0 - exact, 0.0, 2.0)
        percentile = np.searchsorted(self.distances, distance) / self.distances.size
        refused = np.isnan(unit.sum(axis=1))
        return [
            Judgement("")
            if refused[i]
            else self._words(
                float(distance[i]), float(percentile[i]), self.ids[nearest[i]], elements[i], values_eV[i].tolist()
            )
            for i in range(len(unit))
        ]

    def _words(
        self,
        distance: float,
        percentile: float,
        nearest: str,
        elements: Collection[str],
        values_eV: Sequence[float],
    ) -> Judgement:
        foreign, rare, untrained = self._unseen(elements)
        parts, by_source = [], "never seen by the source model nor in" if self.source_species else "never seen in"
        if foreign:
            parts.append(f"Contains {', '.join(foreign)}, {by_source} the training set")
        if rare:
            seen = ", ".join(f"{e} in {self.target_counts[e]}" for e in rare)
            how = "never seen by the source model" if self.source_species else f"seen fewer than {KNOWN_FROM} times"
            parts.append(f"Contains {', '.join(rare)}, {how}; training structures: {seen}")
        if untrained:
            parts.append(f"Contains {', '.join(untrained)}, never seen in the training set, only by the source model")
        if percentile > FAR:
            share = "all of it" if percentile >= 1.0 else f"{int(100 * percentile + 1e-9)} % of it"
            parts.append(
                f"Farther from the training set than {share}; nearest known: {nearest} (cosine distance {distance:.2g})"
            )
        outside = [learned.problem(value) for learned, value in zip(self.ranges, values_eV, strict=False)]
        parts += [text for text in outside if text]
        unseen = (*foreign, *rare, *untrained)
        return Judgement(". ".join(parts) or "ok", distance, percentile, nearest, unseen)

    def _unseen(self, elements: Collection[str]) -> tuple[list[str], list[str], list[str]]:
        """Return elements that nothing has seen, that a few training structures alone have, and that the source has."""
        source, counts = set(self.source_species), self.target_counts
        present = sorted(set(elements))
        foreign = [e for e in present if e not in source and not counts.get(e)]
        rare = [e for e in present if e not in source and 0 < counts.get(e, 0) < KNOWN_FROM]
        untrained = [e for e in present if e in source and not counts.get(e)]
        return foreign, rare, untrained

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the domain as arrays that a safetensors file can hold; texts are JSON in bytes."""
        words: dict[str, Any] = {
            "ids": self.ids,
            "source_species": self.source_species,
            "target_counts": dict(self.target_counts),
            "n_features": self.n_features,
        }
        if self.ranges:
            words["ranges"] = [asdict(learned) for learned in self.ranges]
        return {
            "words": np.frombuffer(json.dumps(words).encode(), dtype=np.uint8).copy(),
            "columns": self.columns,
            "directions": self.directions,
            "distances": self.distances,
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> "Domain":
        """Rebuild the domain from `to_arrays`; raises ArtifactError where the arrays are not those."""
        try:
            text = np.asarray(arrays["words"], dtype=np.uint8).tobytes()
            words = parse_json(text, what="words of the domain")
            return Domain(
                ids=tuple(words["ids"]),
                n_features=words["n_features"],
                columns=np.asarray(arrays["columns"], dtype=np.int64),
                directions=np.asarray(arrays["directions"], dtype=np.float32),
                distances=np.asarray(arrays["distances"], dtype=np.float64),
                source_species=tuple(words["source_species"]),
                target_counts=words["target_counts"],
                ranges=tuple(LearnedRange(**learned) for learned in words.get("ranges", ())),
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
    """Fit to raw descriptors (n, p) of the labelled training structures, their ids, and the elements of each.

    `source_species` are the elements that occur in the source model's training set, `ranges` those of values that the
    training structures have next to their descriptor. Raises InputError on fewer than two
    rows, on lengths that differ and on values that are not finite.
    """
    if features.ndim != 2 or not len(features) == len(ids) == len(elements) >= 2:
        raise InputError(
            f"domain: features have shape {features.shape}, {len(ids)=}, {len(elements)=}. Accepted: the same number "
            "of rows, at least two."
        )
    if not np.isfinite(features).all():
        raise InputError("domain: the training features are not all finite. Leave out refused structures.")
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
    """Return rows of length one; a row of zeros stays zero, so that its distance from everything is 1."""
    wide = features.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(length == 0.0, 1.0, length)
