"""The hint that a data set has near-copies, which the split would put on both of its sides."""

from app import session
from app.components.shared import stores, words
from app.components.shared.guide_links import help_link
from bandgap.evaluation.near_copies import ONE_FORMULA, SMALLEST_SHARE
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.runs.requests import TransferRequest

CHECKS = ("check", "import_folder", "label_calculations")


def source_copies_hint(dataset: Dataset, source: Source) -> str:
    """Return how many structures have a near-copy in the source's data, "" if it is not known.

    The number is that of the newest comparison on the page Data.
    """
    jobs = stores.jobs().jobs(session.workspace(), kinds=("domain",))
    subject = f"domain-{dataset.id}-{source.id}"
    results = [job.result for job in jobs if job.subject == subject and job.state == "finished"]
    result = results[0] if results else {}
    n_near = result.get("near_copies")
    if n_near is None:
        return ""
    verb = "has" if n_near == 1 else "have"
    return (
        f"{n_near:,} of {words.count(result['n'], 'structure')} {verb} a near-copy in the data of"
        " the source model, or are in them. The error on these says little about other structures."
        if n_near
        else "No structure has a near-copy in the data of the source model."
    )


def near_copies_hint(dataset: Dataset, request: TransferRequest) -> str:
    """Return how many structures have a near-copy and what to tick, "" for few or if it is ticked.

    The number is that of the check of the data set.
    """
    if request.by_formula:
        return ""
    jobs = stores.jobs().jobs(session.workspace(), kinds=CHECKS)
    checks = [job for job in jobs if job.subject == dataset.id and job.state == "finished"]
    result = checks[0].result if checks else {}
    n_near = result.get("near_copies") or 0
    n = result.get("n") or 0
    if not n or n_near < SMALLEST_SHARE * n:
        return ""
    advice = ONE_FORMULA
    if result.get("formulas", 2) > 1:
        label = TransferRequest.field("by_formula").setting.label
        advice = f"To test on new compositions, tick **{label}** under More settings."
    verb = "has" if n_near == 1 else "have"
    link = help_link("explanation/calibration", "Near-copies across a split")
    return (
        f"{n_near:,} of {words.count(n, 'structure')} {verb} a near-copy in this data set. "
        f"{advice}{link}"
    )
