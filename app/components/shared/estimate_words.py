"""Messages on the estimated time of transfers and trainings, with the data behind the estimate."""

from collections.abc import Sequence

from app.components.shared import words
from bandgap.jobs.estimates import Estimate


def estimate_help(estimates: Sequence[Estimate]) -> str:
    """Return the range of the total time of transfers one after another, and what it rests on."""
    bases = []
    if n_runs := sum(estimate.runs for estimate in estimates):
        bases.append(f"{words.count(n_runs, 'earlier run')} of the same kind on this server")
    caveat = ""
    if not all(estimate.runs for estimate in estimates):
        bases.append("costs measured on two cores of another machine, without a GPU")
        caveat = f" {_FIRST_TIME}"
    return f"{words.sentence(_range(estimates))}, by {' and '.join(bases)}.{caveat}"


def source_sentence(estimate: Estimate | None, *, epochs: int) -> str:
    """Return the longest time of a source model's training, its range and the data behind it."""
    if estimate is None:
        return _FIRST_TRAINING
    return (
        f"Estimated time: {_range([estimate])} if all {words.count(epochs, 'epoch')} are needed; "
        "training ends earlier when the error on held-out structures no longer falls. It rests on "
        f"{words.count(estimate.runs, 'earlier training')} on this server."
    )


def rounded(seconds: float) -> str:
    """Return a time rounded to 5 s below 1 min, to 30 s below 10 min, else to minutes."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return words.duration(max(step * round(seconds / step), 5))


def _range(estimates: Sequence[Estimate]) -> str:
    total = rounded(sum(estimate.seconds for estimate in estimates))
    low, high = (rounded(sum(estimate.range_s[end] for estimate in estimates)) for end in (0, 1))
    return f"about {total} ({low} to {high})"


_FIRST_TIME = (
    "Descriptors and electron levels that are computed for the first time take longer: some "
    "milliseconds an atom with a potential or with tight binding."
)
_FIRST_TRAINING = (
    "How long it takes is not known before the first training of this kind on this server: minutes "
    "with some thousand structures on a CPU, an hour or more with some ten thousand."
)
