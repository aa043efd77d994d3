"""Elements of the target data that the source model lacks, and what methods do with them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.components.shared import words
from app.components.train.method_choice import NO_TRANSFER
from bandgap.descriptors.growing import elements_beyond
from bandgap.jobs.entries import MethodEntry
from bandgap.runs.requests import TransferRequest

Methods = Mapping[str, MethodEntry]

LEARN: Final = "learned from by"
ALONE: Final = "taken without the source model by"
LEFT_OUT: Final = "left out by"


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


def does(method: MethodEntry, *, grows: bool = True) -> str:
    """Return what a method does with structures that have elements unknown to the source model.

    `grows` as in `Unseen`.
    """
    if grows and method.new_elements:
        return LEARN
    return ALONE if method.family == NO_TRANSFER else LEFT_OUT


def n_taken(picked: Collection[str], lacking: Unseen, methods: Methods) -> int:
    """Return how many labelled structures every picked method takes."""
    leaves_out = any(does(methods[name], grows=lacking.grows) == LEFT_OUT for name in picked)
    return lacking.n_known if leaves_out else lacking.n_known + lacking.structures


def tested_alike(
    runs: Sequence[TransferRequest], lacking: Unseen, methods: Methods
) -> list[TransferRequest]:
    """Return the requests with a common test set.

    If a method leaves structures out, the other methods are tested only on structures whose
    elements the source model knows, if there are any.
    """
    kinds = [does(methods[str(run.method)], grows=lacking.grows) for run in runs]
    if LEFT_OUT not in kinds or not lacking.structures or not lacking.n_known:
        return list(runs)
    return [
        run if kind == LEFT_OUT else run.changed(test_known=True)
        for run, kind in zip(runs, kinds, strict=True)
    ]


def unseen_sentence(lacking: Unseen, picked: Collection[str], methods: Methods) -> str:
    """Return which elements are new, what the picked methods do, and on what runs are tested."""
    if not lacking.structures or not picked:
        return ""
    groups: dict[str, list[str]] = {}
    for name in picked:
        groups.setdefault(does(methods[name], grows=lacking.grows), []).append(methods[name].title)
    new_elements = ", ".join(
        f"{symbol} (in {words.count(count, 'structure')})"
        for symbol, count in lacking.elements.items()
    )
    done = "; ".join(f"{what} {', '.join(titles)}" for what, titles in groups.items())
    text = f"New to the source model: {new_elements}. Such structures are {done}."
    if LEFT_OUT in groups and len(groups) > 1 and lacking.n_known:
        text += (
            " All runs are tested on the same structures, those whose elements the source model "
            "knows."
        )
    return text


def too_few_known(runs: Sequence[TransferRequest], lacking: Unseen, methods: Methods) -> str:
    """Return why a method that leaves structures out has too few of them, or an empty text.

    The text is also empty for a source model that knows no structure; the transfer then says what
    to do.
    """
    short = [run for run in runs if does(methods[str(run.method)], grows=lacking.grows) == LEFT_OUT]
    if not short or not lacking.structures or not lacking.n_known:
        return ""
    n = short[0].n or 0
    n_test = short[0].n_test or 0
    if n + n_test <= lacking.n_known:
        return ""
    titles = ", ".join(methods[str(run.method)].title for run in short)
    alternatives = "that learn from new elements" if lacking.grows else "without transfer"
    return (
        f"{n} to learn from and {n_test} held out are more than the {lacking.n_known} labelled "
        f"structures whose elements the source model knows; {titles} can take no others. Lower one "
        f"of the two, or choose methods {alternatives}."
    )
