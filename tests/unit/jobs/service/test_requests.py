"""Requests before the prediction: how much of them is read, and the ids of structures."""

import json
from pathlib import Path

import pytest

from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.requests import RequestOptions, request_from_files, request_from_json
from bandgap.structures.reading import read_paths

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


def test_reading_ends_at_the_limit_of_structures() -> None:
    many = json.dumps([{"content": FRAMES * 2, "name": "a.xyz"}, "never read"]).encode()
    with pytest.raises(Refusal, match="More than 3 structures in one request, the limit") as over:
        request_from_json(
            many, RequestOptions(), name="", baselines="", limits=ServiceLimits(max_structures=3)
        )
    assert over.value.code == 413
    request = request_from_json(
        many, RequestOptions(), name="", baselines="", limits=ServiceLimits(max_structures=5)
    )
    assert "an entry without a structure" in request.records[4].problem
    with pytest.raises(Refusal, match="More than 3 structures"):
        request_from_files(
            [("a.xyz", FRAMES.encode())] * 2,
            RequestOptions(),
            baselines="",
            limits=ServiceLimits(max_structures=3),
        )


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


def test_one_baseline_of_several_structures_is_refused() -> None:
    entry = json.dumps([{"content": FRAMES, "name": "a.xyz", "baseline_eV": 2.5}]).encode()
    with pytest.raises(
        Refusal,
        match="structure 1 holds several structures and one baseline_eV. Send them one by one",
    ):
        request_from_json(entry, RequestOptions(), name="", baselines="", limits=ServiceLimits())
