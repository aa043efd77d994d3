"""Elements of the target data that the source model lacks, and what methods do with them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.components.shared import words
from app.components.train.method_choice import NO_TRANSFER
from bandgap.descriptors.growing import elements_beyond
from bandgap.jobs.entries import MethodEntry
from bandgap.runs.requests import TransferRequest

Methods = Mapping[str, MethodEntry]


@dataclass(frozen=True)
class Unseen:
    """Numbers of labelled structures with elements that the source model lacks.

    Attributes
    ----------
    elements
        Number of structures by element that the source model lacks.
    structures
        Number of structures with at least one of these elements.
    n_known
        Number of structures with none of these elements.
    grows
        Whether the descriptor can be extended by all these elements. Otherwise no method learns
        from structures with these elements.
    """

    elements: Mapping[str, int]
    structures: int
    n_known: int
    grows: bool = True


def unseen(sets: Mapping[tuple[str, ...], int], descriptor: Mapping[str, Any]) -> Unseen:
    """Return the elements that a source's descriptor lacks.

    Parameters
    ----------
    sets
        Number of structures by their set of elements.
    descriptor
        Descriptor in the manifest of the source model; empty without a source model, where no
        element is lacking.
    """
    counts = Counter[str]()
    structures = 0
    if not descriptor:
        return Unseen({}, 0, sum(sets.values()))
    lacking, fixed = elements_beyond(descriptor, set().union(*sets))
    for symbols, count in sets.items():
        new = lacking.intersection(symbols)
        counts.update(dict.fromkeys(sorted(new), count))
        structures += count if new else 0
    return Unseen(
        dict(counts.most_common()), structures, sum(sets.values()) - structures, grows=not fixed
    )


def leaves_out(method: MethodEntry, lacking: Unseen) -> bool:
    """Return whether a method leaves out structures with elements unknown to the source model."""
    learns = lacking.grows and method.new_elements
    return not learns and method.family != NO_TRANSFER


def n_taken(picked: Collection[str], lacking: Unseen, methods: Methods) -> int:
    """Return how many labelled structures every picked method takes."""
    is_limited = any(leaves_out(methods[name], lacking) for name in picked)
    return lacking.n_known if is_limited else lacking.n_known + lacking.structures


def tested_alike(
    runs: Sequence[TransferRequest], lacking: Unseen, methods: Methods
) -> list[TransferRequest]:
    """Return the requests with a common test set.

    If a method leaves structures out, the other methods are tested only on structures whose
    elements the source model knows, if there are any.
    """
    is_limited = [leaves_out(methods[str(run.method)], lacking) for run in runs]
    if not any(is_limited) or not lacking.structures or not lacking.n_known:
        return list(runs)
    return [
        run if limited else run.changed(test_known=True)
        for run, limited in zip(runs, is_limited, strict=True)
    ]


def unseen_sentence(lacking: Unseen, picked: Collection[str], methods: Methods) -> str:
    """Return which elements are new, which methods leave them out, and on what runs are tested."""
    if not lacking.structures or not picked:
        return ""
    new_elements = ", ".join(
        f"{symbol} (in {words.count(count, 'structure')})"
        for symbol, count in lacking.elements.items()
    )
    limited = [methods[name].title for name in picked if leaves_out(methods[name], lacking)]
    text = f"New to the source model: {new_elements}. "
    text += f"Such structures are left out by {', '.join(limited) or 'no chosen method'}."
    if 0 < len(limited) < len(picked) and lacking.n_known:
        text += " All runs are tested on the same structures, without new elements."
    return text
