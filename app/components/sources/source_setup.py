"""The form that trains a source model on a data set of the workspace or a file of the server."""

import uuid
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import estimate_help
from app.components.shared.guide_links import help_link
from bandgap.datasets.oe62 import LEVELS
from bandgap.foundation.config import fingerprint
from bandgap.foundation.extras import install_command
from bandgap.jobs.deletions import make_room
from bandgap.jobs.estimates import JobTimes
from bandgap.jobs.rows import Dataset
from bandgap.jobs.server_files import VARIABLE, ServerFile, allowed_folder, offered_files
from bandgap.jobs.sources import MAX_NAME
from bandgap.runs.requests import SourceRequest

MIN_LABELLED = 50
# The last one is the network on top of MEGNet's blocks (Abba 2023, section 3.5).
HIDDEN = {
    "128 and 64": (128, 64),
    "256 and 128": (256, 128),
    "512 and 256": (512, 256),
    "1024 and 512": (1024, 512),
}
ELEMENTS_OF_DATA = ""  # option: the descriptor for the elements of the structures
MEGNET = "megnet"  # option instead of a descriptor: a graph network that learns its features
N_SNAPSHOTS = 20


def source_form() -> None:
    """Draw the form; one press makes one job."""
    datasets = stores.datasets()
    usable = {i: stores.library().counts(i)["usable"] for i in datasets}
    choices: dict[str, Dataset | ServerFile] = {
        f"{dataset.name} ({words.count(usable[i], 'labelled structure')})": dataset
        for i, dataset in datasets.items()
        if usable[i] >= MIN_LABELLED
    }
    if (folder := allowed_folder()) is not None:
        choices |= {
            f"{file.name} ({words.size(file.n_bytes)})": file for file in offered_files(folder)
        }
    if choices:
        _form(choices)
        return
    st.info(
        f"No data set has {MIN_LABELLED} structures with a gap yet. Upload structures and their "
        "gaps on the page Data first; thousands are better."
    )


def _choose_data(
    choices: Mapping[str, Dataset | ServerFile],
) -> tuple[dict[str, Any], str]:
    """Return the fields of the job that name the data, and their name."""
    left_column, right_column = st.columns(2)
    data = choices[left_column.selectbox("Labelled structures", list(choices), help=_FILES_HELP)]
    if isinstance(data, Dataset):
        return {"dataset": data.id}, data.name
    level = right_column.selectbox(
        "Gaps at", list(LEVELS), index=1, format_func=lambda n: LEVELS[n][2], help=_LEVEL_HELP
    )
    return {"file": data.name, "level": level}, data.name


@st.fragment
def _form(choices: Mapping[str, Dataset | ServerFile]) -> None:
    """Draw the form with its estimated time and its button.

    It is a fragment, so that a change runs only the form again.
    """
    config, data_name = _choose_data(choices)
    left_column, right_column = st.columns(2)
    name = left_column.text_input("Name", max_chars=MAX_NAME, placeholder="named after its data")
    descriptors = {
        ELEMENTS_OF_DATA: "for the elements of these structures",
        **{
            name: f"{name} ({len(entry.species)} elements, {entry.n_features:,} features)"
            for name, entry in stores.library().presets().items()
        },
        MEGNET: "learned by a graph network (MEGNet)",
    }
    preset = right_column.selectbox(
        "Descriptor",
        list(descriptors),
        format_func=descriptors.__getitem__,
        help=_PRESET_HELP + help_link("explanation/descriptors", "Presets"),
        key="source-preset",
    )
    with st.expander("More settings"):
        request = _request(preset)
    missing = preset == MEGNET and not stores.system().graph
    if missing:
        frame.warn([_GRAPH_MISSING])
    times = JobTimes(stores.jobs(), stores.library())
    estimate = times.estimate("train_source", {**config, "request": request.to_values()})
    st.caption(estimate_help([estimate]) if estimate else _FIRST_TRAINING)
    if st.button("Train the source model", type="primary", disabled=missing):
        source_name = " ".join(name.split()) or f"trained on {data_name}"
        _start(config, request, name=source_name)


def _request(preset: str) -> SourceRequest:
    """Draw the settings and return their request."""
    graph = preset == MEGNET
    left_column, right_column = st.columns(2)
    hidden = left_column.selectbox(
        "Hidden units",
        list(HIDDEN),
        len(HIDDEN) - 1 if graph else 0,
        help=_HIDDEN_HELP,
        key=f"source-hidden-{graph}",
    )
    epochs = right_column.number_input("Epochs at most", 5, 1000, 150, help=_EPOCHS_HELP)
    licence = left_column.text_input(
        "Licence of the data", max_chars=80, placeholder="such as CC-BY-4.0"
    )
    extras = right_column.checkbox(
        "Also keep what some methods need",
        help=_EXTRAS_HELP
        + help_link("tutorials/source-of-your-own", "Extras that some methods need"),
    )
    return SourceRequest(
        network="megnet" if graph else "perceptron",
        preset=None if preset in (ELEMENTS_OF_DATA, MEGNET) else preset,
        hidden=HIDDEN[hidden],
        max_epochs=int(epochs),
        licence=licence,
        variational=extras,
        snapshots=N_SNAPSHOTS if extras else None,
    )


def _start(data: Mapping[str, Any], request: SourceRequest, *, name: str) -> None:
    """Start the training and select its model; if the same one runs or is finished, select that."""
    work = fingerprint([dict(data), request.work, name])
    source = str(uuid.uuid5(uuid.UUID(session.workspace()), f"source-{work}-first"))

    def start() -> None:
        make_room(stores.jobs(), stores.library(), "source model", source)
        title = f"Training the source model {name}"
        payload = {**data, "request": request.to_values(), "name": name, "source": source}
        stores.start("train_source", title, subject=source, **payload)
        session.choose("source", source)

    carry_out(start)


_FIRST_TRAINING = (
    "How long it takes is not known before the first training of this kind on this server: minutes "
    "with some thousand structures on a CPU, an hour or more with some ten thousand."
)
_LEVEL_HELP = (
    "Not every file has every level: df_62k.json has PBE and PBE0, df_31k.json adds PBE0 in water, "
    "df_5k.json GW."
)
_PRESET_HELP = (
    "A transfer describes your crystals the same way: choose one that has all of their elements. A "
    "graph network learns its features itself, which takes long and wants thousands of structures."
)
_GRAPH_MISSING = (
    "A graph network needs a package that is not installed on this server: "
    f"{install_command('graph')}. Then start the worker again."
)
_HIDDEN_HELP = (
    "Width of the two hidden layers. Wider takes longer, and pays with tens of thousands of "
    "structures."
)
_EPOCHS_HELP = "Training ends earlier when the error on held-out structures no longer falls."
_EXTRAS_HELP = (
    "A variational posterior and snapshots of the training, which some research methods need. They "
    "take minutes."
)
_FILES_HELP = (
    f"Data sets with at least {MIN_LABELLED} labelled structures, and OE62 files in the folder "
    f"that the server's {VARIABLE} names."
)
