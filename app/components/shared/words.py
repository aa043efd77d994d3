"""Texts of the dashboard: numbers with units, escaped names, states and endings of jobs."""

import math
import os
import re
from datetime import datetime

from bandgap.evaluation.metal_tables import THRESHOLD
from bandgap.foundation.progress import RATE
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.kinds import KINDS
from bandgap.jobs.store import Event, Job, State

STATES: dict[State, str] = {
    "queued": "waiting",
    "running": "running",
    "cancelling": "being cancelled",
    "cancelled": "cancelled",
    "failed": "failed",
    "finished": "finished",
    "interrupted": "interrupted",
}
_MARKUP = re.compile(
    r"(`(?:bandgap |pip |--[a-z])[^`]*`)|[\\`*\[\]<~$|]|(?<!\w)_|_(?!\w)|:(?=\w[\w/+-]*[:\[]|//)"
)
# An option of the command line, where the place on a page follows.
_OPTION = re.compile(r"`[^`]*` \((on the page [^()]*)\)")
_LINE_START = re.compile(r"^(\s*\d*)([#>+-]|(?<=\d)[.)])", re.MULTILINE)
_BY_COLUMN = {quantity.column: quantity for quantity in Quantity}
_EARLY = 0.05  # below this share of the work the remaining time is not shown


def duration(seconds: float) -> str:
    """Return a time as "2 min 10 s"; a negative time, after a step of the clock, as "0 s"."""
    total_s = max(round(seconds), 0)
    if total_s < 60:
        return f"{total_s} s"
    if total_s < 3600:
        return f"{total_s // 60} min {total_s % 60} s" if total_s % 60 else f"{total_s // 60} min"
    return f"{total_s // 3600} h {total_s % 3600 // 60} min"


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as "27 Nov 06:14:05", in the server's time zone."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%d %b %H:%M:%S")


def percent(share: float) -> str:
    """Return 0.95 as "95 %"."""
    return f"{100 * share:.0f} %"


def percents(*shares: float) -> tuple[str, ...]:
    """Return shares as percentages with the fewest decimals, at most two, that show their order.

    >>> percents(0.916, 0.919, 0.972)
    ('91.6 %', '91.9 %', '97.2 %')
    >>> percents(0.93, 0.919, 0.972)
    ('93 %', '92 %', '97 %')
    """
    for decimals in range(3):
        texts = tuple(f"{100 * share:.{decimals}f} %" for share in shares)
        if len(set(texts)) == len(set(shares)):
            break
    return texts


def interval(lower_eV: float, upper_eV: float, p_metal: float = 0.0) -> str:
    """Return "1.20 to 1.90", "metal (96 %)" from a probability of a half on, or "" without ends."""
    if p_metal >= THRESHOLD:
        return f"metal ({percent(p_metal)})"
    return "" if math.isnan(lower_eV) else f"{lower_eV:.2f} to {upper_eV:.2f}"


def size(n_bytes: int) -> str:
    """Return 21_300_000 as "21 MB", in powers of 1000."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            value = n_bytes / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return count(n_bytes, "byte")


def count(n: int, noun: str) -> str:
    """Return "1 structure" or "1,240 structures"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def sentence(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def escaped(text: str) -> str:
    """Return text that Markdown shows unchanged, for names from users."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~$:-])", r"\\\1", text)


def escaped_sentence(text: str) -> str:
    """Return an error or a warning, which may contain such names, so that Markdown shows it.

    Only characters that would be markup are escaped: a single hyphen or bracket is not. Commands
    of `bandgap` and `pip` and options in backticks remain code; of an option that is followed by
    its place on a page only the place is shown. The path of the data directory, of the server, is
    not shown.
    """
    text = _OPTION.sub(r"\1", text)
    portable = text.replace(os.environ.get("BANDGAP_HOME") or "\0", "BANDGAP_HOME")
    escaped_inside = _MARKUP.sub(lambda match: match[1] or f"\\{match[0]}", portable)
    return _LINE_START.sub(r"\1\\\2", escaped_inside)


def no_worker(age_s: float | None) -> str:
    """Return the message that no worker runs, and what to do."""
    since = "has not been started" if age_s is None else f"has not answered for {duration(age_s)}"
    return (
        f"The worker {since}: jobs wait until it runs. Start it with `bandgap worker`, or stop and "
        "start `bandgap app`."
    )


def progress_line(event: Event, *, now: float) -> str:
    """Return the progress of a phase and, after 5 % of it, the remaining time."""
    update = event.update
    if not update.total:
        return f"{duration(now - event.since)} so far"
    parts = [f"{update.done:,} of {update.total:,}"]
    if RATE in update.values and update.done < update.total:
        rate = update.values[RATE]
        parts.append(f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second")
    spent = event.time - event.since
    done = update.done - event.since_done
    if done >= _EARLY * update.total and update.done < update.total and spent > 1:
        remaining_s = spent * (update.total - update.done) / done - (now - event.time)
        parts.append(f"about {duration(max(remaining_s, 1))} left")
    return " · ".join(parts)


def value_line(event: Event) -> str:
    """Return the current figures without the rate, such as "R-hat 1.02 · acceptance 0.79"."""
    units = {name: f" {quantity.unit}".rstrip() for name, quantity in _BY_COLUMN.items()}
    return " · ".join(
        f"{figure_label(name)} {value:.3g}{units.get(name, '')}"
        for name, value in event.update.values.items()
        if name != RATE
    )


def ending(job: Job, *, can_resume: bool = False) -> str:
    """Return how a job ended and what the user can do; `can_resume` if its results are stored."""
    noun = KINDS[job.kind].noun
    took = (
        f" after {duration((job.finished or job.created) - job.started)}"
        if job.started and job.finished
        else ""
    )
    match job.state:
        case "finished":
            return f"The {noun} is finished{took}."
        case "cancelled":
            advice = (
                "Its results so far are stored: resume it"
                if can_resume
                else "Nothing else was touched; start it again"
            )
            return f"The {noun} was cancelled{took}. {advice} when you like."
        case "interrupted":
            reason = job.error or "The worker stopped answering while this job was running."
            advice = (
                "Its results so far are stored: resume it."
                if can_resume
                else "Your data are safe; start it again."
            )
            return f"The {noun} was interrupted. {reason} {advice}"
        case _:
            return escaped_sentence(job.error) or f"The {noun} failed."


def counts(numbers: dict[str, int]) -> str:
    """Return the result of a check: "300 structures: 280 ready, 15 usable with a warning, ..."."""
    parts = [f"{numbers['ready']:,} ready"]
    if numbers["warning"]:
        parts.append(f"{numbers['warning']:,} usable with a warning")
    if numbers["refused"]:
        parts.append(f"{numbers['refused']:,} refused")
    gaps = (
        f"{numbers['usable']:,} have a gap and can be learned from"
        if numbers["usable"]
        else "none has a gap yet"
    )
    metals = f"; {numbers['metals']:,} of these are metals (gap 0)" if numbers["metals"] else ""
    return f"**{count(numbers['all'], 'structure')}**: {', '.join(parts)}; {gaps}{metals}."


def figure_label(name: str) -> str:
    """Return the label of a figure that a job reports, such as "R-hat" of rhat."""
    return _BY_COLUMN[name].label if name in _BY_COLUMN else name.replace("_", " ")
