"""How long the chosen transfers, or the training of a source model, will take, in words, with what that rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from app.components.shared import words
from bandgap.jobs.estimates import Estimate
from bandgap.jobs.source_estimates import PastTraining, SourceWork, estimate_source


def estimate_sentence(
    estimates: Mapping[str, Estimate | None], *, device: Literal["cpu", "cuda"] = "cpu"
) -> str:
    """Say how long the methods, by title, take one after another, between which times, and why.

    A method whose cost is not known is named; so it is said that costs were measured on a CPU where a GPU computes.
    """
    known = {title: found for title, found in estimates.items() if found is not None}
    unknown = [title for title in estimates if title not in known]
    if not known:
        return (
            f"How long {', '.join(unknown)} will take is not known yet: nobody has measured it."
            if unknown
            else ""
        )
    total = sum(found.seconds for found in known.values())
    low, high = (sum(found.range_s[end] for found in known.values()) for end in (0, 1))
    several = ", one after another" if len(known) > 1 else ""
    text = (
        f"Estimated time: about {rounded(total)}{several} ({rounded(low)} to {rounded(high)}). "
        f"{basis(known)}"
    )
    if device == "cuda" and any(not found.runs for found in known.values()):
        text += " These costs are of a CPU; there is no estimate for a GPU yet."
    return text + (
        f" Not counted, as nobody has measured it: {', '.join(unknown)}." if unknown else ""
    )


def source_sentence(
    work: SourceWork, past: Sequence[PastTraining], *, guessed: bool = False
) -> str:
    """Say how long a training of a source model takes at most, between which times, and what that rests on.

    On a GPU on which no training was finished yet, that there is no estimate and what it would be on the CPU.
    `guessed`: nobody has counted the structures.
    """
    found, begin = estimate_source(work, past=past), "Estimated time:"
    if found is None:
        found = estimate_source(replace(work, device="cpu"), past=past)
        begin = (
            "There is no estimate for a GPU yet: no training on one was finished on this server. "
            "On its CPU:"
        )
    assert found is not None
    low, high = (rounded(seconds) for seconds in found.range_s)
    rests = (
        f"{words.count(found.runs, 'earlier training')} on this server"
        if found.runs
        else "costs measured on one core of another machine"
    )
    text = (
        f"{begin} about {rounded(found.seconds)} ({low} to {high}) if all "
        f"{words.count(work.epochs, 'epoch')} are needed; training ends earlier when the error on "
        f"held-out structures no longer falls. It rests on {rests}."
    )
    many = f"{float(f'{work.n:.2g}'):,.0f}"
    return text + (
        f" The number of structures, about {many}, is guessed by the size of the file."
        if guessed
        else ""
    )


def basis(estimates: Mapping[str, Estimate]) -> str:
    """Say what estimates rest on."""
    own = [found.runs for found in estimates.values() if found.basis == "this method here"]
    other = [found.runs for found in estimates.values() if found.basis == "other methods here"]
    reference = len(estimates) - len(own) - len(other)
    parts = []
    if own:
        parts.append(f"{words.count(sum(own), 'earlier run')} of the same kind on this server")
    if other:
        parts.append(
            f"measured costs, corrected by {words.count(max(other), 'run')} of other methods on "
            "this server"
        )
    if reference:
        parts.append("costs measured on another machine with two cores")
    return f"It rests on {'; '.join(parts)}."


def rounded(seconds: float) -> str:
    """Return a time as coarse as an estimate is: to 5 s below a minute, to half a minute below ten, else to minutes."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return words.duration(max(step * round(seconds / step), 5))
