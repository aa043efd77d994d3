"""The comparison of a data set with the structures that a source model learned from."""

from typing import Any

import streamlit as st

from app.components.shared import downloads, frame, stores, words
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import unfinished
from app.components.shared.waiting import registered
from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.jobs.home import domain_paths
from bandgap.jobs.rows import Dataset
from bandgap.predictions.domain import FAR


def domain_view(dataset: Dataset) -> None:
    """Draw a closed section: the choice of a source model, the comparison and its result."""
    with st.expander(
        "Compare with a source model", on_change="rerun", key=f"domain-{dataset.id}"
    ) as expander:
        if expander.open and registered("source"):
            _comparison(dataset)


def _comparison(dataset: Dataset) -> None:
    sources = stores.sources()
    with frame.row("bottom"):
        source = st.selectbox(
            "Source model", list(sources), format_func=lambda s: sources[s].title, width=420
        )
        subject = f"domain-{dataset.id}-{source}"
        job = stores.latest(subject, "domain")
        if st.button(
            "Compare",
            disabled=job is not None and job.active,
            help="Elements that the source has never seen, distances to its structures and the "
            "nearest of them."
            + help_link("explanation/applicability", "How a data set relates to a source model"),
        ):
            title = f"Comparing {dataset.name} with a source model"
            stores.start(
                "domain", title, subject=subject, again=True, dataset=dataset.id, source=source
            )
            st.rerun()
    unfinished(job)
    csv, companion = domain_paths(stores.home(), dataset.id, source)
    if not companion.is_file():
        return
    try:
        st.markdown(domain_sentence(read_json(companion)))
    except DAMAGE:
        st.error("The stored comparison cannot be read. Compare again; nothing else is touched.")
        return
    downloads.file_button("Download the comparison (CSV)", csv.read_bytes, "domain.csv")


def domain_sentence(summary: dict[str, Any]) -> str:
    """Return how many structures are far from the source's data, and which elements are unseen.

    Raises one of DAMAGE where the summary lacks a number.
    """
    far = f"**{summary['far']:,} of {summary['n']:,}** structures are farther from the source's"
    elements = ", ".join(
        f"{element} (in {words.count(count, 'structure')})"
        for element, count in summary["unseen"].items()
    )
    parts = [
        f"{far} than {100 * FAR:.0f} % of these are",
        f"elements that the source has never seen: {elements}"
        if elements
        else "every element is known to the source",
    ]
    if (n_near := summary.get("near_copies")) is not None:
        parts.append(f"near-copies of the source's data: {n_near:,}")
    return f"{'; '.join(parts)}."
