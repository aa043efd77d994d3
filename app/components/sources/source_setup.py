"""The form that trains a source model on a data set of the workspace or a file of the server."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import source_sentence
from app.components.shared.guide_links import help_link
from app.components.shared.request_fields import draw_fields
from bandgap.datasets.oe62 import LEVELS
from bandgap.foundation.config import fingerprint
from bandgap.jobs.deletions import make_room
from bandgap.jobs.entries import PresetEntry
from bandgap.jobs.estimates import atoms_of_file, estimate_training, labelled_atoms
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


@dataclass(frozen=True)
class TrainingData:
    """The data that a form trains on.

    Attributes
    ----------
    config
        The fields of the job that name the data.
    name
        Name of the data.
    n_atoms
        Number of atoms in its structures, None where it is not known.
    """

    config: dict[str, Any]
    name: str
    n_atoms: int | None


def source_form(
    datasets: Mapping[str, Dataset], usable: Mapping[str, int], *, primary: bool
) -> None:
    """Draw a form for data sets and one for files, each in a tab; one press makes one job."""
    dataset_tab, server_tab = st.tabs(
        ["From a data set of this workspace", "From a file of the server"]
    )
    with dataset_tab:
        large_enough = {i: d for i, d in datasets.items() if usable[i] >= MIN_LABELLED}
        if large_enough:
            _form("own", lambda: _choose_dataset(large_enough, usable), primary=primary)
        else:
            frame.send_on(
                f"No data set has {MIN_LABELLED} structures with a gap yet. Upload structures and "
                "their gaps first; thousands are better.",
                to="data",
            )
    with server_tab:
        folder = allowed_folder()
        files = [] if folder is None else offered_files(folder)
        if folder is None:
            st.caption(
                "This server offers no files. Whoever runs it can name one folder with OE62 files "
                f"by {VARIABLE}."
            )
        elif not files:
            st.caption("The server's folder has no .json or .json.gz file that may be opened.")
        else:
            _form("server", lambda: _choose_file(files), primary=primary and not large_enough)


def _choose_dataset(datasets: Mapping[str, Dataset], usable: Mapping[str, int]) -> TrainingData:
    picked = st.selectbox(
        "Labelled structures",
        list(datasets),
        format_func=lambda i: (
            f"{datasets[i].name} ({words.count(usable[i], 'labelled structure')})"
        ),
    )
    return TrainingData({"dataset": picked}, datasets[picked].name, _atoms(picked, usable[picked]))


def _choose_file(files: list[ServerFile]) -> TrainingData:
    by_name = {file.name: file for file in files}
    left_column, right_column = st.columns(2)
    name = left_column.selectbox(
        "File", list(by_name), format_func=lambda n: f"{n} ({words.size(by_name[n].n_bytes)})"
    )
    level = right_column.selectbox(
        "Gaps at", list(LEVELS), index=1, format_func=lambda n: LEVELS[n][2], help=_LEVEL_HELP
    )
    return TrainingData({"file": name, "level": level}, name, atoms_of_file(stores.jobs(), name))


@st.fragment
def _form(key: str, choose: Callable[[], TrainingData], *, primary: bool) -> None:
    """Draw the form with its estimated time and its button.

    It is a fragment, so that a change runs only the form again.
    """
    data = choose()
    left_column, right_column = st.columns(2)
    name = left_column.text_input(
        "Name", max_chars=MAX_NAME, placeholder="named after its data", key=f"name-{key}"
    )
    presets = stores.library().presets()
    preset = right_column.selectbox(
        "Descriptor",
        [ELEMENTS_OF_DATA, *presets, MEGNET],
        format_func=lambda p: _descriptor_words(p, presets),
        help=_PRESET_HELP + help_link("explanation/descriptors", "Presets"),
        key=f"preset-{key}",
    )
    with st.expander("More settings"):
        request = _request(key, preset)
    missing = preset == MEGNET and not stores.system().graph
    if missing:
        st.warning(_GRAPH_MISSING, icon=":material/extension_off:")
    estimate = None
    if data.n_atoms is not None:
        device = stores.device_of(request.device)
        estimate = estimate_training(stores.jobs(), request, n_atoms=data.n_atoms, device=device)
    st.caption(source_sentence(estimate, epochs=request.max_epochs))
    kind: Literal["primary", "secondary"] = "primary" if primary else "secondary"
    if st.button("Train the source model", type=kind, key=f"train-{key}", disabled=missing):
        source_name = " ".join(name.split()) or f"trained on {data.name}"
        _start(data.config, request, name=source_name)


@st.cache_data(max_entries=32, show_spinner=False)
def _atoms(dataset: str, usable: int) -> int:
    """Return the number of atoms in a data set's structures.

    `usable`, the number of labelled structures, is part of the key of the cache.
    """
    return labelled_atoms(stores.library(), dataset)


def _request(key: str, preset: str) -> SourceRequest:
    """Draw the settings and return their request."""
    graph = preset == MEGNET
    left_column, right_column = st.columns(2)
    hidden = left_column.selectbox(
        "Hidden units",
        list(HIDDEN),
        len(HIDDEN) - 1 if graph else 0,
        help=_HIDDEN_HELP,
        key=f"hidden-{key}-graph" if graph else f"hidden-{key}",
    )
    epochs = right_column.number_input(
        "Epochs at most", 5, 1000, 150, help=_EPOCHS_HELP, key=f"epochs-{key}"
    )
    seed = left_column.number_input("Seed", 0, 2**31 - 1, 0, key=f"seed-{key}")
    with right_column:
        drawn = draw_fields(SourceRequest, key=f"source-{key}")
    licence = st.text_input(
        "Licence of the data", max_chars=80, placeholder="such as CC-BY-4.0", key=f"licence-{key}"
    )
    variational = st.checkbox(
        "Also fit a variational posterior",
        help=_PARTS_HELP
        + help_link("tutorials/source-of-your-own", "Extras that some methods need"),
        key=f"variational-{key}",
    )
    snapshots = st.checkbox(
        "Also keep snapshots of the training",
        help=_PARTS_HELP
        + help_link("tutorials/source-of-your-own", "Extras that some methods need"),
        key=f"snapshots-{key}",
    )
    return SourceRequest(
        network="megnet" if graph else "perceptron",
        preset=None if preset in (ELEMENTS_OF_DATA, MEGNET) else preset,
        hidden=HIDDEN[hidden],
        max_epochs=int(epochs),
        seed=int(seed),
        licence=licence,
        variational=variational,
        snapshots=N_SNAPSHOTS if snapshots else None,
        **drawn,
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


def _descriptor_words(preset: str, presets: Mapping[str, PresetEntry]) -> str:
    if preset == ELEMENTS_OF_DATA:
        return "for the elements of these structures"
    if preset == MEGNET:
        return "learned by a graph network (MEGNet)"
    return (
        f"{preset} ({len(presets[preset].species)} elements, {presets[preset].n_features:,} "
        "features)"
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
    "A graph network needs a package that is not installed on this server: `pip install -c "
    "constraints.txt '.[graph]'` in the folder of bandgap's README. Then start the worker again."
)
_HIDDEN_HELP = (
    "Width of the two hidden layers. Wider takes longer, and pays with tens of thousands of "
    "structures."
)
_EPOCHS_HELP = "Training ends earlier when the error on held-out structures no longer falls."
_PARTS_HELP = "Takes minutes; some methods need it, as the page Train says for each of them."
