"""Messages on the estimated time of transfers and trainings, with the data behind the estimate."""

from collections.abc import Mapping
from typing import Literal

from app.components.shared import words
from bandgap.jobs.estimates import Estimate


def estimate_sentence(
    estimates: Mapping[str, Estimate | None], *, device: Literal["cpu", "cuda"] = "cpu"
) -> str:
    """Return the total time of the methods, its range and the data behind it.

    Methods are given by title and run one after another. The message names methods without an
    estimate. It says that costs were measured on a CPU when a GPU is used.
    """
    measured = [estimate for estimate in estimates.values() if estimate is not None]
    unknown = ", ".join(title for title, estimate in estimates.items() if estimate is None)
    if not measured:
        return f"How long {unknown} will take is not known yet: nobody has measured it."
    n_runs = sum(estimate.runs for estimate in measured)
    basis = f"from {words.count(n_runs, 'earlier run')} on this server"
    if not all(estimate.runs for estimate in measured):
        machine = "the CPU of another machine" if device == "cuda" else "another machine"
        basis = (
            f"from costs measured on {machine}; what is computed for the first time takes longer"
        )
    text = f"Estimated time: {_range(measured)}, {basis}."
    return f"{text} Not counted, as nobody has measured it: {unknown}." if unknown else text


def source_sentence(estimate: Estimate | None, *, epochs: int) -> str:
    """Return the longest time of a source model's training, its range and the data behind it."""
    if estimate is None:
        return _FIRST_TRAINING
    return (
        f"Estimated time: {_range([estimate])} if all {words.count(epochs, 'epoch')} are needed, "
        f"from {words.count(estimate.runs, 'earlier training')} on this server."
    )


def rounded(seconds: float) -> str:
    """Return a time rounded to 5 s below 1 min, to 30 s below 10 min, else to minutes."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return words.duration(max(step * round(seconds / step), 5))


def _range(estimates: list[Estimate]) -> str:
    total = rounded(sum(estimate.seconds for estimate in estimates))
    low, high = (rounded(sum(estimate.range_s[end] for estimate in estimates)) for end in (0, 1))
    return f"about {total} ({low} to {high})"


_FIRST_TRAINING = (
    "How long it takes is not known before the first training of this kind on this server: minutes "
    "with some thousand structures on a CPU, an hour or more with some ten thousand."
)
