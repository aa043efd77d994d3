"""Rows of pandas split JSON come out one by one, across chunks, and damage is named."""

import gzip

import pandas as pd
import pytest

from bandgap.datasets import split_json
from bandgap.foundation.errors import InputError

FRAME = pd.DataFrame(
    {"a": ["é\t\n", "] }"], "b": [[-1.5, 2.0], None], "c": [1.0, float("nan")]}, index=[7, 3]
)
ROWS = [(7, {"a": "é\t\n", "b": [-1.5, 2.0], "c": 1.0}), (3, {"a": "] }", "b": None, "c": None})]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_read_split_json_reads_back_what_pandas_wrote(tmp_path, monkeypatch, chunk, indent):
    monkeypatch.setattr(split_json, "_CHUNK", chunk)
    FRAME.to_json(tmp_path / "x.json", orient="split", indent=indent)
    assert list(split_json.read_split_json(tmp_path / "x.json")) == ROWS


def test_read_split_json_gzip_is_known_by_content(tmp_path):
    (tmp_path / "x.json").write_bytes(gzip.compress(FRAME.to_json(orient="split").encode()))
    assert list(split_json.read_split_json(tmp_path / "x.json")) == ROWS


def test_read_split_json_table_without_rows_gives_none(tmp_path):
    (tmp_path / "x.json").write_text('{"columns": ["a"], "index": [], "data": []}')
    assert list(split_json.read_split_json(tmp_path / "x.json")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "x.json: not a table in the published layout", id="empty"),
        pytest.param("[1, 2]", "not a table in the published layout", id="list"),
        pytest.param(
            '{"columns": {"a": 1}, "index": [0], "data": [[1]]}',
            "not a table in the published layout",
            id="other-orient",
        ),
        pytest.param(
            '{"data": [[1]], "columns": ["a"], "index": [0]}',
            "not a table in the published layout",
            id="order",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [0, 1], "data": [[1], [',
            "ends or breaks after 1 rows",
            id="cut-off",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [0], "data": [[1, 2]]}',
            "row 0: does not fit the 1 columns",
            id="wide",
        ),
        pytest.param(
            '{"columns": [["a"]], "index": [0], "data": [[1]]}',
            "not a table in the published layout",
            id="list-column",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [null], "data": [[1]]}',
            "not a table in the published layout",
            id="null-index",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [0], "data": [' + "[" * 100_000,
            "breaks after 0 rows .maximum recursion depth",
            id="nested",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [0], "data": [["' + "a" * 3000,
            "breaks after 0 rows .Unterminated",
            id="open",
        ),
        pytest.param(
            '{"columns": ["a"], "index": [0, 1], "data": [[1]]}',
            "1 rows but 2 index labels",
            id="short",
        ),
    ],
)
def test_read_split_json_damaged_file_is_refused(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        list(split_json.read_split_json(tmp_path / "x.json"))


def test_read_split_json_value_without_end_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(split_json, "_CHUNK", 1000)
    monkeypatch.setattr(split_json, "_LONGEST", 10_000)
    numbers = "".join(str(number) for number in range(100_000))
    data = gzip.compress(('{"columns": ["a"], "index": [0], "data": [["' + numbers).encode())
    # A reader that reads to the end finds that it is cut off.
    (tmp_path / "x.json.gz").write_bytes(data[:-20])
    with pytest.raises(InputError, match="the file ends or breaks after 0 rows"):
        list(split_json.read_split_json(tmp_path / "x.json.gz"))


def test_read_split_json_absent_or_broken_archive_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json: cannot be read"):
        list(split_json.read_split_json(tmp_path / "absent.json"))
    (tmp_path / "x.json.gz").write_bytes(
        gzip.compress(FRAME.to_json(orient="split").encode())[:-20]
    )
    with pytest.raises(
        InputError, match=r"x\.json\.gz: cannot be read .* Was the download complete"
    ):
        list(split_json.read_split_json(tmp_path / "x.json.gz"))
    data = gzip.compress(FRAME.to_json(orient="split").encode())
    (tmp_path / "x.json.gz").write_bytes(data[:20] + bytes(20) + data[40:])
    with pytest.raises(
        InputError, match=r"x\.json\.gz: cannot be read \(.+\). Was the download complete"
    ):
        list(split_json.read_split_json(tmp_path / "x.json.gz"))
    (tmp_path / "x.json.gz").write_bytes(data + b"\x8d<")
    with pytest.raises(
        InputError, match=r"x\.json\.gz: cannot be read \(Not a gzipped file\). Was the download"
    ):
        list(split_json.read_split_json(tmp_path / "x.json.gz"))
