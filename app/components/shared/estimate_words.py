"""Messages on the estimated time of transfers and trainings, with the data behind the estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from app.components.shared import words
from bandgap.jobs.estimates import Estimate
from bandgap.jobs.source_estimates import PastTraining, SourceWork, estimate_source


def estimate_sentence(
    estimates: Mapping[str, Estimate | None], *, device: Literal["cpu", "cuda"] = "cpu"
) -> str:
    """Return the total time of the methods, its range and the data behind it.

    Methods are given by title and run one after another. The message names methods without an
    estimate. It says that costs were measured on a CPU when a GPU is used.
    """
    known_estimates = {
        title: estimate for title, estimate in estimates.items() if estimate is not None
    }
    unknown = [title for title in estimates if title not in known_estimates]
    if not known_estimates:
        return (
            f"How long {', '.join(unknown)} will take is not known yet: nobody has measured it."
            if unknown
            else ""
        )
    total = sum(estimate.seconds for estimate in known_estimates.values())
    low, high = (
        sum(estimate.range_s[end] for estimate in known_estimates.values()) for end in (0, 1)
    )
    several = ", one after another" if len(known_estimates) > 1 else ""
    text = (
        f"Estimated time: about {rounded(total)}{several} ({rounded(low)} to {rounded(high)}). "
        f"{basis(known_estimates)}"
    )
    if device == "cuda" and any(not estimate.runs for estimate in known_estimates.values()):
        text += " These costs are of a CPU; there is no estimate for a GPU yet."
    return text + (
        f" Not counted, as nobody has measured it: {', '.join(unknown)}." if unknown else ""
    )


def source_sentence(
    work: SourceWork, past: Sequence[PastTraining], *, guessed: bool = False
) -> str:
    """Return the longest time of a source model's training, its range and the data behind it.

    For a GPU without a finished training the message gives the time on the CPU instead.
    With `guessed` the number of structures is a guess.
    """
    estimate = estimate_source(work, past=past)
    begin = "Estimated time:"
    if estimate is None:
        estimate = estimate_source(replace(work, device="cpu"), past=past)
        begin = (
            "There is no estimate for a GPU yet: no training on one was finished on this server. "
            "On its CPU:"
        )
    assert estimate is not None
    low, high = (rounded(seconds) for seconds in estimate.range_s)
    basis_text = (
        f"{words.count(estimate.runs, 'earlier training')} on this server"
        if estimate.runs
        else "costs measured on one core of another machine"
    )
    text = (
        f"{begin} about {rounded(estimate.seconds)} ({low} to {high}) if all "
        f"{words.count(work.epochs, 'epoch')} are needed; training ends earlier when the error on "
        f"held-out structures no longer falls. It rests on {basis_text}."
    )
    many = f"{float(f'{work.n:.2g}'):,.0f}"
    return text + (
        f" The number of structures, about {many}, is guessed by the size of the file."
        if guessed
        else ""
    )


def basis(estimates: Mapping[str, Estimate]) -> str:
    """Return a sentence on the data behind estimates."""
    runs_of_method = [
        estimate.runs for estimate in estimates.values() if estimate.basis == "this method here"
    ]
    runs_of_other_methods = [
        estimate.runs for estimate in estimates.values() if estimate.basis == "other methods here"
    ]
    n_reference = len(estimates) - len(runs_of_method) - len(runs_of_other_methods)
    parts = []
    if runs_of_method:
        n_runs = words.count(sum(runs_of_method), "earlier run")
        parts.append(f"{n_runs} of the same kind on this server")
    if runs_of_other_methods:
        n_runs = words.count(max(runs_of_other_methods), "run")
        parts.append(f"measured costs, corrected by {n_runs} of other methods on this server")
    if n_reference:
        parts.append("costs measured on another machine with two cores")
    return f"It rests on {'; '.join(parts)}."


def rounded(seconds: float) -> str:
    """Return a time rounded to 5 s below 1 min, to 30 s below 10 min, else to minutes."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return words.duration(max(step * round(seconds / step), 5))
