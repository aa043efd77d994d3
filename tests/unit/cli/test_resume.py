"""`bandgap transfer`, killed while it samples: the same command gives the result of one run."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

SETTINGS = '{"chains": 2, "warmup": 60, "draws": 150, "keep": 8, "max_steps": 2}'


@pytest.fixture
def words(run: Run, waters: Path, tmp_path: Path) -> tuple[str, ...]:
    """The command without its folder: a transfer of a source of toy size by a sampler."""
    source = tmp_path / "source"
    data = ("--structures", str(waters), "--label", "gap_eV")
    sets = f"train-sources near={waters} --label gap_eV --species H O --hidden 4".split()
    assert (
        run(*sets, "--steps", "5", "--members", "2", "--out", source, "--device", "cpu").exit_code
        == 0
    )
    return (
        *("transfer", "--source", str(source), *data),
        *"--method btl_pcp_pe --n 6 --n-test 2 --checkpoint-every 20 --device cpu --set".split(),
        f"sampler={SETTINGS}",
    )


def killed_while_sampling(command: list[str], folder: Path, *, files: int) -> None:
    """Start the command and kill it once it has written so many checkpoints' files."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while len(list((folder / "checkpoint").glob("*.safetensors"))) < files:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL


def test_transfer_killed_resumes_with_the_same_command(
    run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    """Killed in the chains of both networks; in between, another seed is refused."""
    out = tmp_path / "run"
    uninterrupted = tmp_path / "whole"
    command = [
        sys.executable,
        "-c",
        "from bandgap.cli import main; main()",
        *words,
        "--out",
        str(out),
    ]
    for files in (1, 2):
        killed_while_sampling(command, out, files=files)
        assert not (out / "manifest.json").exists()
    other = run(*words, "--out", out, "--seed", "1")
    assert other.exit_code == 1
    assert "belongs to another run" in other.stderr
    assert f"All files of the unfinished run are in {out / 'checkpoint'}." in " ".join(
        other.stderr.split()
    )
    for folder in (out, uninterrupted):
        assert run(*words, "--out", folder).exit_code == 0
        assert not (folder / "checkpoint").exists()
    assert (out / "draws.safetensors").read_bytes() == (
        uninterrupted / "draws.safetensors"
    ).read_bytes()
    assert (out / "predictions.csv").read_bytes() == (
        uninterrupted / "predictions.csv"
    ).read_bytes()
