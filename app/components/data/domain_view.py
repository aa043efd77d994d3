"""The applicability domain of a source model: unseen elements, distances and nearest structures."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import downloads, stores, tables, words
from app.components.shared.drawing import figure
from app.components.shared.job_panel import unfinished
from app.components.shared.waiting import registered
from app.components.structures.pictures import pictures_of_ids
from bandgap import plots
from bandgap.datasets.gaps import distinct_levels
from bandgap.foundation.csv_tables import rearm
from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.jobs.home import domain_paths
from bandgap.jobs.listing import names_of
from bandgap.jobs.rows import Dataset
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.predictions.domain import FAR

SHOWN = 500  # rows of the table, the farthest first
CAPTION = (
    "The dashed line is where structures like the source's own would lie. Structures to the right "
    "of 95 % are outside: there the source helps less, and errors are larger."
)
HELP = (
    "Share of the source's structures that are nearer to their nearest one than this structure is "
    "to its own."
)
COLUMNS = {
    "percentile": tables.column("percentile (%)", format="%.0f", help=HELP),
    "distance": tables.column(
        "distance",
        format="%.2g",
        help="1 - cosine of the angle between descriptors: 0 is the same direction.",
    ),
    "nearest": tables.column(
        "nearest known structure", help="By name, in the data of the source model."
    ),
    "judgement": tables.column("judgement", "medium"),
}


def domain_view(dataset: Dataset, elements: tuple[str, ...] = ()) -> None:
    """Draw the choice of a source model, the comparison of the data set with it, and the result.

    The table has only structures that contain `elements`.
    """
    if not registered("source"):
        return
    sources = stores.sources()
    left_column, right_column = st.columns([3, 2], vertical_alignment="bottom")
    source = left_column.selectbox(
        "Source model", list(sources), format_func=lambda s: sources[s].title
    )
    subject = f"domain-{dataset.id}-{source}"
    job = stores.latest(subject, "domain")
    csv, companion = domain_paths(stores.home(), dataset.id, source)
    active = job is not None and job.active
    label = "Compare again" if companion.is_file() else "Compare with the source"
    if right_column.button(
        label, disabled=active, type="secondary" if companion.is_file() else "primary"
    ):
        title = f"Comparing {dataset.name} with a source model"
        stores.start(
            "domain", title, subject=subject, again=True, dataset=dataset.id, source=source
        )
        st.rerun()
    target_level = dataset.level_of_theory
    source_level = sources[source].card.get("level_of_theory", "")
    if len(distinct_levels([target_level, source_level])) > 1:
        st.caption(
            f"Levels of theory differ: {words.escaped(target_level)} here, "
            f"{words.escaped(source_level)} in the source. A transfer first maps the source's gaps "
            "to yours by a straight line."
        )
    unfinished(job)
    if not companion.is_file():
        if not active:
            st.write(
                "Which elements has the source never seen, how far are these structures from what "
                "it was trained on, and what is the nearest structure that it knows? The "
                "comparison takes a few milliseconds a structure."
            )
        return
    try:
        summary, table = read_domain(csv, companion, companion.stat().st_mtime)
    except DAMAGE:
        st.error("The stored comparison cannot be read. Compare again; nothing else is touched.")
        return
    if elements:
        names = names_of(stores.library(), dataset.id, StructureFilter(elements=elements))
        passes = [name in names for name in zip(table["file"], table["id"], strict=True)]
        table = table[passes].reset_index(drop=True)
    _result(summary, table, csv, dataset=dataset.id)


@st.cache_data(max_entries=8, show_spinner=False)
def read_domain(csv: Path, companion: Path, changed: float) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return summary and table of a comparison, the farthest structures first.

    `changed`, the time of the last change, is part of the key of the cache. Raises one of DAMAGE
    when a file is missing or damaged.
    """
    summary: dict[str, Any] = read_json(companion)
    table = pd.read_csv(csv, keep_default_na=False, dtype=dict.fromkeys(_TEXTS, str))
    for name in _TEXTS:
        table[name] = [rearm(text) for text in table[name]]
    for name in ("distance", "percentile"):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    table["percentile"] *= 100.0
    missing = {"n", "far", "unseen", "n_known"} - set(summary)
    if missing:
        raise KeyError(str(missing))
    unseen = (table["unseen"] != "").to_numpy()
    order = (-table["percentile"].fillna(-1.0) - 1000.0 * unseen).argsort(kind="stable")
    return summary, table.iloc[order].reset_index(drop=True)


def domain_sentence(summary: dict[str, Any]) -> str:
    """Return how many structures are far from the source's data, and which elements are unseen."""
    n = summary["n"]
    far = summary["far"]
    unseen = summary["unseen"]
    parts = [
        f"**{far:,} of {n:,}** structures are farther from the source's than {100 * FAR:.0f} % of "
        "these are"
    ]
    elements = ", ".join(
        f"{element} (in {words.count(count, 'structure')})" for element, count in unseen.items()
    )
    parts.append(
        f"elements that the source has never seen: {elements}"
        if elements
        else "every element is known to the source"
    )
    if (n_near := summary.get("near_copies")) is not None:
        verb = "has" if n_near == 1 else "have"
        parts.append(f"{n_near:,} {verb} a near-copy in the source's data")
    return f"{'; '.join(parts)}."


def _result(summary: dict[str, Any], table: pd.DataFrame, csv: Path, *, dataset: str) -> None:
    st.markdown(domain_sentence(summary))
    left_column, right_column = st.columns([3, 2], gap="medium")
    with left_column:
        names = ["id", "percentile", "distance", "nearest", "judgement", "file"]
        columns = tables.columns(["id", "file"]) | COLUMNS
        shown_rows = table.head(SHOWN)[names]
        pictures = pictures_of_ids(dataset, shown_rows["id"].tolist())
        tables.show(
            tables.with_pictures(shown_rows, pictures),
            alt="Structures by their distance to the source",
            columns=columns,
        )
        if len(table) > SHOWN:
            st.caption(f"The {SHOWN} farthest of {len(table):,}; the CSV contains all.")
        downloads.file_button("Download the comparison (CSV)", csv.read_bytes, "domain.csv")
    with right_column:
        shares = table["percentile"] / 100.0
        alt = "Percentiles of the distances to the source"
        figure(plots.distance_percentiles, shares, far=FAR, key="domain", alt=alt, caption=CAPTION)
        st.caption(
            f"Distances are to {words.count(summary['n_known'], 'structure')} of the source's data."
        )


_TEXTS = ("id", "file", "judgement", "unseen", "nearest")
