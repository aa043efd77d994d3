"""About: versions and device of the server, disk space, licence, and commands that repeat a run."""

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
from bandgap.jobs.refitting import parent_of
from bandgap.jobs.rows import MAX_FILE_BYTES, MAX_FILES, MAX_UPLOAD_BYTES
from bandgap.jobs.shell_commands import (
    GAPS,
    RUN,
    STRUCTURES,
    predict_command,
    refit_command,
    serve_command,
    transfer_command,
)

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
    frame.heading(
        "About", "What this server runs on, its limits, and how to repeat a run in a shell."
    )
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        server()
        space()
    with right_column:
        repeat()
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


def repeat() -> None:
    st.subheader("Repeat a run in a shell", anchor=False)
    run = stores.library().run(session.workspace(), session.selected_id("run"))
    if run is None:
        runs = stores.library().runs(session.workspace(), limit=1)
        if not runs:
            st.write("There is no run yet; its commands will be shown here.")
            return
        run = runs[0]
    datasets = {dataset.id: dataset for dataset in stores.library().datasets(session.workspace())}
    dataset = datasets.get(run.dataset)
    name = words.escaped(dataset.name) if dataset else "the deleted data set"
    st.write(f"{words.escaped(run.title)}, on {name}:")
    level = dataset.level_of_theory if dataset else ""
    parent_id = parent_of(stores.jobs_of("transfer").get(run.job))
    parent = stores.library().run(session.workspace(), parent_id)
    tested = run if parent is None else parent
    lines = [transfer_command(tested.source, tested.request, level_of_theory=level)]
    if parent is not None:
        lines.append(refit_command())
    lines.append(predict_command(run.request, refitted=parent is not None))
    st.code("\n".join(lines), language=None, wrap_lines=True)
    st.caption(
        f"{STRUCTURES} are the files of the data set, {GAPS} is the table of their gaps, {RUN} a "
        "new folder. The same seed gives the same split and the same draws."
    )
    st.write("To let other programs ask this run:")
    st.code(serve_command(refitted=parent is not None), language=None, wrap_lines=True)
    st.caption(
        "They send structures over HTTP and get the fields of the CSV as JSON, with the numbers of "
        "`bandgap predict`; the address that the command prints has a page /docs. It needs the "
        "extra: `pip install -c constraints.txt '.[serve]'` in the folder of bandgap's README. "
        "Without a token only its own machine is served."
    )


def licence() -> None:
    st.subheader("Licence and citation", anchor=False)
    st.write(
        f"bandgap {importlib.metadata.version('bandgap')}, Apache License 2.0. Please cite what a "
        "result rests on:"
    )
    for text in CITATIONS:
        st.markdown(f"- {text}")


frame.show(page)
