"""Bob has all ids of Alice's addresses; no page shows him her data, no button changes them."""

import contextlib
import hashlib
import re
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs import resuming
from bandgap.jobs.deletions import bin_run
from bandgap.jobs.housekeeping import (
    delete_dataset,
    rename_dataset,
    rename_run,
    set_level_of_theory,
)
from bandgap.jobs.rows import RunRow
from bandgap.jobs.sources import delete_source, source_path, sources_of
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.app.conftest import MAIN, Workspace
from tests.app.worlds import SECRET, Owned, all_of

Visit = Callable[..., AppTest]

PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py"))
TABLES = ("dataset", "dataset_file", "structure", "run", "job", "event")


@pytest.fixture
def workspace(worlds: tuple[Owned, Owned]) -> Workspace:
    return worlds[1].workspace


def rows_of(workspace: Workspace) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of a workspace in every table."""
    rows = {}
    with contextlib.closing(sqlite3.connect(workspace.home.database)) as connection:
        for table in TABLES:
            owner = {"dataset_file": "dataset", "structure": "dataset", "event": "job"}.get(table)
            mine = (
                f"{owner} IN (SELECT id FROM {owner} WHERE workspace = ?)"
                if owner
                else "workspace = ?"
            )
            rows[table] = connection.execute(
                f"SELECT * FROM {table} WHERE {mine}", (workspace.id,)
            ).fetchall()
    return rows


def stored_contents(alice: Owned) -> dict[str, str]:
    """Return digests of all of Alice's data in store and files, by name."""
    home = alice.workspace.home
    contents = {table: str(rows) for table, rows in rows_of(alice.workspace).items()}
    folders = [home.run_folder(run) for run in alice.runs]
    folders += [home.source_folder(alice.source), home.dataset_folder(alice.dataset)]
    uploads = [
        home.folder / "uploads" / file.content
        for file in alice.workspace.library.files(alice.dataset)
    ]
    for path in [
        *uploads,
        *(path for folder in folders for path in folder.rglob("*") if path.is_file()),
    ]:
        contents[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return contents


def sees_nothing_of_hers(at: AppTest, alice: Owned) -> None:
    assert not at.exception
    content = all_of(at)
    assert SECRET not in content
    assert [id for id in ids_of(alice) if id in content.replace("\\", "")] == []


def ids_of(owned: Owned) -> list[str]:
    return [
        owned.workspace.id,
        owned.dataset,
        *owned.runs,
        owned.prediction,
        owned.source,
        *owned.jobs,
    ]


def ticked(at: AppTest) -> AppTest:
    """Tick every box, so that no button waits for one; open what is folded."""
    for box in at.checkbox:
        if not box.disabled:
            box.set_value(True)
    return at.run()


@pytest.mark.parametrize("name", PAGES)
def test_addresses_of_another_workspace_show_nothing_and_no_button_changes_it(
    name: str, visit: Visit, worlds: tuple[Owned, Owned]
) -> None:
    alice, bob = worlds
    before = stored_contents(alice)
    count = len(visit(name, **alice.choices).button)
    for place in [None, *range(count)]:
        at = visit(name, **alice.choices)
        sees_nothing_of_hers(at, alice)
        if place is not None and place < len(ticked(at).button) and not at.button[place].disabled:
            at.button[place].click().run()
            sees_nothing_of_hers(at, alice)
    assert stored_contents(alice) == before
    assert [id for id in ids_of(alice) if id in str(rows_of(bob.workspace))] == []


@pytest.mark.parametrize("name", PAGES)
def test_id_of_another_workspace_is_answered_as_an_unknown_one(
    name: str, visit: Visit, worlds: tuple[Owned, Owned]
) -> None:
    alice, _ = worlds
    unknown = f"{alice.workspace.id[:24]}{uuid.uuid4().hex[:12]}"  # pages show its beginning
    answers = []
    for ws in (alice.workspace.id, unknown):
        at = AppTest.from_file(str(MAIN), default_timeout=30)
        at.user = {"is_logged_in": True, "email": "bob@example.org"}
        at.query_params.update({"ws": ws, **alice.choices})
        at.switch_page(f"views/{name}.py")
        at.run()
        sees_nothing_of_hers(at, alice)
        answers.append(all_of(at))
    assert answers[0] == answers[1] and "No such workspace" in answers[0]


CRAFTED = {
    "a path": "../runs/{id}",
    "SQL": "{id}' OR '1'='1",
    "a pattern": "%",
    "two at once": "{id},{id}",
    "upper case": "{ID}",
    "spaces": " {id} ",
}


@pytest.mark.parametrize("crafted", list(CRAFTED.values()), ids=list(CRAFTED))
def test_crafted_addresses_show_nothing(
    crafted: str, visit: Visit, worlds: tuple[Owned, Owned]
) -> None:
    alice, _ = worlds
    before = stored_contents(alice)
    choices = {key: crafted.format(id=id, ID=id.upper()) for key, id in alice.choices.items()}
    for name in ("data", "train", "predict", "compare", "about"):
        sees_nothing_of_hers(visit(name, **choices), alice)
    stranger = crafted.format(id=alice.workspace.id, ID=alice.workspace.id.upper())
    sees_nothing_of_hers(visit("data", ws=stranger, **alice.choices), alice)
    assert stored_contents(alice) == before


def test_store_gives_a_workspace_nothing_of_another_one(worlds: tuple[Owned, Owned]) -> None:
    alice, bob = worlds
    before = stored_contents(alice)
    ws = bob.workspace.id
    library = bob.workspace.library
    jobs = bob.workspace.jobs
    for job in (*alice.jobs, alice.prediction):
        jobs.request_cancel(ws, job)
        assert jobs.job(ws, job) is None
    assert jobs.latest(ws, alice.dataset) is None
    assert SECRET not in str([jobs.jobs(ws, limit=10_000), library.runs(ws), library.datasets(ws)])
    assert alice.source not in sources_of(jobs, library, ws)
    library.set_job(ws, alice.runs[0], job="another")
    assert library.run(ws, alice.runs[0]) is None
    forged = replace(alice_run(alice), workspace=ws)  # a row as no page could have read it
    rename_run(library, forged, "mine now")
    bin_run(jobs, library, forged)
    refused: tuple[Callable[[], object], ...] = (
        lambda: library.dataset(ws, alice.dataset),
        lambda: rename_dataset(library, ws, alice.dataset, "mine now"),
        lambda: set_level_of_theory(library, ws, alice.dataset, "GW"),
        lambda: delete_dataset(library, ws, alice.dataset),
        lambda: source_path(library, ws, alice.source),
        lambda: delete_source(jobs, library, ws, alice.source),
        lambda: resuming.restart_run(jobs, library, forged),
    )
    for action in refused:
        with pytest.raises(InputError):
            action()
    assert stored_contents(alice) == before


@pytest.mark.parametrize(
    ("kind", "payload_template"),
    [
        ("check", {"dataset": "{dataset}"}),
        ("shapes", {"dataset": "{dataset}"}),
        ("predict", {"run": "{run}", "dataset": "{own}", "name": "x"}),
        ("predict", {"run": "{own_run}", "dataset": "{dataset}", "name": "x"}),
        ("transfer", {"run": "0" * 36, "dataset": "{dataset}", "source": "demo"}),
        ("transfer", {"run": "0" * 36, "dataset": "{own}", "source": "{source}"}),
    ],
)
def test_worker_does_nothing_for_a_job_with_ids_of_another_workspace(
    kind: str, payload_template: dict[str, str], worlds: tuple[Owned, Owned]
) -> None:
    alice, bob = worlds
    # Otherwise the worker would run her queued job too.
    alice.workspace.jobs.request_cancel(alice.workspace.id, alice.jobs[1])
    before = stored_contents(alice)
    ids = {"dataset": alice.dataset, "run": alice.runs[0], "source": alice.source}
    ids |= {"own": bob.dataset, "own_run": bob.runs[0]}
    payload = {key: value.format(**ids) for key, value in payload_template.items()}
    if kind == "transfer":
        request = TransferRequest(method="last_layer_ridge", n=20, n_test=5)
        payload = {**payload, "request": request.to_values()}
    job = bob.workspace.jobs.submit(
        bob.workspace.id, kind, title="crafted", payload=payload, subject="x"
    )
    work_all(bob.workspace.home)
    ended = bob.workspace.jobs.job(bob.workspace.id, job.id)
    assert ended is not None and ended.state == "failed"
    assert re.match(r"This workspace has no such|No source model", ended.error), ended.error
    assert SECRET not in ended.error
    assert stored_contents(alice) == before


def alice_run(alice: Owned) -> RunRow:
    run = alice.workspace.library.run(alice.workspace.id, alice.runs[0])
    assert run is not None
    return run
