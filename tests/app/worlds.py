"""Two workspaces in one data directory: Alice's, with markup in all names, and Bob's."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import rename_run
from bandgap.jobs.people import claim
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from tests.app.conftest import BROKEN, Workspace, empty_workspace
from tests.app.small_runs import train_source
from tests.unit.jobs.payloads import source_payload

SECRET = "Alice"  # in every name that she gives
MARKUP = (
    "<b>b</b> **b** $x^2$ [l](http://x.org) :material/home: :red[r] <script>s</script> `c` _i_ "
    "~~d~~"
)
NAMED = f"{SECRET} {MARKUP}"
BLOCK = f"{SECRET}<i>{MARKUP.replace(' ', '')}"  # a CIF's block has a name without spaces
CIF = f"""data_{BLOCK}
_cell_length_a 8
_cell_length_b 8
_cell_length_c 8
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
O1 O 0.5 0.5 0.5
H1 H 0.5 0.6 0.44
H2 H 0.5 0.4 0.44
"""
N = 60
RUNS = (
    {"method": "last_layer_ridge", "conformal_share": 0.25},
    {"method": "last_layer_ridge", "n": 30},
)


@dataclass(frozen=True)
class Owned:
    """The objects of a workspace, by id."""

    workspace: Workspace
    dataset: str
    runs: tuple[str, ...]
    prediction: str
    source: str = ""
    jobs: tuple[str, ...] = ()  # active jobs

    def moved(self, home: Home) -> "Owned":
        """Return the same in a copy of the data directory."""
        return replace(self, workspace=replace(self.workspace, home=home))

    @property
    def choices(self) -> dict[str, str]:
        """The choices in the addresses of its pages, without the workspace."""
        choices = {"data": self.dataset, "run": self.runs[0], "prediction": self.prediction}
        return {**choices, "source": self.source, "runs": ",".join(self.runs)}


def waters(name: str) -> bytes:
    """Return water molecules as extXYZ; the name is the prefix of their ids."""
    frame = (
        '3\nProperties=species:S:1:pos:R:3 id="{id}"\nO 0 0 0.119\nH 0 {x:.3f} -0.477\nH 0 '
        "-{x:.3f} -0.477\n"
    )
    return "".join(frame.format(id=f"{name} {k}", x=0.70 + 0.002 * k) for k in range(N)).encode()


def filled(workspace: Workspace, name: str) -> Owned:
    """Add a labelled data set, two runs and a prediction with this name to a workspace."""
    library = workspace.library
    jobs = workspace.jobs
    files = [(f"{name.replace('/', '')}.extxyz", waters(name))]
    dataset = library.add_dataset(workspace.id, name, files=files).id
    jobs.submit(
        workspace.id,
        "check",
        title=f"Checking {name}",
        payload={"dataset": dataset},
        subject=dataset,
    )
    work_all(workspace.home)
    labels = {
        "source": f"{name}.csv",
        "matched": N,
        "problems": [f"{name}: given twice"],
        "unmatched_labels": [name],
        "n_unmatched_labels": 1,
    }
    library.save_gaps(dataset, np.linspace(5.0, 8.0, N), labels=labels, level_of_theory=name)
    runs = tuple(workspace.add_run(dataset, **settings)[0] for settings in RUNS)
    for number, run in enumerate(runs):
        stored_run = library.run(workspace.id, run)
        assert stored_run is not None
        rename_run(library, stored_run, f"{number} {name}"[:120])
    new = [
        (f"{name.replace('/', '')}.cif", CIF.replace(SECRET, name.split(maxsplit=1)[0]).encode()),
        (f"{name}.cif", BROKEN),
    ]
    prediction = workspace.ask_prediction(runs[0], new, name=name)
    work_all(workspace.home)
    assert {job.state for job in jobs.jobs(workspace.id)} == {"finished"}, [
        j.error for j in jobs.jobs(workspace.id)
    ]
    return Owned(workspace, dataset, runs, prediction.id)


def with_source(owned: Owned, name: str) -> Owned:
    """Add a source model trained on its data."""
    source = str(uuid.uuid4())
    small = {"hidden": (6, 4), "max_epochs": 3, "seed": 0, "device": "cpu", "licence": name[:80]}
    payload = source_payload(source=source, name=name, dataset=owned.dataset, **small)
    jobs = owned.workspace.jobs
    jobs.submit(
        owned.workspace.id,
        "train_source",
        title=f"Training {name}",
        payload=payload,
        subject=source,
    )
    work_all(owned.workspace.home)
    return replace(owned, source=source)


def with_jobs(owned: Owned, name: str) -> Owned:
    """Add a running transfer and a queued check."""
    workspace = owned.workspace
    run, running = workspace.add_run(owned.dataset, seed=7)
    stored_run = workspace.library.run(workspace.id, run)
    assert stored_run is not None
    rename_run(workspace.library, stored_run, name[:120])
    workspace.make_running(running)
    payload = {"dataset": owned.dataset}
    waiting: Job = workspace.jobs.submit(
        workspace.id, "shapes", title=name, payload=payload, subject=owned.dataset
    )
    return replace(owned, jobs=(running.id, waiting.id))


def two_worlds(folder: Path, source: Path) -> tuple[Owned, Owned]:
    """Return the objects of Alice and Bob in a data directory."""
    first = empty_workspace(folder)
    methods = first.library.methods()
    methods["last_layer_ridge"] = MethodEntry("Last layer", duration="seconds")
    first.library.register_methods(methods)
    entry = SourceEntry("demo molecules", str(train_source(source)))
    first.library.register_sources({"demo": entry})
    alice = with_source(filled(first, NAMED), NAMED)
    bob = filled(Workspace(str(uuid.uuid4()), Home(folder)), "Bob's")
    for owned, person in ((alice, "alice@example.org"), (bob, "bob@example.org")):
        claim(owned.workspace.library.database, owned.workspace.id, person)
    return with_jobs(alice, NAMED), bob


def nodes(at: AppTest) -> list[Any]:
    """Return every element and block of a page that has something to show."""

    def below(block: Any) -> Iterator[Any]:
        for node in block.children.values():
            yield node
            yield from below(node) if hasattr(node, "children") else ()

    return [
        node
        for part in (at.main, at.sidebar)
        for node in below(part)
        if getattr(node, "proto", None) is not None
    ]


def all_of(at: AppTest) -> str:
    """Return all that a page sends to the browser, with table cells, except the address field."""
    messages = [
        str(node.proto) for node in nodes(at) if getattr(node, "key", None) != "kept-address"
    ]
    return "\n".join([*messages, *(frame.value.to_csv() for frame in at.dataframe)])
