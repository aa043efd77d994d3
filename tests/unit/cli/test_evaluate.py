"""`bandgap evaluate`: a table of predictions against known gaps."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from bandgap.predictions.parquet import csv_to_parquet
from bandgap.predictions.table import Predictions, predictions_from_draws
from tests.unit.cli.conftest import Run

ERROR_EV = 0.1


def predicted(n: int = 8) -> Predictions:
    """Predictions of the waters, 0.1 eV too high with an sd of 0.2 eV; the last is refused."""
    gaps = 7.0 + 0.1 * np.arange(n)
    return predictions_from_draws(
        np.tile(gaps[:-1] + ERROR_EV, (4, 1)),
        np.full(4, 0.2),
        ids=[f"water-{k}" for k in range(n)],
        files=["waters.extxyz"] * n,
        formulas=["H2O"] * n,
        domain=["ok"] * n,
        status=["ok"] * (n - 1) + ["refused"],
        problem=[""] * (n - 1) + ["no reason"],
        level_of_theory="PBE",
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The predictions as a CSV."""
    path = tmp_path / "predictions.csv"
    predicted().to_csv(path)
    return path


def test_evaluate_prints_and_writes_the_figures(
    run: Run, table: Path, waters: Path, tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    command = (
        f"evaluate --predictions {table} --structures {waters} --label gap_eV --json {out}"
    ).split()
    result = run(*command)
    assert result.exit_code == 0
    figures = json.loads(out.read_text())
    assert set(figures) == {
        "n",
        "rmse_eV",
        "mae_eV",
        "nll",
        "crps_eV",
        "coverage_95",
        "width_95_eV",
        "mean_gap_rmse_eV",
        "signed_error_eV",
    }
    assert figures["n"] == 7
    assert figures["signed_error_eV"] == pytest.approx(ERROR_EV, abs=1e-6)
    assert figures["rmse_eV"] == pytest.approx(ERROR_EV, abs=1e-6)
    assert figures["mae_eV"] == pytest.approx(ERROR_EV, abs=1e-6)
    assert figures["coverage_95"] == 1.0
    assert figures["width_95_eV"] == pytest.approx(2 * 1.959964 * 0.2, abs=1e-4)
    assert "RMSE (eV)" in result.stdout
    assert "coverage of the 95 % interval" in result.stdout


def test_evaluate_takes_gaps_from_a_table_by_id(
    run: Run, table: Path, waters: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "gaps.csv"
    labels.write_text("id,gap_eV\n" + "".join(f"water-{k},{7.1 + 0.1 * k}\n" for k in range(5)))
    out = tmp_path / "figures.json"
    command = (
        f"evaluate --predictions {table} --structures {waters} --labels {labels} --json {out}"
    ).split()
    result = run(*command)
    assert result.exit_code == 0
    assert json.loads(out.read_text())["n"] == 5
    assert json.loads(out.read_text())["rmse_eV"] == pytest.approx(0.0, abs=1e-6)
    assert "5 of 8 structures have a label" in result.stderr


def figures_of(run: Run, table: Path, waters: Path) -> dict[str, float]:
    """Return the figures that `evaluate` writes for a table."""
    out = table.with_name("figures.json")
    words = f"--predictions {table} --structures {waters} --label gap_eV --json {out}".split()
    result = run("evaluate", *words)
    assert result.exit_code == 0, result.stderr
    figures: dict[str, float] = json.loads(out.read_text())
    return figures


def test_evaluate_reads_parquet_as_the_same_table_in_csv(
    run: Run, table: Path, waters: Path, tmp_path: Path
) -> None:
    parquet = tmp_path / "predictions.parquet"
    csv_to_parquet(table, parquet)
    assert figures_of(run, parquet, waters) == figures_of(run, table, waters)


@pytest.mark.parametrize("first_line", ["", "sep=;\n"])
def test_evaluate_reads_a_table_that_a_spreadsheet_saved_with_decimal_commas(
    first_line: str, run: Run, table: Path, waters: Path, tmp_path: Path
) -> None:
    header, *rows = table.read_text().splitlines()
    lines = [header.replace(",", ";")]
    lines += [row.replace(",", ";").replace(".", ",").replace("waters,", "waters.") for row in rows]
    saved = tmp_path / "saved.csv"
    saved.write_text(first_line + "\n".join(lines) + "\n", encoding="utf-8-sig")
    assert "7,1" in saved.read_text()
    assert figures_of(run, saved, waters) == figures_of(run, table, waters)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "Neither was given."),
        (("--label", "gap_eV", "--labels", "gaps.csv"), "Both were given."),
    ],
    ids=["none", "both"],
)
def test_evaluate_without_one_source_of_gaps_is_a_usage_error(
    run: Run, table: Path, waters: Path, words: tuple[str, ...], expected: str
) -> None:
    result = run("evaluate", "--predictions", table, "--structures", waters, *words)
    assert result.exit_code == 2
    assert expected in result.stderr and "--label" in result.stderr


def test_evaluate_of_other_structures_says_that_ids_differ(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    table = tmp_path / "predictions.csv"
    other = tmp_path / "others.extxyz"
    predicted().to_csv(table)
    other.write_text(waters.read_text().replace("water-", "ice-"))
    result = run("evaluate", "--predictions", table, "--structures", other, "--label", "gap_eV")
    assert result.exit_code == 1
    assert "no row has both a prediction and a known gap" in result.stderr


def test_evaluate_refuses_a_table_with_two_rows_of_a_structure(
    run: Run, table: Path, waters: Path
) -> None:
    """Also where the rows of the second table are of another file."""
    header, *rows = table.read_text().splitlines()
    copies = [row.replace("waters.extxyz", "old.extxyz") for row in rows[:2]]
    table.write_text("\n".join([header, *rows, *copies]) + "\n")
    result = run("evaluate", "--predictions", table, "--structures", waters, "--label", "gap_eV")
    assert result.exit_code == 1
    assert "structures with several rows: 2 (water-0, water-1)." in " ".join(result.stderr.split())


def test_evaluate_leaves_out_and_names_rows_of_another_formula(
    run: Run, table: Path, waters: Path
) -> None:
    figures = figures_of(run, table, waters)
    lines = table.read_text().splitlines()
    lines[2] = lines[2].replace("H2O", "H4O2")  # another cell of the same structure
    table.write_text("\n".join(lines) + "\n")
    assert figures_of(run, table, waters) == figures
    table.write_text("\n".join([*lines[:3], lines[3].replace("H2O", "H2S"), *lines[4:]]) + "\n")
    assert figures_of(run, table, waters)["n"] == 6
    words = ("--predictions", table, "--structures", waters, "--label", "gap_eV")
    stderr = " ".join(run("evaluate", *words).stderr.split())
    assert "of another formula: 1 of 7" in stderr
    assert "water-2 is H2S in the table and H2O here" in stderr


def test_evaluate_names_labels_without_a_prediction_and_means_outside_their_intervals(
    run: Run, table: Path, waters: Path
) -> None:
    header, *rows = table.read_text().splitlines()
    cells = rows[3].split(",")
    cells[3] = "8.5"  # above the interval
    table.write_text("\n".join([header, *rows[1:3], ",".join(cells), *rows[4:]]) + "\n")
    words = ("--predictions", table, "--structures", waters, "--label", "gap_eV")
    stderr = " ".join(run("evaluate", *words).stderr.split())
    assert "without a prediction: 2 (water-0, water-7)." in stderr
    assert "outside of their own intervals: 1 (water-3)." in stderr


def test_evaluate_of_credible_intervals_says_how_to_read_their_coverage(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    table = tmp_path / "credible.csv"
    draws = np.random.default_rng(0).normal(7.3, 0.1, size=(50, 8))
    base = predicted()
    predictions_from_draws(
        draws,
        np.full(50, 0.2),
        ids=base.ids,
        files=base.files,
        formulas=base.formulas,
        domain=base.domain,
        status=["ok"] * 8,
        problem=[""] * 8,
    ).to_csv(table, kind="credible")
    result = run("evaluate", "--predictions", table, "--structures", waters, "--label", "gap_eV")
    assert result.exit_code == 0
    assert "credible intervals of the mean" in result.stderr


def test_evaluate_of_gaps_of_another_level_of_theory_is_a_warning(
    run: Run, table: Path, waters: Path
) -> None:
    command = (
        f"evaluate --predictions {table} --structures {waters} --label gap_eV --level-of-theory"
    ).split()
    assert "Warning" not in run(*command, "PBE").stderr
    assert "Warning: Levels of theory are mixed (PBE, GW)" in run(*command, "GW").stderr


def test_evaluate_reads_the_unit_of_the_label_from_its_name(
    run: Run, table: Path, waters: Path, tmp_path: Path
) -> None:
    text = waters.read_text()
    figures = {}
    in_hartree = re.sub(
        r"gap_eV=([\d.]+)", lambda m: f"gap_Ha={float(m[1]) / 27.211386245988:.10f}", text
    )
    for key, frames in (("gap_eV", text), ("gap_Ha", in_hartree)):
        waters.write_text(frames)
        out = tmp_path / f"{key}.json"
        command = (
            f"evaluate --predictions {table} --structures {waters} --label {key} --json {out}"
        ).split()
        assert run(*command).exit_code == 0
        figures[key] = json.loads(out.read_text())
    assert figures["gap_Ha"] == pytest.approx(figures["gap_eV"], rel=1e-6)


@pytest.mark.data
def test_shift_of_all_gaps_and_runs_no_better_than_the_mean_are_named(
    run: Run, test_data: Path, tmp_path: Path
) -> None:
    cases = test_data / "field_cases"
    options = "--source none --method gaussian_process --label gap_eV --n 40 --n-test 20".split()
    first = run(
        "transfer", *options, "--structures", cases / "300_compare_first.extxyz",
        "--out", tmp_path / "first",
    )  # fmt: skip
    assert "RMSE of the mean gap (eV) 2.192" in " ".join(first.stdout.split())
    assert "nothing was learned" not in first.stdout
    shuffled = run(
        "transfer", *options, "--structures", cases / "300_compare_relabelled.extxyz",
        "--out", tmp_path / "shuffled",
    )  # fmt: skip
    assert "nothing was learned beyond the mean" in shuffled.stdout
    offset = cases / "306_offset_of_1.5_eV.extxyz"
    table = tmp_path / "p.csv"
    run("predict", "--model", tmp_path / "first", "--structures", offset, "--out", table)
    result = run("evaluate", "--predictions", table, "--structures", offset, "--label", "gap_eV")
    assert re.search(r"mean signed error \(eV\) +-1\.4", result.stdout)
    assert "eV below the known gaps: are these gaps of another level of theory" in result.stderr
