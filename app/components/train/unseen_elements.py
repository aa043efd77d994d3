"""Elements of the target that the source model lacks: which methods learn of them, and one test set for all."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.components.shared import words
from app.components.train.method_choice import LAST
from bandgap.descriptors.growing import elements_beyond
from bandgap.jobs.entries import MethodEntry
from bandgap.runs.requests import TransferRequest

Methods = Mapping[str, MethodEntry]

LEARN: Final = "learned from by"
ALONE: Final = "taken without the source model by"
LEFT_OUT: Final = "left out by"


@dataclass(frozen=True)
class Unseen:
    """How many labelled structures hold each element that the source model lacks, any of them, and none of them.

    `grows` says whether its descriptor can be grown by all these elements, without which no method learns of them.
    """

    elements: Mapping[str, int]
    structures: int
    known: int
    grows: bool = True


def unseen(sets: Mapping[tuple[str, ...], int], descriptor: Mapping[str, Any]) -> Unseen:
    """Return what a source's descriptor lacks of structures, counted by the sets of their elements.

    Nothing without a source, whose manifest has no descriptor.
    """
    counts, structures = Counter[str](), 0
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
    """Return what a method does with structures of elements that the source lacks, whose descriptor `grows` by them."""
    if grows and method.new_elements:
        return LEARN
    return ALONE if method.family == LAST else LEFT_OUT


def tested_alike(
    runs: Sequence[TransferRequest], lacking: Unseen, methods: Methods
) -> list[TransferRequest]:
    """Return the runs of one press with one test set for all, where a method among them leaves structures out.

    Those that take every structure are then tested among those of the source's elements alone, if there are any.
    """
    kinds = [does(methods[str(run.method)], grows=lacking.grows) for run in runs]
    if LEFT_OUT not in kinds or not lacking.structures or not lacking.known:
        return list(runs)
    return [
        run if kind == LEFT_OUT else run.changed(test_known=True)
        for run, kind in zip(runs, kinds, strict=True)
    ]


def unseen_sentence(lacking: Unseen, chosen: Collection[str], methods: Methods) -> str:
    """Say which elements are new to the source model, what each method does, and on what all runs are tested."""
    if not lacking.structures or not chosen:
        return ""
    groups: dict[str, list[str]] = {}
    for name in chosen:
        groups.setdefault(does(methods[name], grows=lacking.grows), []).append(methods[name].title)
    found = ", ".join(
        f"{symbol} (in {words.count(count, 'structure')})"
        for symbol, count in lacking.elements.items()
    )
    done = "; ".join(f"{what} {', '.join(titles)}" for what, titles in groups.items())
    text = f"New to the source model: {found}. Such structures are {done}."
    if LEFT_OUT in groups and len(groups) > 1 and lacking.known:
        text += (
            " All runs are tested on the same structures, those whose elements the source model "
            "knows."
        )
    return text


def too_few_known(runs: Sequence[TransferRequest], lacking: Unseen, methods: Methods) -> str:
    """Return why a method that leaves structures out cannot have so many, or an empty text.

    Of a source that knows no structure nothing: the transfer says what to do instead.
    """
    short = [run for run in runs if does(methods[str(run.method)], grows=lacking.grows) == LEFT_OUT]
    if not short or not lacking.structures or not lacking.known:
        return ""
    n, n_test = short[0].n or 0, short[0].n_test or 0
    if n + n_test <= lacking.known:
        return ""
    titles = ", ".join(methods[str(run.method)].title for run in short)
    others = "that learn of new elements" if lacking.grows else "without transfer"
    return (
        f"{n} to learn from and {n_test} held out are more than the {lacking.known} labelled "
        f"structures whose elements the source model knows; {titles} can take no others. Lower one "
        f"of the two, or choose methods {others}."
    )
