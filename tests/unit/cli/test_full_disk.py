"""`bandgap predict` on a disk that is too small for the first chunk of its table."""

import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.predictions.growing import SUFFIX


def test_predict_on_a_file_system_of_a_few_kilobytes_leaves_no_table_that_looks_finished(
    tmp_path: Path, model: Path, waters: Path
) -> None:
    disk, many = tmp_path / "disk", tmp_path / "many.extxyz"
    disk.mkdir()
    many.write_text(waters.read_text() * 20)
    mounted = f"mount -t tmpfs -o size=16k none {disk}"
    if subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted], check=False, capture_output=True
    ).returncode:
        pytest.skip("no file system can be mounted here")
    predict = (
        f"{sys.executable} -c 'from bandgap.cli import main; main()' predict --model "
        f"{model} --structures {many}"
    )
    script = (
        f"{mounted} && {predict} --out {disk}/t.csv; echo rc=$?; ls {disk}; head -c 20 {disk}/t.csv"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], check=False, capture_output=True, text=True
    )
    assert (
        "t.csv cannot be written: No space left on device. It has 0 complete "
        "rows and is unfinished." in done.stderr
    )
    assert "rc=1" in done.stdout and f"t.csv{SUFFIX}" in done.stdout
