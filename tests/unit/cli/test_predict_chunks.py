"""`bandgap predict` in chunks gives the bytes of one chunk, also after a kill."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest

from bandgap.predictions import parquet
from bandgap.predictions.growing import SUFFIX, rows_in
from bandgap.predictions.table import read_predictions_csv
from bandgap.runs import chunks
from bandgap.structures import Limits, StructureRecord, reading
from tests.unit.cli.conftest import WATER, Run


@pytest.fixture
def inputs(tmp_path: Path, waters: Path) -> tuple[str, ...]:
    """Several files with refused records, records without a descriptor and repeated ids."""
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "a.extxyz").write_text(
        waters.read_text() * 3 + "3\nbroken\nO 0 0 x\nH 1 0 0\nH 0 1 0\n"
    )
    (folder / "b.cif").write_text("data_x\n")
    (folder / "c.xyz").write_text(
        "1\nneon\nNe 0 0 0\n" + WATER.format(id="late", gap=1, height=-0.1)
    )
    return ("--structures", str(folder), "--structures", str(waters))


def test_rows_do_not_depend_on_chunks_and_processes(
    run: Run, model: Path, inputs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "PROCESSES_FROM", 1)
    tables = {}
    for words in (("--chunk", 1000), ("--chunk", 5), ("--chunk", 7, "--jobs", 2)):
        out = tmp_path / "o" / "t.csv"
        structures = tmp_path / "o" / "s.extxyz"
        done = run(
            "predict",
            "--model",
            model,
            *inputs,
            *f"--out {out} --extxyz {structures} --level 0.8".split(),
            *words,
        )
        assert done.exit_code == 0, done.output
        files = sorted(out.parent.iterdir())
        tables[words] = (*(path.read_bytes() for path in files), done.stdout)
        assert [path.name for path in files] == [
            "s.extxyz",
            "s.extxyz.json",
            "t.csv",
            "t.csv.json",
        ]
    assert len(set(tables.values())) == 1
    structures_bytes, _, table, _, messages = tables["--chunk", 1000]
    assert table.count(b"\n") == 1 + 24 + 1 + 1 + 2 + 8 and table.count(b",refused,") == 3
    assert structures_bytes.count(b"Properties=") == 33
    assert "33 predicted gaps and 3 refused structures written to" in messages
    (counts,) = re.findall(r"Like the training set: (\d+); unlike it: (\d+)", done.stderr)
    assert sum(map(int, counts)) == 33


@pytest.mark.parametrize("jobs", (1, 2))
def test_predict_takes_any_number_of_structures_and_other_commands_say_their_limit(
    run: Run,
    model: Path,
    inputs: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
) -> None:
    for function in (reading.stream_paths, reading.read_paths):
        monkeypatch.setitem(function.__kwdefaults__, "limits", Limits(max_structures=3))
    out = tmp_path / "t.csv"
    done = run("predict", "--model", model, *inputs, "--out", out, "--jobs", jobs)
    assert (
        done.exit_code == 0
        and "36 structures: " in done.stderr
        and "33 predicted gaps and 3 refused" in done.stdout
    )
    table = read_predictions_csv(out)
    files = [Path(file).name for file in table["file"]]
    assert files == ["a.extxyz"] * 25 + ["b.cif"] + ["c.xyz"] * 2 + ["waters.extxyz"] * 8
    ids = [str(id).partition("-")[2].partition("-")[0] for id in table["id"]]
    assert ids[:24] == [str(k) for k in range(8)] * 3 and ids[-8:] == ids[:8]
    assert not table["problem"].str.contains("limit").any()
    checked = run("check", inputs[1])
    assert "which takes any number" in checked.output


HALTING = """
import time
from bandgap.cli import main
from bandgap.runs import chunks
from bandgap.structures import reading

read, chunks.PROCESSES_FROM = reading.stream_paths, 4

def halting(paths, *, limits):
    for k, record in enumerate(read(paths, limits=limits)):
        while k == 520:
            time.sleep(1)
        yield record

reading.stream_paths = halting
main()
"""


def test_predict_killed_while_it_reads_keeps_the_rows_before_whatever_has_changed(
    run: Run, model: Path, tmp_path: Path
) -> None:
    waters = [WATER.format(id=f"w{k}", gap=1, height=-0.06 - 0.0005 * k) for k in range(600)]
    other = WATER.format(id="other", gap=1, height=-0.5)
    many = tmp_path / "many.extxyz"
    out = tmp_path / "killed" / "t.csv"
    words = f"predict --model {model} --structures {many} --chunk 20 --jobs 2".split()
    many.write_text("".join(waters))
    process = subprocess.Popen(
        [sys.executable, "-c", HALTING, *words, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while (rows := rows_in(out)) < 100:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    goes_on = "rows of this work; writing resumes after them."
    for name, changed, message in (
        ("later one", [*waters[:550], other, *waters[551:], other], goes_on),
        ("earlier one", [*waters[:50], other, *waters[51:]], "was started with other structures"),
    ):
        again = tmp_path / name / "t.csv"
        uninterrupted = tmp_path / name / "whole.csv"
        shutil.copytree(out.parent, again.parent)
        many.write_text("".join(changed))
        assert rows_in(again) >= rows
        done = run(*words, "--out", again)
        assert done.exit_code == 0 and message in done.stderr
        assert run(*words, "--out", uninterrupted).exit_code == 0
        assert again.read_bytes() == uninterrupted.read_bytes() and again.read_bytes().count(
            b"\n"
        ) == 1 + len(changed)


@pytest.mark.parametrize(
    ("jobs", "read_first"), [(2, 2**26), (1, 20_000)], ids=["two jobs", "large file"]
)
def test_predict_begins_before_all_structures_are_read(
    run: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
    read_first: int,
) -> None:
    monkeypatch.setattr(chunks, "PROCESSES_FROM", 4)
    many = tmp_path / "many.extxyz"
    uninterrupted = tmp_path / "whole.csv"
    out = tmp_path / "t.csv"
    many.write_text(
        "".join(WATER.format(id=f"w{k}", gap=1, height=-0.06 - 0.0005 * k) for k in range(300))
    )
    words = ("predict", "--model", model, "--structures", many, "--chunk", 20)
    assert run(*words, "--out", uninterrupted).exit_code == 0
    read = reading.stream_paths

    def wait_for_rows(paths: Sequence[Path], *, limits: Limits) -> Iterator[StructureRecord]:
        for k, record in enumerate(read(paths, limits=limits)):
            deadline = time.monotonic() + 60
            while k == 280 and not out.exists():
                assert time.monotonic() < deadline, (
                    "no row was written while structures were being read"
                )
                time.sleep(0.01)
            yield record

    monkeypatch.setattr(reading, "stream_paths", wait_for_rows)
    monkeypatch.setattr("bandgap.cli.inputs.READ_FIRST_BYTES", read_first)
    done = run(*words, "--out", out, "--jobs", jobs)
    assert (
        done.exit_code == 0
        and "300 structures: 300 ready, 0 with a warning, 0 refused." in done.stderr
    )
    assert out.read_bytes() == uninterrupted.read_bytes()
    assert many.stat().st_size > 20_000


def test_predict_with_other_options_does_not_resume(
    run: Run, model: Path, waters: Path, tmp_path: Path
) -> None:
    uninterrupted = tmp_path / "whole.csv"
    out = tmp_path / "t.csv"
    words = ("predict", "--model", model, "--structures", waters, "--chunk", 2)
    assert run(*words, "--out", uninterrupted, "--level", "0.5").exit_code == 0
    out.write_text("a table of before\n")
    out.with_name(out.name + SUFFIX).write_text(
        '{"work": "x", "made_of": "y", "rows": 1, "counts": {}, "files": {"table": {}}}'
    )
    done = run(*words, "--out", out, "--level", "0.5")
    assert (
        done.exit_code == 0
        and "with other structures, another model or other options" in done.stderr
    )
    assert out.read_bytes() == uninterrupted.read_bytes()


def test_table_that_ends_in_parquet_has_the_rows_of_the_csv(
    run: Run, model: Path, inputs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROWS", 7)
    table = tmp_path / "o" / "t.csv"
    out = tmp_path / "o" / "t.parquet"
    for path in (table, out):
        done = run("predict", "--model", model, *inputs, "--out", path, "--chunk", 10)
        assert (
            done.exit_code == 0
            and f"33 predicted gaps and 3 refused structures written to {path}" in done.stdout
        )
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "t.csv",
        "t.csv.json",
        "t.parquet",
        "t.parquet.json",
    ]
    read = pd.read_parquet(out)
    pd.testing.assert_frame_equal(read, read_predictions_csv(table), check_dtype=False)
    assert read["mean_eV"].dtype == float and read["mean_eV"].isna().sum() == 3
