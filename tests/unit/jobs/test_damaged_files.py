"""Stored and uploaded files with damaged bytes are read or refused by a typed error."""

import random
import shutil
import sqlite3
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from bandgap.datasets.demo import read_demo_manifest
from bandgap.evaluation.calibrators import FILE, Calibrator, load_calibrator, save_calibrator
from bandgap.foundation.damage import JsonError, parse_json, read_json
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.json_lines import read_lines
from bandgap.foundation.progress import Update
from bandgap.inference import checkpoints
from bandgap.jobs import lock
from bandgap.jobs.added_sources import SOURCES
from bandgap.jobs.additions import ARCHIVE
from bandgap.jobs.database import Database, StoreError
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.estimates import JobTimes
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import checkpoint_progress
from bandgap.jobs.rows import Verdict
from bandgap.jobs.sources import sources_of
from bandgap.jobs.store import JobStore
from bandgap.predictions.growing import SUFFIX, GrowingTable, rows_in
from bandgap.predictions.store import load_predictions, save_predictions
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import load_run
from bandgap.sources.overlap import load_keys
from bandgap.sources.sets import open_sources
from bandgap.sources.stored import load_source
from bandgap.storage.manifests import MANIFEST, manifest_kind, read_manifest
from bandgap.structures.shapes import Shape, has_shapes, load_shape, save_shapes
from tests.transfers import transfer_labelled
from tests.unit.jobs.payloads import transfer_payload
from tests.unit.predictions.three_predictions import three_predictions

WS = str(uuid.uuid4())
NESTED = b'{"a": ' + b"[" * 100_000
TEXTS = {
    "nested": NESTED,
    "nested and whole": b"[" * 100_000 + b"]" * 100_000,
    "not UTF-8": b'{"kind": "\xff\xfe"}',
    "UTF-16": '{"kind": "run"}'.encode("utf-16"),
    "many digits": b'{"kind": ' + b"9" * 5_000 + b"}",
    "infinite": b'{"kind": "source", "schema": 1, "rows": 1e999, "network": {"n_features": 1e999}}',
    "empty": b"",
    "list": b"[1]",
    "text": b'"run"',
    "null": b"null",
    "control characters": b"\0\1\2",
}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NESTED, "JSON that is nested too deeply to be read"),
        (b'"\xff"', "not UTF-8 text: byte 1 is 0xff"),
        (b"{", "not JSON: Expecting property name"),
        ("{", "not JSON: Expecting property name"),
    ],
)
def test_text_that_is_no_json_is_a_typed_error_with_the_reason(
    text: str | bytes, reason: str
) -> None:
    with pytest.raises(
        JsonError, match=f"^its name: {reason}.*The file is damaged or cut off; make it again"
    ):
        parse_json(text, what="its name")


def test_json_file_is_read_and_named_where_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, 2.5, "\u00e4"]}', encoding="utf-8")
    assert read_json(path) == {"a": [1, 2.5, "\u00e4"]}
    path.write_bytes(NESTED)
    with pytest.raises(JsonError, match=r"a\.json: JSON that is nested"):
        read_json(path)


# -- files of JSON


def _unpacked(folder: Path) -> None:
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        archive.write(folder / MANIFEST, MANIFEST)
    SOURCES.unpack(folder)


def _registered(folder: Path) -> None:
    library = Library(Home(folder / "home"))
    library.register_sources({"toy": SourceEntry("toy", str(folder))})
    (source,) = sources_of(JobStore(library.home), library, WS).values()
    assert source.card == {} or isinstance(source.card, dict)


def _grown(folder: Path) -> None:
    assert rows_in(folder / "t.csv") == 0
    assert GrowingTable(folder / "t.csv", work="w", made_of=str).rows == 0


JSON_READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "manifest of a run": (MANIFEST, lambda folder: read_manifest(folder, kind="run")),
    "kind of a manifest": (MANIFEST, manifest_kind),
    "run": (MANIFEST, load_run),
    "source": (MANIFEST, load_source),
    "sources": (MANIFEST, open_sources),
    "demo": (MANIFEST, read_demo_manifest),
    "archive of a source": (MANIFEST, _unpacked),
    "list of sources": (MANIFEST, _registered),
    "calibrator": (FILE, load_calibrator),
    "mark of an unfinished table": (f"t.csv{SUFFIX}", _grown),
    "lines": (
        "lines",
        lambda folder: read_lines(folder / "lines", lambda row: int(row["rows"]), what="line"),
    ),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("reader", JSON_READERS)
def test_json_file_of_another_content_is_read_or_refused_with_a_message(
    tmp_path: Path, reader: str, text: str
) -> None:
    file, read = JSON_READERS[reader]
    (tmp_path / file).write_bytes(TEXTS[text])
    try:
        read(tmp_path)
    except BandgapError as error:
        assert str(error)


# -- bytes that are damaged at random


@dataclass(frozen=True)
class Stored:
    """A folder of stored files, those of them that are damaged, and what reads them."""

    folder: Path
    files: tuple[str, ...]
    read: Callable[[Path], object]


def damaged(data: bytes, random_numbers: random.Random) -> bytes:
    """Return bytes with damage: flipped, overwritten, repeated, removed or cut, mostly early."""
    damaged_bytes = bytearray(data)
    for _ in range(random_numbers.choice((1, 1, 2, 8))):
        at = int(len(damaged_bytes) * random_numbers.random() ** random_numbers.choice((1, 6)))
        n = random_numbers.choice((1, 1, 4, 60))
        match random_numbers.randrange(5):
            case 0 if at < len(damaged_bytes):
                damaged_bytes[at] ^= 1 << random_numbers.randrange(8)
            case 1:
                damaged_bytes[at : at + n] = random_numbers.randbytes(n)
            case 2:
                damaged_bytes[at:at] = damaged_bytes[at : at + n]
            case 3:
                del damaged_bytes[at : at + n]
            case _:
                del damaged_bytes[max(at, 1) :]
    return bytes(damaged_bytes)


def _checkpoint(path: Path) -> object:
    checkpoints.facts_of(path / "c.safetensors")
    return checkpoints.read(path / "c.safetensors", expected={"a": 1}, device=torch.device("cpu"))


def _shapes(folder: Path) -> object:
    has_shapes(folder / "s.safetensors", 2)
    return [load_shape(folder / "s.safetensors", row) for row in range(2)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, world, source_folder) -> dict[str, Stored]:
    """One folder of each kind of stored file."""
    top = tmp_path_factory.mktemp("stores")
    (small := top / "small").mkdir()
    save_predictions(small / "p.safetensors", three_predictions())
    checkpoints.write(small / "c.safetensors", {"x": torch.arange(6.0)}, {"a": 1, "iteration": 3})
    save_calibrator(small, Calibrator("variance", ("a",), ("f",), 0, 1, factor=1.5))
    shape = Shape(
        np.array([8, 1], np.uint8),
        np.eye(3)[:2],
        np.eye(3),
        np.ones(3, bool),
        np.array([[0, 1]], np.uint16),
        np.zeros((1, 3), np.int8),
    )
    save_shapes(small / "s.safetensors", [shape, None])
    settings = {"method": "btl_pcp_pe", "n": 16, "n_test": 4, "seed": 1, "device": "cpu"}
    sampler = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 8}}
    run = transfer_labelled(
        source_folder, world.records, world.gaps_eV, out=top / "run", settings=sampler, **settings
    )
    weights = tuple(path.name for path in sorted(source_folder.glob("*.safetensors")))
    draws = tuple(path.name for path in sorted(run.glob("*.safetensors")))
    return {
        "predictions": Stored(
            small, ("p.safetensors",), lambda f: load_predictions(f / "p.safetensors").mean_eV
        ),
        "checkpoint": Stored(small, ("c.safetensors",), _checkpoint),
        "calibrator": Stored(small, (FILE,), load_calibrator),
        "shapes": Stored(small, ("s.safetensors",), _shapes),
        "source": Stored(
            source_folder, (MANIFEST, *weights), lambda f: load_source(f, verify=False)
        ),
        "keys of a source": Stored(source_folder, weights, load_keys),
        "run": Stored(run, (MANIFEST, *draws), lambda f: load_run(f, verify=False)),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "predictions",
        "checkpoint",
        "calibrator",
        "shapes",
        "source",
        "keys of a source",
        "run",
    ],
)
def test_stored_files_with_damaged_bytes_are_read_or_refused_with_a_message(
    stores: dict[str, Stored], tmp_path: Path, kind: str
) -> None:
    stored = stores[kind]
    random_numbers = random.Random(20)
    copy = tmp_path / "copy"
    refused = 0
    shutil.copytree(stored.folder, copy)
    for k in range(150):
        name = stored.files[k % len(stored.files)]
        original_bytes = (stored.folder / name).read_bytes()
        (copy / f"{name}.new").write_bytes(damaged(original_bytes, random_numbers))
        (copy / f"{name}.new").replace(
            copy / name
        )  # a file that is mapped into memory is not changed
        try:
            stored.read(copy)
        except BandgapError:
            refused += 1
        (copy / f"{name}.new").write_bytes(original_bytes)
        (copy / f"{name}.new").replace(copy / name)
    stored.read(copy)
    assert refused > 10


# -- the store


def filled_store(home: Home) -> str:
    """Fill a store with rows of every table; return the id of its data set."""
    store = JobStore(home)
    library = Library(home)
    dataset = library.add_dataset(WS, "set", files=[("w.xyz", b"1\nx\nO 0 0 0\n")])
    verdict = Verdict("w", "w.xyz", "ready", "", "O", 1, False, 1.0, {"gap": 2.0})
    library.save_verdicts(dataset.id, [verdict] * 5)
    request = TransferRequest(method="freeze", n=10)
    payload = transfer_payload(run="r", dataset=dataset.id, method="freeze", n=10)
    for _ in range(4):
        job = store.submit(WS, "transfer", title="t", payload=payload, subject="s")
        store.claim("w")
        store.add_event(job.id, "progress", Update("x", 1, 2, values={"a": 1.0}), since=1.0)
        run_id = str(uuid.uuid4())
        library.add_run(
            WS,
            job=job.id,
            run_id=run_id,
            dataset=dataset.id,
            source="toy",
            title="t",
            request=request,
        )
        store.end(job.id, "finished", result={"n": 3})
    library.register_methods({"freeze": MethodEntry("t")})
    lock.acquire(store.database, "w")
    return dataset.id


def read_all(home: Home, dataset_id: str) -> None:
    """Read every table as pages and worker do."""
    store = JobStore(home)
    library = Library(home)
    for job in store.jobs(WS):
        store.events(job.id)
        store.jobs_before(job)
        store.cancel_requested(job.id)
        checkpoint_progress(home, job.payload)
    store.latest(WS, "s")
    library.datasets(WS)
    library.runs(WS)
    library.verdicts(dataset_id)
    library.counts(dataset_id)
    library.files(dataset_id)
    library.methods()
    lock.worker_status(store.database)
    for job in store.jobs(WS):
        JobTimes(store, library).estimate(job.kind, job.payload)


@pytest.mark.parametrize("column", ["payload", "result"])
@pytest.mark.parametrize("text", TEXTS)
def test_job_whose_json_is_damaged_is_an_error_of_the_store(
    tmp_path: Path, column: str, text: str
) -> None:
    home = Home(tmp_path)
    filled_store(home)
    with sqlite3.connect(home.database) as connection:
        connection.execute(f"UPDATE job SET {column} = CAST(? AS TEXT)", (TEXTS[text],))
    connection.close()
    if text == "infinite":  # it is JSON
        assert JobStore(home).jobs(WS)
        return
    with pytest.raises(StoreError):
        JobStore(home).jobs(WS)


def test_store_with_damaged_bytes_is_read_or_refused_with_a_message(tmp_path: Path) -> None:
    original = Home(tmp_path / "whole")
    original.folder.mkdir()
    dataset = filled_store(original)
    random_numbers = random.Random(20)
    refused = 0
    with sqlite3.connect(original.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = original.database.read_bytes()
    for k in range(200):
        home = Home(tmp_path / f"{k}")
        home.folder.mkdir()
        home.database.write_bytes(damaged(data, random_numbers))
        try:
            read_all(home, dataset)
        except (StoreError, InputError):
            refused += 1
        shutil.rmtree(home.folder)
    assert refused > 20


def test_empty_database_file_is_filled(tmp_path: Path) -> None:
    Home(tmp_path).database.write_bytes(b"")
    assert Database(Home(tmp_path).database).rows("SELECT * FROM job") == []
