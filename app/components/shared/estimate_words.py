"""The estimated time of transfers and trainings in words, with what it rests on."""

from collections.abc import Sequence

from app.components.shared import words
from bandgap.jobs.estimates import Estimate


def estimate_help(estimates: Sequence[Estimate]) -> str:
    """Return the total time of jobs one after another, and what it rests on."""
    bases = []
    if n_runs := sum(estimate.runs for estimate in estimates):
        bases.append(f"{words.count(n_runs, 'earlier run')} of the same kind on this server")
    if not all(estimate.runs for estimate in estimates):
        bases.append("rates measured on another machine, without a GPU")
    total = rounded(sum(estimate.seconds for estimate in estimates))
    return f"About {total}, by {' and '.join(bases)}; most take between half and twice this time."


def rounded(seconds: float) -> str:
    """Return a time rounded to 5 s below 1 min, to 10 s below 5 min, else to minutes."""
    step = 5 if seconds < 60 else 10 if seconds < 300 else 60
    return words.duration(max(step * round(seconds / step), 5))
