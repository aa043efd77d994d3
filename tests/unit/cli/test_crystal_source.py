"""Crystals of other elements in the shell: their own source, what is said where there is none, and who is left out."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, Shell

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


def test_elements_that_no_source_has_are_cured_by_the_commands_that_the_error_names(
    shell: Shell, tmp_path: Path
) -> None:
    write_perovskites(tmp_path / "iodides.extxyz", n=60)
    data = ("--structures", tmp_path / "iodides.extxyz", "--label", "gap_eV")
    refused = shell("transfer", "--source", "demo", *data, "--method", "kernel_ridge", "--out", tmp_path / "run")
    assert refused.returncode == 1 and not (tmp_path / "run").exists()
    said = " ".join(refused.stderr.split())
    assert "None of 60 structures can be learned from: contains I, Cs, Pb, which the descriptor was not set up" in said
    train, transfer = re.findall(r"`(bandgap [^`]+)`", said)
    given = {"PATH": str(tmp_path / "iodides.extxyz"), "SOURCE": str(tmp_path / "source")}
    words = [given.get(word, word) for word in shlex.split(train.replace("--labels CSV", "--label gap_eV"))]
    assert words[:2] == ["bandgap", "train-source"] and words[words.index("--species") + 1] == "I Cs Pb"
    assert shell(*words[1:]).returncode == 0
    words = [given.get(word, word) for word in shlex.split(transfer)]
    done = shell(*words[1:], *data, "--method", "kernel_ridge", "--n", "30", "--out", tmp_path / "run")
    assert done.returncode == 0 and "RMSE (eV)" in done.stdout


def test_structures_of_foreign_elements_are_counted_and_named(run: Run, crystals: Path, tmp_path: Path) -> None:
    source, model = tmp_path / "source", tmp_path / "run"
    data = ("--structures", crystals, "--label", "gap_eV")
    others = ("--structures", write_perovskites(tmp_path / "rb.extxyz", n=7, cation="Rb", name="rb"))
    quick = ("--method", "kernel_ridge", "--n", "30", "--n-test", "20")
    words = ("--species", "Cs", "Pb", "I", "--device", "cpu", "--out", source)
    assert run("train-source", *data, *words).exit_code == 0
    done = run("transfer", "--source", source, *data, *others, *quick, "--out", model)
    said = (
        "7 of 67 labelled structures were left out: rb000, rb001, rb002, rb003 and 3 more. "
        "The source model has no Rb (in 7). To learn from them too, start from one that was trained for their "
        "elements: bandgap train-source --species, or the page Source models."
    )
    assert done.exit_code == 0 and said in done.stdout.splitlines()
    stored = json.loads((model / "manifest.json").read_text())
    assert [found["id"] for found in stored["left_out"]] == [f"rb{k:03d}" for k in range(7)]
    assert stored["data"]["n_labelled"] == 60 and stored["data"]["n_given"] == 67

    compared = run(
        "compare", "--source", source, *data, *others, "--method", "kernel_ridge", "--n", "30", "--n-test", "20",
        "--seeds", "1", "--out", tmp_path / "compared",
    )  # fmt: skip
    assert compared.exit_code == 0 and said in compared.stderr.splitlines()

    alone = run("transfer", "--source", source, *data, *quick, "--out", tmp_path / "alone")
    assert alone.exit_code == 0 and "left out" not in alone.output

    few = run("transfer", "--source", source, *data, *others, "--n", "60", "--n-test", "5", "--out", tmp_path / "few")
    assert few.exit_code == 1 and f"only 60 have a label. Ask for fewer, or label more. {said}" in few.stderr
