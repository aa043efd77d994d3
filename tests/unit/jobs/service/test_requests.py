"""Requests before the prediction: how much of them is read, and the ids of structures."""

import json
from pathlib import Path

import pytest

from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.requests import RequestOptions, request_from_files, request_from_json
from bandgap.structures.reading import read_paths, read_structures

FRAMES = "3\nid=a\nO 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5\n" * 2
ENTRIES = json.dumps([{"content": FRAMES, "name": "a.xyz"}, "never read"]).encode()


def test_reading_ends_when_the_time_of_the_request_is_over() -> None:
    late = ServiceLimits(seconds=1e-300)
    message = "The structures were not read within 1e-300 s. Send fewer at once."
    with pytest.raises(Refusal, match=message) as files:
        request_from_files(
            [("a.xyz", FRAMES.encode())], RequestOptions(), baselines="", limits=late
        )
    with pytest.raises(Refusal, match=message) as entries:
        request_from_json(ENTRIES, RequestOptions(), name="", baselines="", limits=late)
    assert files.value.code == entries.value.code == 503


def test_equal_ids_of_several_files_are_told_apart_as_in_files_on_disk(tmp_path: Path) -> None:
    files = [(f"{name}.xyz", FRAMES.encode()) for name in "xy"]
    for name, data in files:
        (tmp_path / name).write_bytes(data)
    request = request_from_files(files, RequestOptions(), baselines="", limits=ServiceLimits())
    on_disk = read_paths([tmp_path / name for name, _ in files])
    assert [record.id for record in request.records] == ["a", "a-2", "a-3", "a-4"]
    assert [(r.id, r.problem, r.info) for r in request.records] == [
        (r.id, r.problem, r.info) for r in on_disk
    ]


CELL = [[3.0, 0, 0], [0, 3.5, 0], [0, 0, 4.0]]
SITES = [{"species": [{"element": e}], "abc": [x] * 3} for e, x in (("Ga", 0), ("As", 0.5))]
VACANCY = {"species": [{"element": "K", "occu": 0}], "abc": [0.2] * 3}
PYMATGEN = {"lattice": {"matrix": CELL}, "sites": SITES}
LENGTHS = {"a": 3, "b": 3.5, "c": 4, "alpha": 90, "beta": 90, "gamma": 90}
FRACTIONS = {"coords": [[0, 0, 0], [0.5] * 3], "cartesian": False}
POINTS = {"positions": [[0, 0, 0], [1.5, 1.75, 2]], "pbc": True}


@pytest.mark.parametrize(
    "entry",
    [
        PYMATGEN,
        PYMATGEN | {"sites": [SITES[0], SITES[1] | {"xyz": [0.7, 0.9, 1.0]}]},
        PYMATGEN | {"sites": [*SITES, VACANCY]},
        PYMATGEN | {"lattice": LENGTHS},
        {"lattice_mat": CELL, "elements": ["Ga", "As"], **FRACTIONS},
        {"material_id": "mp-1", "structure": PYMATGEN},
        {"numbers": [31, 33], "cell": [3, 3.5, 4], **POINTS},
    ],
    ids=["pymatgen", "xyz", "vacancy", "lattice", "JARVIS", "structure", "ASE"],
)
def test_structure_of_a_request_is_that_of_a_file(entry: dict[str, object]) -> None:
    body = json.dumps({"structures": [entry]}).encode()
    request = request_from_json(
        body, RequestOptions(), name="", baselines="", limits=ServiceLimits()
    )
    (record,) = read_structures(json.dumps(entry).encode(), "structure-1.json")
    (plain,) = read_structures(json.dumps(PYMATGEN).encode(), "a.json")
    assert request.records[0].content == record.content == plain.content != ""
    assert (request.records[0].verdict, request.records[0].id) == (record.verdict, record.id)


def test_one_baseline_of_several_structures_is_refused() -> None:
    entry = json.dumps([{"content": FRAMES, "name": "a.xyz", "baseline_eV": 2.5}]).encode()
    with pytest.raises(
        Refusal,
        match="structure 1 holds several structures and one baseline_eV. Send them one by one",
    ):
        request_from_json(entry, RequestOptions(), name="", baselines="", limits=ServiceLimits())
