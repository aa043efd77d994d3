"""A source that was trained on crystals, in the shell: nothing that it prints speaks of molecules."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

PEROVSKITE = """5
Lattice="{a} 0 0 0 {a} 0 0 0 {a}" Properties=species:S:1:pos:R:3 id={id} gap_eV={gap:.3f} pbc="T T T"
{cation} {half} {half} {half}
Pb 0 0 0
I {half} 0 0
I 0 {half} 0
I 0 0 {half}
"""


def write_perovskites(path: Path, *, n: int, cation: str = "Cs", name: str = "p") -> Path:
    """Write cubic lead iodides of different sizes, with a gap that grows with the edge of the cell."""
    edges = [6.0 + 0.4 * k / n for k in range(n)]
    frames = [
        PEROVSKITE.format(a=f"{a:.4f}", half=f"{a / 2:.4f}", id=f"{name}{k:03d}", gap=a - 4.5, cation=cation)
        for k, a in enumerate(edges)
    ]
    path.write_text("".join(frames), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def crystals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_perovskites(tmp_path_factory.mktemp("crystals") / "iodides.extxyz", n=60)


def test_shell_never_calls_a_source_of_crystals_one_of_molecules(run: Run, crystals: Path, tmp_path: Path) -> None:
    source, model, table = tmp_path / "source", tmp_path / "run", tmp_path / "predictions.csv"
    data = ("--structures", crystals, "--label", "gap_eV")
    done = [
        run("train-source", *data, "--species", "Cs", "Pb", "I", "--device", "cpu", "--out", source),
        run("transfer", "--source", source, *data, "--method", "last_layer_ridge", "--n", "30", "--out", model),
        run("predict", "--model", model, "--structures", crystals, "--out", table),
        run("evaluate", "--predictions", table, *data),
        run("transfer", "--list-methods"),
        run("transfer", "--help"),
        run("--help"),
    ]
    assert [result.exit_code for result in done] == [0] * len(done)
    said = [line for result in done for line in result.output.splitlines()]
    assert any("source, error on held-out structures: " in line for line in said)
    assert [line for line in said if "molecul" in line.lower()] == []
