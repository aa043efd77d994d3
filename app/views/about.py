"""About: versions and device of the server, disk space and licence."""

import importlib.metadata

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, words
from app.components.shared.guide_links import help_link
from app.components.shared.waiting import rerun_when
from bandgap.foundation import citations
from bandgap.jobs.disk import quota_bytes, workspace_usage
from bandgap.jobs.lock import worker_status
from bandgap.jobs.rows import MAX_FILE_BYTES, MAX_FILES, MAX_UPLOAD_BYTES

CITATIONS = (
    citations.METHOD,
    citations.MBTR,
    citations.DSCRIBE,
    "The data that the source model and the transfer learned from; the demo data are CC0.",
    "The second demo's data are of the [Materials Project](https://materialsproject.org), CC BY "
    "4.0: A. Jain et al., APL Materials 1, 011002, 2013, "
    "[doi:10.1063/1.4812323](https://doi.org/10.1063/1.4812323).",
)


def page() -> None:
    frame.heading("About", "What this server runs on, and its limits.")
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        server()
        space()
    with right_column:
        licence()


def server() -> None:
    st.subheader("Server", anchor=False)
    status = worker_status(stores.jobs().database)
    if status.alive:
        st.write(
            f"The worker is running; it last answered {words.duration(status.age_s or 0)} ago."
        )
    else:
        st.write(words.no_worker(status.age_s))
    system = stores.library().system()
    if system is None:
        rerun_when(
            lambda: stores.library().is_registered("system"),
            lambda: st.caption(
                "Versions and device are known as soon as a worker has started here."
            ),
        )
        return
    st.write(f"Jobs compute on: {system.device}, {words.count(system.cores, 'CPU core')}.")
    versions = {"python": system.python, **system.versions}
    table = pd.DataFrame({"package": list(versions), "version": list(versions.values())})
    alt = "Versions of the packages that jobs compute with"
    downloads.table_with_csv(table, "versions.csv", alt=alt)


def space() -> None:
    st.subheader("Disk space and limits", anchor=False)
    usage = workspace_usage(stores.library(), session.workspace())
    st.write(
        f"This workspace takes {words.size(usage.uploads)} of uploaded files and "
        f"{words.size(usage.runs)} of runs; the descriptors that all workspaces share take "
        f"{words.size(usage.cache)}. {words.size(usage.free)} are free."
    )
    st.caption(
        f"An upload may have {MAX_FILES:,} files and {words.size(MAX_UPLOAD_BYTES)} in all, one "
        f"file {words.size(MAX_FILE_BYTES)}. Larger data are added on the server, with limits ten "
        f"times as large. {limit_sentence(quota_bytes())}"
        + help_link("how-to/large-data", "More than an upload takes")
    )


def limit_sentence(quota: int) -> str:
    limit = f"may take {words.size(quota)}" if quota else "has no quota"
    return f"A workspace {limit}; whoever runs this server sets it."


def licence() -> None:
    st.subheader("Licence and citation", anchor=False)
    st.write(
        f"bandgap {importlib.metadata.version('bandgap')}, Apache License 2.0. Please cite what a "
        "result rests on:"
    )
    for text in CITATIONS:
        st.markdown(f"- {text}")


frame.show(page)
