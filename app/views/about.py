"""About: versions and device of the server, disk space and licence."""

import importlib.metadata
import shutil

import streamlit as st

from app import session, visitors
from app.components.shared import frame, stores, words
from app.components.shared.guide_links import help_link
from app.components.shared.waiting import rerun_when
from bandgap.foundation import citations
from bandgap.jobs.disk import folder_bytes, person_usage, workspace_usage
from bandgap.jobs.lock import worker_status
from bandgap.jobs.people import person_of
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
        st.subheader("Licence and citation", anchor=False)
        version = importlib.metadata.version("bandgap")
        st.write(f"bandgap {version}, Apache License 2.0. Please cite what a result rests on:")
        st.markdown("\n".join(f"- {text}" for text in CITATIONS))


def server() -> None:
    st.subheader("Server", anchor=False)
    if person := visitors.person():
        st.write(f"You are {words.escaped(person)}.")
        if st.user.get("is_logged_in"):
            st.button("Log out", on_click=st.logout)
    status = worker_status(stores.jobs().database)
    answered = f"The worker is running; it last answered {words.duration(status.age_s or 0)} ago."
    st.write(answered if status.alive else words.no_worker(status.age_s))
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
    st.caption(", ".join(f"{package} {version}" for package, version in versions.items()))


def space() -> None:
    st.subheader("Disk space and limits", anchor=False)
    usage = workspace_usage(stores.library(), session.workspace())
    visitor = visitors.person() or person_of(stores.library().database, session.workspace())
    of_visitor = person_usage(stores.library(), visitor)
    cache = stores.home().cache
    if of_visitor.is_near_quota:
        st.warning(
            f"You have used {words.size(of_visitor.used)} of {words.size(of_visitor.quota)}."
        )
    limit = f"may take {words.size(of_visitor.quota)}" if of_visitor.quota else "has no quota"
    st.write(
        f"This workspace takes {words.size(usage.uploads)} of uploaded files and "
        f"{words.size(usage.runs)} of runs; the descriptors that all workspaces share take "
        f"{words.size(folder_bytes(cache))}. {words.size(shutil.disk_usage(cache).free)} are free."
    )
    st.caption(
        f"An upload may have {MAX_FILES:,} files and {words.size(MAX_UPLOAD_BYTES)} in all, one "
        f"file {words.size(MAX_FILE_BYTES)}. A person {limit}; whoever runs this server sets it."
        + help_link("how-to/large-data", "More than an upload takes")
    )


page()
