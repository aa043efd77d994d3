"""How long the chosen transfers will take, in words, with what that rests on."""

from collections.abc import Mapping

from bandgap.jobs.estimates import Estimate
from components import words


def estimate_sentence(estimates: Mapping[str, Estimate | None]) -> str:
    """Say how long the methods, by title, take one after another, between which times, and why.

    A method whose cost is not known is named.
    """
    known = {title: found for title, found in estimates.items() if found is not None}
    unknown = [title for title in estimates if title not in known]
    if not known:
        return f"How long {', '.join(unknown)} will take is not known yet: nobody has measured it." if unknown else ""
    total = sum(found.seconds for found in known.values())
    low, high = (sum(found.range_s[end] for found in known.values()) for end in (0, 1))
    several = ", one after another" if len(known) > 1 else ""
    text = f"Estimated time: about {rounded(total)}{several} ({rounded(low)} to {rounded(high)}). {basis(known)}"
    return text + (f" Not counted, as nobody has measured it: {', '.join(unknown)}." if unknown else "")


def basis(estimates: Mapping[str, Estimate]) -> str:
    """Say what estimates rest on."""
    own = [found.runs for found in estimates.values() if found.basis == "this method here"]
    other = [found.runs for found in estimates.values() if found.basis == "other methods here"]
    reference = len(estimates) - len(own) - len(other)
    parts = []
    if own:
        parts.append(f"{words.count(sum(own), 'earlier run')} of the same kind on this server")
    if other:
        parts.append(f"measured costs, corrected by {words.count(max(other), 'run')} of other methods on this server")
    if reference:
        parts.append("costs measured on another machine with two cores")
    return f"It rests on {'; '.join(parts)}."


def rounded(seconds: float) -> str:
    """Return a time as coarse as an estimate is: to 5 s below a minute, to half a minute below ten, else to minutes."""
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return words.duration(max(step * round(seconds / step), 5))
