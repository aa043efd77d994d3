"""The rows of the service over a socket are those of `bandgap predict`, to the last digit."""

import io
import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.io import write
from ase.io.jsonio import encode

from bandgap.descriptors import featurize
from bandgap.foundation.errors import ConfigError
from bandgap.jobs.service.batching import Batcher, Counts, PendingRequest, _answer
from bandgap.jobs.service.models import ServedModel, load_models
from bandgap.jobs.service.requests import PredictionRequest, RequestOptions
from bandgap.predictions.table import COLUMNS, DOMAIN_P
from tests.unit.conftest import make_records
from tests.unit.jobs.service.conftest import Predict, Runs, assert_same, rows
from tests.unit.structures.samples import optimade

WATER = {
    "id": "water",
    "symbols": ["O", "H", "H"],
    "positions": [[0, 0, 0.1], [0.76, 0, -0.5], [-0.76, 0, -0.5]],
}


def crystal(seed: int = 0) -> Atoms:
    """Methanol in a cell."""
    atoms = molecule("CH3OH", cell=[5.0, 5.5, 6.0], pbc=True)
    atoms.positions += np.random.default_rng(seed).normal(0.0, 0.03, atoms.positions.shape)
    return atoms


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Frames of every verdict: good ones, one with overlapping atoms, one of a foreign element."""
    path = tmp_path / "mixed.extxyz"
    frames = [record.atoms for record in make_records(6, seed=21, prefix="new")]
    frames += [Atoms("H2", [[0, 0, 0], [0, 0, 0.1]]), molecule("SiH4"), crystal()]
    for number, atoms in enumerate(frames):
        atoms.info = {"id": f"frame-{number}"}
    write(path, frames, format="extxyz", columns=["symbols", "positions"])
    return path


def as_cif(atoms: Atoms) -> bytes:
    text = io.BytesIO()
    write(text, atoms, format="cif")
    return text.getvalue()


@pytest.mark.parametrize(("level", "interval"), [(0.95, "prediction"), (0.5, "credible")])
def test_bare_file_is_answered_as_predict_answers_it(
    client: httpx.Client, runs: Runs, predict: Predict, mixed: Path, level: float, interval: str
) -> None:
    params = {"name": mixed.name, "level": level, "interval": interval}
    answer = client.post("/predict", params=params, content=mixed.read_bytes())
    assert answer.status_code == 200 and answer.json()["model"] == "bayesian"
    assert_same(answer, predict(runs.bayesian, mixed, level=level, interval=interval))
    assert list(answer.json()["rows"][0]) == [*COLUMNS, DOMAIN_P]
    statuses = [row["status"] for row in answer.json()["rows"]]
    assert statuses.count("refused") == 2 and {"ok", "warning"} & set(statuses)
    bad = answer.json()["rows"][6]
    assert bad["mean_eV"] is None and "0.10 A apart" in bad["problem"]


@pytest.mark.parametrize("form", ["cif", "vasp"])
def test_upload_of_several_files_keeps_their_order(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path, form: str
) -> None:
    paths = [tmp_path / f"{name}.{form}" for name in ("b", "a", "c")]
    for seed, path in enumerate(paths):
        write(path, crystal(seed), format=form)
    answer = client.post("/predict", files=[("files", (p.name, p.read_bytes())) for p in paths])
    assert_same(answer, predict(runs.bayesian, *paths))


def test_zip_and_gzip_are_opened_as_predict_opens_them(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path
) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for seed in range(2):
            archive.writestr(f"{seed}.cif", as_cif(crystal(seed)))
    answer = client.post("/predict", params={"name": path.name}, content=path.read_bytes())
    assert_same(answer, predict(runs.bayesian, path))


def test_json_of_ase_and_pymatgen_is_the_file_of_the_same_crystal(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path
) -> None:
    atoms = crystal()
    path = tmp_path / "one.extxyz"
    path.write_text(
        f'{len(atoms)}\nLattice="{" ".join(map(repr, map(float, atoms.cell.array.ravel())))}" '
        "id=one\n"
        + "".join(f"{a.symbol} {' '.join(repr(float(x)) for x in a.position)}\n" for a in atoms)
    )
    table = predict(runs.bayesian, path)
    cell = atoms.cell.array.tolist()
    sites = [
        {
            "species": [{"element": a.symbol, "occu": 1}],
            "xyz": a.position.tolist(),
            "label": a.symbol,
            "properties": {},
        }
        for a in atoms
    ]
    written = json.loads(encode(atoms))
    plain = {
        "numbers": atoms.numbers.tolist(),
        "positions": atoms.positions.tolist(),
        "cell": cell,
        "pbc": True,
    }
    forms = [written, plain, {"lattice": {"matrix": cell, "pbc": [True] * 3}, "sites": sites}]
    forms.append({"content": path.read_text(), "name": "one.extxyz"})
    forms.append({**plain, "cell": [5.0, 5.5, 6.0], "pbc": None})
    forms.append({**plain, "cell": [5.0, 5.5, 6.0, 90, 90, 90], "pbc": [True, True, True]})
    for form in forms:
        entries = [{**form, "id": "one", "name": "one.extxyz"}]
        assert_same(client.post("/predict", json={"structures": entries}), table)
        assert_same(client.post("/predict?name=one.extxyz", json=entries), table)


@pytest.mark.parametrize(
    "kind", ["application/json", "application/vnd.api+json; charset=utf-8", "text/plain"]
)
def test_response_of_optimade_is_read_as_its_file(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "response.json"
    path.write_text(optimade())
    body = {
        "params": {"name": path.name, "level": 0.9},
        "content": optimade(),
        "headers": {"content-type": kind},
    }
    answer = client.post("/predict", **body)
    assert answer.status_code == 200
    assert_same(answer, predict(runs.bayesian, path, level=0.9))
    assert [(row["id"], row["status"] == "refused") for row in answer.json()["rows"]] == [
        ("w/1", False),
        ("n/2", True),
    ]
    unnamed = client.post("/predict", content=optimade(), headers={"content-type": kind})
    assert [row["file"].partition(".")[0] for row in unnamed.json()["rows"]] == ["structure"] * 2


def test_response_of_optimade_takes_baselines_of_the_address(client: httpx.Client) -> None:
    json_type = {"content-type": "application/json"}
    means = []
    for baseline in (2.5, 4.0):
        params = {"model": "cheap", "baseline_eV": f"{baseline},1"}
        answer = client.post("/predict", params=params, content=optimade(), headers=json_type)
        means.append(answer.json()["rows"][0]["mean_eV"])
    assert means[1] - means[0] > 1


def test_json_carries_model_level_and_interval(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path
) -> None:
    path = tmp_path / "water.extxyz"
    path.write_text("3\nid=water\nO 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5\n")
    body = {"structures": [WATER], "model": "conformal", "level": 0.9, "interval": "conformal"}
    answer = client.post("/predict", json=body)
    table = predict(runs.conformal, path, level=0.9, interval="conformal")
    np.testing.assert_array_equal(
        rows(answer)[["mean_eV", "lower_eV", "upper_eV"]],
        table[["mean_eV", "lower_eV", "upper_eV"]],
    )
    assert answer.json()["model"] == "conformal" and rows(answer)["interval"][0] == "conformal"


def test_window_of_body_or_address_adds_its_probability(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path
) -> None:
    path = tmp_path / "water.extxyz"
    path.write_text("3\nid=water\nO 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5\n")
    body = {"structures": [WATER], "model": "conformal"}
    assert "p_window" not in client.post("/predict", json=body).json()["rows"][0]
    lower, upper = predict(runs.conformal, path, level=0.5)[["lower_eV", "upper_eV"]].iloc[0]
    window = f"{lower:.4f}:{upper:.4f}"
    in_body = client.post("/predict", json=body | {"window": window}).json()["rows"][0]
    in_address = client.post(f"/predict?window={window}", json=body).json()["rows"][0]
    assert in_body == in_address and in_body["window"] == window
    assert in_body["p_window"] == pytest.approx(0.5, abs=1e-3)
    refused = client.post("/predict", json=body | {"window": "2"})
    assert refused.status_code == 422 and "FROM:TO" in refused.json()["detail"]


def test_baseline_is_taken_from_the_body_the_address_or_the_frames(
    client: httpx.Client, runs: Runs, predict: Predict, tmp_path: Path
) -> None:
    path = tmp_path / "waters.extxyz"
    frame = (
        "3\nProperties=species:S:1:pos:R:3 id={} gap_pbe_eV={}\nO 0 0 0.1\nH 0.76 0 "
        "-0.5\nH -0.76 0 -0.5\n"
    )
    path.write_text(frame.format("a", 2.5) + frame.format("b", 4.0))
    table = predict(runs.cheap, path)
    model = {"model": "cheap"}
    assert table["mean_eV"][1] - table["mean_eV"][0] > 1
    answers = [
        client.post(
            "/predict", params={**model, "name": "waters.extxyz"}, content=path.read_bytes()
        )
    ]
    structures = [
        {**WATER, "id": id, "baseline_eV": value} for id, value in (("a", 2.5), ("b", 4.0))
    ]
    answers.append(client.post("/predict", json={"structures": structures, **model}))
    bare = path.read_text().replace("gap_pbe_eV", "other")
    answers.append(client.post("/predict", params={**model, "baseline_eV": "2.5,4"}, content=bare))
    for answer in answers:
        np.testing.assert_array_equal(rows(answer)["mean_eV"], table["mean_eV"])
        np.testing.assert_array_equal(rows(answer)["upper_eV"], table["upper_eV"])
    partly = client.post("/predict", json={"structures": [structures[0], WATER], **model})
    assert (
        rows(partly)["status"][1] == "refused" and "has no gap_pbe_eV" in rows(partly)["problem"][1]
    )
    none = client.post("/predict", json={"structures": [WATER], **model})
    assert none.status_code == 422 and "give it in eV as baseline_eV" in none.json()["detail"]
    foreign = client.post("/predict", json=[structures[0]])
    assert (
        foreign.status_code == 422
        and "this run was trained without one" in foreign.json()["detail"]
    )


def test_requests_that_arrive_together_are_predicted_together_and_answered_as_if_alone(
    address: str, client: httpx.Client, runs: Runs, predict: Predict, mixed: Path
) -> None:
    """Twenty simultaneous requests of several models and sizes get the bytes of single requests.

    They come while fifty structures of another model are predicted, and so wait for each other.
    """
    single = mixed.with_name("single.extxyz")
    write(single, crystal(3), format="extxyz")
    expected_bodies = [
        (model, path) for model in (runs.bayesian, runs.conformal) for path in (mixed, single)
    ]
    tables = [predict(model, path) for model, path in expected_bodies]

    def ask(number: int) -> httpx.Response:
        model, path = expected_bodies[number % 4]
        params = {"model": model.name, "name": path.name}
        return httpx.post(
            f"{address}/predict", params=params, content=path.read_bytes(), timeout=60
        )

    alone = [ask(number) for number in range(4)]
    for answer, table in zip(alone, tables, strict=True):
        assert_same(answer, table)
    before = client.get("/health").json()
    with ThreadPoolExecutor(21) as pool:
        body = {
            "structures": [{**WATER, "id": f"water-{k}", "baseline_eV": 2.5} for k in range(50)],
            "model": "cheap",
        }
        first = pool.submit(client.post, "/predict", json=body)
        while httpx.get(f"{address}/health").json()["waiting"] == 0 and not first.done():
            pass
        together = list(pool.map(ask, range(20)))
    after = client.get("/health").json()
    assert first.result().status_code == 200
    assert [answer.content for answer in together] == [
        alone[number % 4].content for number in range(20)
    ]
    assert after["requests"] - before["requests"] == 21
    assert after["batches"] - before["batches"] < 21


def test_waiting_requests_are_one_batch_of_each_model(runs: Runs) -> None:
    """Six requests wait before the batcher starts: a batch of four and a batch of two."""
    models = load_models([runs.bayesian, runs.conformal])
    records = make_records(12, seed=33, prefix="waits")
    batcher = Batcher(models, max_structures=100)
    requests = [
        PredictionRequest(
            RequestOptions("bayesian" if k % 3 else "conformal"),
            records[2 * k : 2 * k + 2],
            [None, None],
        )
        for k in range(6)
    ]
    pending_requests = [batcher.submit(request) for request in requests]
    batcher.start()
    answers = [one.rows.result(timeout=60) for one in pending_requests]
    assert batcher.counts == Counts(requests=6, batches=2)
    again = [batcher.submit(request).rows.result(timeout=60) for request in requests]
    batcher.stop()
    assert batcher.counts == Counts(requests=12, batches=8)
    assert answers == again


def test_failing_request_does_not_affect_the_others_of_its_batch(runs: Runs) -> None:
    """A batch with good requests, a level out of range and an interval that the run lacks."""
    model = ServedModel.load(runs.bayesian, name="bayesian")
    records = make_records(6, seed=31, prefix="asked")
    choices = [
        RequestOptions(level=0.9),
        RequestOptions(level=2.0),
        RequestOptions(interval="credible"),
        RequestOptions(interval="conformal"),
    ]
    requests = [
        PredictionRequest(choice, records[k : k + 2], [None, None])
        for k, choice in zip((0, 1, 3, 4), choices, strict=True)
    ]
    described = [featurize(request.records, model.run.descriptor) for request in requests]
    answers = model.answer(requests, described)
    assert isinstance(answers[1], ConfigError) and "level is 2" in str(answers[1])
    assert isinstance(answers[3], ConfigError) and "held no structures back" in str(answers[3])
    for k in (0, 2):
        assert answers[k] == model.answer([requests[k]], [described[k]])[0]
        assert [row["id"] for row in answers[k]] == [record.id for record in requests[k].records]


def test_batch_that_cannot_be_predicted_together_is_predicted_one_by_one(runs: Runs) -> None:
    """An unexpected error, by an impossible baseline, ends only its own request."""
    model = ServedModel.load(runs.cheap, name="cheap")
    good, odd = (
        PendingRequest(model, PredictionRequest(RequestOptions(), [record], [value]))
        for record, value in zip(make_records(2, seed=32, prefix="q"), (2.5, "two"), strict=True)
    )
    for pending in (good, odd):
        assert pending.rows.set_running_or_notify_cancel()
    _answer(model, [good, odd])
    assert good.rows.result()[0]["id"] == "q-00" and good.rows.result()[0]["mean_eV"] is not None
    with pytest.raises(ValueError, match="could not convert string to float"):
        odd.rows.result()
