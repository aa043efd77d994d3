"""Which label belongs to which structure, by id and by file name, from exact to lenient; never by guessing."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError, printable
from bandgap.structures.formats import FORMATS

_ENDINGS = re.compile(
    rf"\.({'|'.join(suffix for form in FORMATS for suffix in form.suffixes)}|in|json|gz|zip)$", re.IGNORECASE
)  # what may be left off a file name; other dots belong to the name
_SHOWN = 3

Key = Callable[[str], str]


@dataclass(frozen=True, eq=False)
class Matched:
    """Gaps of the structures, in eV, NaN where no label was found, and what is left over on both sides."""

    gaps: NDArray[np.float64]  # (n,) eV
    unmatched_labels: tuple[str, ...]
    unmatched_structures: tuple[str, ...]  # ids
    problems: tuple[str, ...] = ()  # sentences on names that fit more than one structure or label

    @property
    def n_matched(self) -> int:
        """Number of structures that have a label."""
        return int(np.count_nonzero(np.isfinite(self.gaps)))

    @property
    def summary(self) -> str:
        """One sentence on what was matched and what was not."""
        left = [_some(self.unmatched_structures, "structure has", "structures have", "no label")]
        left.append(_some(self.unmatched_labels, "label has", "labels have", "no structure"))
        return "; ".join([f"{self.n_matched} of {self.gaps.size} structures have a label", *filter(None, left)]) + "."


def match_names(
    ids: Sequence[str],
    files: Sequence[str],
    *,
    label_ids: Sequence[str],
    label_files: Sequence[str],
    gaps_eV: NDArray[np.float64],
) -> Matched:
    """Give every structure (its id and its file) at most one label, and every label at most one structure.

    In this order, each step for what is still open: exact id; file with its folder; file name without folder; file name
    without ending, also against ids; then the same without regard to case. A name that fits several structures or
    several labels in a step is left open by it, and reported if it stays open. Ids are text: 00011 is not 11.
    """
    if len(ids) != len(files):
        raise InputError(f"{len(ids)=} but {len(files)=}. Give one id and one file for each structure.")
    n_labels = len(gaps_eV)
    names = {"id": list(label_ids) or [""] * n_labels, "file": list(label_files) or [""] * n_labels}
    structures = {"id": list(ids), "file": list(files)}
    partner: dict[int, int] = {}  # structure -> label
    problems: dict[str, str] = {}
    for label_side, structure_side, key in _steps():
        offered = _groups(structures[structure_side], key)
        used = set(partner.values())
        for name, labels in _groups(names[label_side], key).items():
            fits = offered.get(name, [])
            if len(labels) == 1 and len(fits) == 1:
                if labels[0] not in used and fits[0] not in partner:
                    partner[fits[0]] = labels[0]
            elif fits:
                shown = names[label_side][labels[0]]
                problems.setdefault(shown, _ambiguous(shown, labels, [ids[i] + _in(files[i]) for i in fits]))
    gaps = np.full(len(ids), np.nan)
    for i, label in partner.items():
        gaps[i] = gaps_eV[label]
    taken = set(partner.values())
    left = [names["id"][i] or names["file"][i] for i in range(n_labels) if i not in taken]
    return Matched(
        gaps=gaps,
        unmatched_labels=tuple(left),
        unmatched_structures=tuple(ids[i] for i in range(len(ids)) if i not in partner),
        problems=tuple(text for name, text in problems.items() if name in left),
    )


def _steps() -> list[tuple[str, str, Key]]:
    sides = [("id", "id"), ("file", "file"), ("id", "file"), ("file", "id")]
    keys: list[Key] = [str, _base, _stem]
    exact = [(*sides[0], keys[0])] + [(*side, key) for key in keys for side in sides[1:]]
    return exact + [(label, structure, _without_case(key)) for label, structure, key in exact]


def _without_case(key: Key) -> Key:
    return lambda name: key(name).casefold()


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1]


def _stem(name: str) -> str:
    base = _base(name)
    while (short := _ENDINGS.sub("", base)) not in ("", base):
        base = short
    return base


def _groups(names: list[str], key: Key) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        if name:
            groups[key(name)].append(i)
    return groups


def _ambiguous(name: str, labels: list[int], structures: list[str]) -> str:
    shown = ", ".join(structures[:_SHOWN]) + (
        f" and {len(structures) - _SHOWN} more" if len(structures) > _SHOWN else ""
    )
    shown = printable(shown)
    rows = f"{len(labels)} labels" if len(labels) > 1 else "One label"
    return f"{rows} named {name!r} fit {shown}: not used. Give every structure a name of its own."


def _in(file: str) -> str:
    return f" in {file}" if file else ""


def _some(names: Sequence[str], one: str, many: str, what: str) -> str:
    if not names:
        return ""
    shown = printable(", ".join(names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} {one if len(names) == 1 else many} {what} ({shown})"
