"""Fixtures that call the command line: in this process, or in a separate one for exit codes."""

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandgap.cli import app
from tests.commands import Run, run_in_process, use_own_home

Shell = Callable[..., "subprocess.CompletedProcess[str]"]

SETTINGS = 'sampler={"chains": 2, "warmup": 20, "draws": 20, "keep": 12}'

WATER = """3
Properties=species:S:1:pos:R:3 id={id} gap_eV={gap} pbc="F F F"
O 0.000 0.000 {height}
H 0.758 0.000 0.504
H -0.758 0.000 0.504
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate data directory for the test."""
    return use_own_home(tmp_path, monkeypatch)


@pytest.fixture
def run() -> Run:
    """Call the command line in this process; exceptions that are no exit are raised."""
    return run_in_process(app)


@pytest.fixture
def shell() -> Shell:
    """Call the command line in a separate process."""

    def call(*words: Any) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", "from bandgap.cli import main; main()", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)

    return call


@contextmanager
def commands_in(folder: Path) -> Iterator[Run]:
    """Give a caller of the command line for fixtures that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        use_own_home(folder, patch)
        yield run_in_process(app)


def write_eight_waters(folder: Path) -> Path:
    """Write eight water molecules of different heights, with made-up gaps, as one extXYZ file."""
    path = folder / "waters.extxyz"
    frames = (
        WATER.format(id=f"water-{k}", gap=7.0 + 0.1 * k, height=-0.06 - 0.02 * k) for k in range(8)
    )
    path.write_text("".join(frames), encoding="utf-8")
    return path


@pytest.fixture
def waters(tmp_path: Path) -> Path:
    """Eight water molecules of different heights, with made-up gaps, as one extXYZ file."""
    return write_eight_waters(tmp_path)


def write_waters(path: Path, *, n: int, shift_eV: float, name: str) -> Path:
    """Write n waters; their gap falls with the height of the oxygen, shifted by a constant."""
    heights = np.random.default_rng(0 if name == "m" else 1).uniform(-0.3, 0.2, n)
    gaps = 6 + shift_eV - 3 * heights
    frames = [
        WATER.format(id=f"{name}{k:03d}", gap=gap, height=f"{height:.6f}")
        for k, (gap, height) in enumerate(zip(gaps, heights, strict=True))
    ]
    path.write_text("".join(frames), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with molecules to train on, targets with other gaps, and a broken file."""
    path = tmp_path_factory.mktemp("journey")
    write_waters(path / "molecules.extxyz", n=80, shift_eV=0.0, name="m")
    write_waters(path / "targets.extxyz", n=60, shift_eV=-0.5, name="t")
    (path / "broken.cif").write_bytes(b"data_x\n")
    return path


@pytest.fixture(scope="session")
def sampled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that samples a network of toy size; tests must not change the folder."""
    folder = tmp_path_factory.mktemp("sampled")
    waters = write_eight_waters(folder)
    source = folder / "source"
    model = folder / "run"
    data = ("--structures", waters, "--label", "gap_eV")
    sets = f"train-sources near={waters} --label gap_eV --species H O --hidden 8".split()
    with commands_in(folder) as run:
        trained = run(*sets, "--steps", "50", "--members", "1", "--out", source, "--device", "cpu")
        assert trained.exit_code == 0, trained.output
        words = [*"--method btl_pcp_pe --n 6 --n-test 2 --set".split(), SETTINGS, "--device", "cpu"]
        assert run("transfer", "--source", source, *data, *words, "--out", model).exit_code == 0
    return model


@pytest.fixture
def model(sampled_run: Path, tmp_path: Path) -> Path:
    """A copy of the run that samples a network of toy size."""
    return shutil.copytree(sampled_run, tmp_path / "run")
