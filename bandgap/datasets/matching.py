"""Match labels to structures by id and file name, first exactly and then less strictly."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError, listed, printable
from bandgap.structures.formats import BINARY_SUFFIXES, SUFFIXES

_ENDINGS = re.compile(
    rf"\.({'|'.join((*BINARY_SUFFIXES, *chain(*SUFFIXES.values())))}|in|gz|zip)$",
    re.IGNORECASE,
)  # endings that a name may omit; other dots are part of the name
_FLOAT_ID = re.compile(r"^(\d+)\.0$")
_SHOWN = 3

Key = Callable[[str], str]


@dataclass(frozen=True, eq=False)
class Matched:
    """Gaps of the structures, and the labels and structures without a partner."""

    gaps: NDArray[np.float64]  # (n,) eV, NaN without a label
    unmatched_labels: tuple[str, ...]
    unmatched_structures: tuple[str, ...]  # ids
    problems: tuple[str, ...] = ()  # messages on names of several structures or labels

    @property
    def n_matched(self) -> int:
        """Number of structures that have a label."""
        return int(np.count_nonzero(np.isfinite(self.gaps)))

    @property
    def summary(self) -> str:
        """One sentence on the numbers of matched and unmatched structures and labels."""
        unmatched = [
            _count_with_examples(
                self.unmatched_structures, "structure has", "structures have", "no label"
            ),
            _count_with_examples(self.unmatched_labels, "label has", "labels have", "no structure"),
        ]
        matched = f"{self.n_matched} of {self.gaps.size} structures have a label"
        return "; ".join([matched, *filter(None, unmatched)]) + "."


def match_names(
    ids: Sequence[str],
    files: Sequence[str],
    *,
    label_ids: Sequence[str],
    label_files: Sequence[str],
    gaps_eV: NDArray[np.float64],
) -> Matched:
    """Match every structure to at most one label, and every label to at most one structure.

    The steps are, each for those that are still unmatched: equal ids; equal files with folder;
    files whose last folders are equal, more folders first; equal file names without folder; equal
    file names without ending, also compared with ids; the same steps without regard to case. A step
    does not match a name of several structures or labels. If such a name remains unmatched, it is
    reported in `problems`.

    Parameters
    ----------
    ids, files
        Ids and files (n,) of the structures. Ids are text: 00011 differs from 11.
    label_ids, label_files
        Ids and files (m,) of the labels; either may be empty.
    gaps_eV
        Gaps (m,) in eV of the labels.

    Raises
    ------
    InputError
        If `ids` and `files` have different lengths.
    """
    if len(ids) != len(files):
        raise InputError(
            f"{len(ids)=} but {len(files)=}. Give one id and one file for each structure."
        )
    n_labels = len(gaps_eV)
    names = {"id": list(label_ids) or [""] * n_labels, "file": list(label_files) or [""] * n_labels}
    structures = {"id": list(ids), "file": list(files)}
    label_of_structure: dict[int, int] = {}
    problems: dict[str, str] = {}
    depth = min(map(_depth, ([*names["id"], *names["file"]], [*ids, *files])))
    for label_side, structure_side, key in _steps(depth):
        structures_by_name = _groups(structures[structure_side], key)
        matched_labels = set(label_of_structure.values())
        for name, labels in _groups(names[label_side], key).items():
            candidates = structures_by_name.get(name, [])
            if len(labels) == 1 and len(candidates) == 1:
                if labels[0] not in matched_labels and candidates[0] not in label_of_structure:
                    label_of_structure[candidates[0]] = labels[0]
            elif candidates:
                printed_name = names[label_side][labels[0]]
                problems.setdefault(
                    printed_name,
                    _ambiguous(
                        printed_name, labels, [ids[i] + _file_text(files[i]) for i in candidates]
                    ),
                )
    gaps = np.full(len(ids), np.nan)
    for i, label in label_of_structure.items():
        gaps[i] = gaps_eV[label]
    used_labels = set(label_of_structure.values())
    unmatched_names = [
        names["id"][i] or names["file"][i] for i in range(n_labels) if i not in used_labels
    ]
    return Matched(
        gaps=gaps,
        unmatched_labels=tuple(unmatched_names),
        unmatched_structures=tuple(ids[i] for i in range(len(ids)) if i not in label_of_structure),
        problems=tuple(text for name, text in problems.items() if name in unmatched_names),
    )


def _steps(depth: int) -> list[tuple[str, str, Key]]:
    sides = [("id", "id"), ("file", "file"), ("id", "file"), ("file", "id")]
    ends = [partial(_end, n_parts=n_parts) for n_parts in range(depth, 1, -1)]
    keys: list[Key] = [str, *ends, _base, _stem]
    exact = [(*sides[0], keys[0])] + [(*side, key) for key in keys for side in sides[1:]]
    exact.append((*sides[0], _whole_number))
    return exact + [(label, structure, _without_case(key)) for label, structure, key in exact]


def _without_case(key: Key) -> Key:
    return lambda name: key(name).casefold()


def _depth(names: Sequence[str]) -> int:
    """Return the largest number of parts of a path."""
    return max((len(_parts(name)) for name in names), default=0)


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]


def _end(path: str, *, n_parts: int) -> str:
    """Return the last parts of a path, "" if it has fewer."""
    parts = _parts(path)
    return "/".join(parts[-n_parts:]) if len(parts) >= n_parts else ""


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1]


def _stem(name: str) -> str:
    base = _base(name)
    while (shorter := _ENDINGS.sub("", base)) not in ("", base):
        base = shorter
    return _whole_number(base)


def _whole_number(name: str) -> str:
    """Return a whole number without the decimal point that pandas gives it."""
    return _FLOAT_ID.sub(r"\1", name)


def _groups(names: list[str], key: Key) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        if plain := key(name):
            groups[plain].append(i)
    return groups


def _ambiguous(name: str, labels: list[int], structures: list[str]) -> str:
    labels_text = f"{len(labels)} labels" if len(labels) > 1 else "One label"
    return (
        f"{labels_text} named {name!r} fit {printable(listed(structures, _SHOWN))}: not used."
        " Give every structure a different name."
    )


def _file_text(file: str) -> str:
    return f" in {file}" if file else ""


def _count_with_examples(names: Sequence[str], one: str, many: str, what: str) -> str:
    if not names:
        return ""
    examples = printable(", ".join(names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} {one if len(names) == 1 else many} {what} ({examples})"
