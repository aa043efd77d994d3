"""`bandgap predict` on a disk that is too small for its table, or for the first chunk of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.predictions.growing import SUFFIX

UNFINISHED = "It has 0 complete rows and is unfinished. Free"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunk", "state", "names"),
    [(512, "Free", []), (39, UNFINISHED, ["t.csv", f"t.csv{SUFFIX}"])],
    ids=["in one piece", "in chunks"],
)
def test_predict_on_a_full_disk_leaves_no_table_that_looks_finished(
    tmp_path: Path, model: Path, waters: Path, chunk: int, state: str, names: list[str]
) -> None:
    disk = tmp_path / "disk"
    many = tmp_path / "many.extxyz"
    disk.mkdir()
    many.write_text(waters.read_text() * 20)
    mounted = f"mount -t tmpfs -o size=8k none {disk}"
    if subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted], check=False, capture_output=True
    ).returncode:
        pytest.skip("no file system can be mounted here")
    predict = (
        f"{sys.executable} -c 'from bandgap.cli import main; main()' predict --model "
        f"{model} --structures {many} --chunk {chunk}"
    )
    script = f"{mounted} && {predict} --out {disk}/t.csv; echo rc=$?; ls {disk}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], check=False, capture_output=True, text=True
    )
    assert f"t.csv cannot be written: No space left on device. {state}" in done.stderr
    words = done.stdout.split()
    assert words[-len(names) - 1 :] == ["rc=1", *names]
