"""Crystals of elements that the source lacks: an own source, messages, and skipped structures."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bandgap.cli import app
from bandgap.descriptors.potentials import installed_extras
from tests.commands import run_in_process
from tests.unit.cli.conftest import Run

# These tests do not depend on how well the source model predicts.
BRIEF_TRAINING = ("--max-epochs", "30", "--device", "cpu")

PEROVSKITE = """5
Lattice="{a} 0 0 0 {a} 0 0 0 {a}" Properties=species:S:1:pos:R:3 id={id} gap_eV={gap:.3f} \
pbc="T T T"
{cation} {half} {half} {half}
Pb 0 0 0
I {half} 0 0
I 0 {half} 0
I 0 0 {half}
"""


def write_perovskites(path: Path, *, n: int, cation: str = "Cs", name: str = "p") -> Path:
    """Write cubic lead iodides of different sizes; their gap grows with the edge of the cell."""
    edges = [6.0 + 0.4 * k / n for k in range(n)]
    frames = [
        PEROVSKITE.format(
            a=f"{a:.4f}", half=f"{a / 2:.4f}", id=f"{name}{k:03d}", gap=a - 4.5, cation=cation
        )
        for k, a in enumerate(edges)
    ]
    path.write_text("".join(frames), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def crystals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_perovskites(tmp_path_factory.mktemp("crystals") / "iodides.extxyz", n=60)


@pytest.fixture(scope="module")
def source(crystals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source model of cesium lead iodides; tests must not change the folder."""
    folder = tmp_path_factory.mktemp("trained") / "source"
    data = ("--structures", crystals, "--label", "gap_eV")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BANDGAP_HOME", str(folder.parent / "home"))
        words = ("--species", "Cs", "Pb", "I", *BRIEF_TRAINING, "--out", folder)
        done = run_in_process(app)("train-source", *data, *words)
    assert done.exit_code == 0, done.output
    return folder


def test_elements_that_no_source_has_are_cured_by_the_commands_that_the_error_names(
    run: Run, tmp_path: Path
) -> None:
    write_perovskites(tmp_path / "iodides.extxyz", n=60)
    data = ("--structures", tmp_path / "iodides.extxyz", "--label", "gap_eV")
    refused = run(
        "transfer",
        "--source",
        "demo",
        *data,
        *f"--method last_layer_ridge --out {tmp_path / 'run'}".split(),
    )
    assert refused.exit_code == 1 and not (tmp_path / "run").exists()
    message = " ".join(refused.stderr.split())
    assert (
        "None of 60 structures can be learned from: contains I, Cs, Pb, which the "
        "descriptor was not set up" in message
    )
    (train,) = re.findall(r"`(bandgap [^`]+)`", message)
    words = shlex.split(train)
    assert words == ["bandgap", "train-source", "--species", "I Cs Pb"]
    source = tmp_path / "source"
    assert run(*words[1:], *data, "--out", source, *BRIEF_TRAINING).exit_code == 0
    learned = ("--method", "last_layer_ridge", "--n", "30", "--out", tmp_path / "run")
    done = run("transfer", "--source", source, *data, *learned)
    assert done.exit_code == 0 and "RMSE (eV)" in done.stdout


def test_crystals_of_any_elements_are_learned_from_without_a_source(
    run: Run, crystals: Path, tmp_path: Path
) -> None:
    data = ("--structures", crystals, "--label", "gap_eV")
    model = tmp_path / "run"
    table = tmp_path / "new.csv"
    quick = ("--method", "gaussian_process", "--n", "30", "--n-test", "20")
    done = run("transfer", "--source", "none", *data, *quick, "--out", model)
    assert done.exit_code == 0
    assert (
        "source, data: none; the run learned from its labelled structures alone"
        in done.stdout.splitlines()
    )
    stored = json.loads((model / "manifest.json").read_text())
    assert stored["descriptor"]["species"] == ["I", "Cs", "Pb"]
    assert (stored["source"]["members"], stored["source"]["fingerprint"]) == (0, "none")
    assert (
        stored["metrics"]["rmse_eV"] < 0.02
    )  # of gaps that are a line in the edge of the cell, 6.0 to 6.4 angstrom
    other_crystals = (
        "--structures",
        write_perovskites(tmp_path / "rb.extxyz", n=3, cation="Rb", name="rb"),
    )
    assert (
        run(
            "predict", "--model", model, "--structures", crystals, *other_crystals, "--out", table
        ).exit_code
        == 0
    )
    rows = table.read_text().splitlines()
    assert len(rows) == 64
    assert sum("Described without its Rb atoms" in row and ",warning," in row for row in rows) == 3

    again = ("--species", "Cs", "I", "Pb", "Rb", "--out", tmp_path / "again")
    assert run("transfer", "--source", "none", *data, *quick, *again).exit_code == 0
    table = tmp_path / "newer.csv"
    assert (
        run("predict", "--model", tmp_path / "again", *other_crystals, "--out", table).exit_code
        == 0
    )
    assert table.read_text().count("Contains Rb, never seen in the training set") == 3


def test_method_that_transfers_needs_a_source(run: Run, crystals: Path, tmp_path: Path) -> None:
    data = ("--structures", crystals, "--label", "gap_eV", "--out", tmp_path / "run")
    for command in (("transfer",), ("compare", "--n", "20", "--n-test", "10", "--seeds", "1")):
        refused = run(command[0], "--source", "none", *data, *command[1:], "--method", "fine_tune")
        assert refused.exit_code == 1 and not (tmp_path / "run" / "manifest.json").exists()
        message = " ".join(refused.stderr.split())
        assert (
            "fine_tune transfers from a source model, and the source is none. "
            "Give one: `--source DIR`" in message
        )
        assert (
            "or a method without transfer: target_only, kernel_ridge, "
            "gaussian_process, random_forest, " in message
        )


def test_structures_of_foreign_elements_are_counted_and_named(
    run: Run, crystals: Path, source: Path, tmp_path: Path
) -> None:
    model = tmp_path / "run"
    data = ("--structures", crystals, "--label", "gap_eV")
    other_crystals = (
        "--structures",
        write_perovskites(tmp_path / "rb.extxyz", n=7, cation="Rb", name="rb"),
    )
    quick = ("--method", "last_layer_ridge", "--n", "30", "--n-test", "20")
    done = run("transfer", "--source", source, *data, *other_crystals, *quick, "--out", model)
    message = (
        "7 of 67 labelled structures were left out: rb000, rb001, rb002, rb003 and 3 more. The "
        "source model has no Rb (in 7). To learn from them too, choose a method that learns new "
        "elements, such as btl_pcp_pe or feature_gp, or start from a source that was trained for "
        "their elements: `bandgap train-source --species` (on the page Source models)."
    )
    assert done.exit_code == 0 and message in done.stdout.splitlines()
    stored = json.loads((model / "manifest.json").read_text())
    assert [entry["id"] for entry in stored["left_out"]] == [f"rb{k:03d}" for k in range(7)]
    assert stored["data"]["n_labelled"] == 60 and stored["data"]["n_given"] == 67

    compared = run(
        "compare",
        "--source",
        source,
        *data,
        *other_crystals,
        *(
            f"--method last_layer_ridge --n 30 --n-test 20 --seeds 1 --out {tmp_path / 'compared'}"
        ).split(),
    )
    assert compared.exit_code == 0 and message in compared.stderr.splitlines()
    result_of_few = run(
        "transfer",
        "--source",
        source,
        *data,
        *other_crystals,
        *quick[:2],
        *f"--n 60 --n-test 5 --out {tmp_path / 'few'}".split(),
    )
    assert (
        result_of_few.exit_code == 1
        and f"only 60 have a label. Ask for fewer, or label more. {message}" in result_of_few.stderr
    )


def test_transfer_without_a_method_prints_its_choice_with_the_reason(
    run: Run, crystals: Path, tmp_path: Path
) -> None:
    quick = (
        "--set",
        'gradient_boosting={"folds": 4, "trees": 5}',
        "--set",
        'parts_gp={"draws": 8, "proposals": 50}',
    )
    data = ("--structures", crystals, "--label", "gap_eV", "--n", "20", "--n-test", "5")
    done = run("transfer", "--source", "none", *data, *quick, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "Proposed: --method stacking --levels none. Without a source model" in done.output
    rmse = "0.22" if "chgnet" in installed_extras() else "0.23"
    assert f"RMSE {rmse} eV" in done.output
    with_species = run(
        "transfer",
        "--source",
        "none",
        *data,
        *f"--method kernel_ridge --out {tmp_path / 'given'}".split(),
    )
    assert with_species.exit_code == 0 and "Proposed:" not in with_species.output
