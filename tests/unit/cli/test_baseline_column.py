"""Runs on the command line that learn the difference to a gap at a cheaper level."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.conftest import Run, Shell

FRAME = """3
Properties=species:S:1:pos:R:3 id=water-{k:02d} gap_eV={gap:.4f} cheap_eV={cheap:.4f} pbc="F F F"
O 0.000 0.000 {height:.4f}
H 0.758 0.000 0.504
H -0.758 0.000 0.504
"""


def rows_of(n: int, *, seed: int) -> list[dict[str, float]]:
    """Waters with a dear gap: 1 eV, 1.2 times a random cheap gap, and a term of their height."""
    rng = np.random.default_rng(seed)
    heights = rng.uniform(-0.3, 0.0, n)
    cheap = rng.uniform(3.0, 7.0, n)
    gaps = 1.0 + 1.2 * cheap + 2.0 * heights + rng.normal(0.0, 0.02, n)
    return [{"k": k, "gap": gaps[k], "cheap": cheap[k], "height": heights[k]} for k in range(n)]


def write_frames(path: Path, rows: list[dict[str, float]]) -> Path:
    path.write_text("".join(FRAME.format(**row) for row in rows), encoding="utf-8")
    return path


def write_table(path: Path, rows: list[dict[str, float]], *columns: str) -> Path:
    values = {"gap_eV": "gap", "gap_pbe_eV": "cheap"}
    lines = [",".join(("id", *columns))]
    lines += [
        ",".join((f"water-{row['k']:02d}", *(f"{row[values[c]]:.4f}" for c in columns)))
        for row in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def predicted(path: Path) -> np.ndarray:
    with path.open() as file:
        return np.array([float(row["mean_eV"] or "nan") for row in csv.DictReader(file)])


@pytest.mark.parametrize("method", ["kernel_ridge", "target_only"])
def test_difference_to_a_column_is_learned_and_predicted_with(
    run: Run, tmp_path: Path, method: str
) -> None:
    learned = rows_of(40, seed=0)
    new = rows_of(12, seed=1)
    crystals = write_frames(tmp_path / "a.extxyz", learned)
    new_crystals = write_frames(tmp_path / "b.extxyz", new)
    table = write_table(tmp_path / "gaps.csv", learned, "gap_eV", "gap_pbe_eV")
    data = (
        f"--structures {crystals} --labels {table} --method {method} --n 30 --n-test 10"
    ).split()
    plain = run("transfer", "--source", "none", *data, "--out", tmp_path / "plain")
    done = run(
        "transfer",
        "--source",
        "none",
        *data,
        *f"--baseline-column gap_pbe_eV --out {tmp_path / 'run'}".split(),
    )
    assert plain.exit_code == done.exit_code == 0
    stored = {
        name: json.loads((tmp_path / name / "manifest.json").read_text())
        for name in ("plain", "run")
    }
    assert (
        stored["run"]["request"]["baseline"] == "gap_pbe_eV"
        and stored["plain"]["request"]["baseline"] == ""
    )
    assert stored["run"]["diagnostics"]["baseline_slope"] == pytest.approx(1.2, abs=0.1)
    assert stored["run"]["metrics"]["rmse_eV"] < 0.3 * stored["plain"]["metrics"]["rmse_eV"]

    cheap = write_table(tmp_path / "cheap.csv", new[:-2], "gap_pbe_eV")
    out = tmp_path / "new.csv"
    prediction = run(
        *(
            f"predict --model {tmp_path / 'run'} --structures {new_crystals} --baselines "
            f"{cheap} --out {out}"
        ).split()
    )
    assert prediction.exit_code == 0
    assert "10 predicted gaps and 2 refused structures" in prediction.stdout
    errors = predicted(out) - np.array([row["gap"] for row in new])
    assert np.isnan(errors[-2:]).all() and np.sqrt(np.mean(errors[:-2] ** 2)) < 0.4
    assert out.read_text().count("has no gap_pbe_eV, which this run needs") == 2


def test_baseline_under_a_key_is_in_the_unit_of_its_name(run: Run, tmp_path: Path) -> None:
    """The same run and the same predictions follow from a baseline in eV and in Hartree."""
    slopes = []
    means = []
    for unit, factor in (("eV", 1.0), ("Ha", 27.211386245988)):
        rows = [
            [{**row, "cheap": row["cheap"] / factor} for row in rows_of(n, seed=seed)]
            for n, seed in ((40, 0), (5, 1))
        ]
        frame = FRAME.replace("cheap_eV={cheap:.4f}", f"cheap_{unit}={{cheap:.12f}}")
        learned, new = (tmp_path / f"{name}_{unit}.extxyz" for name in ("learned", "new"))
        for path, frames in zip((learned, new), rows, strict=True):
            path.write_text("".join(frame.format(**row) for row in frames))
        data = ("--structures", learned, "--label", "gap_eV", "--baseline-column", f"cheap_{unit}")
        folder = tmp_path / f"run_{unit}"
        out = tmp_path / f"{unit}.csv"
        words = ("--source", "none", *data, "--method", "kernel_ridge", "--out", folder)
        assert run("transfer", *words).exit_code == 0
        slopes.append(
            json.loads((folder / "manifest.json").read_text())["diagnostics"]["baseline_slope"]
        )
        assert run("predict", "--model", folder, "--structures", new, "--out", out).exit_code == 0
        means.append(predicted(out))
    assert slopes[1] == pytest.approx(slopes[0], rel=1e-6)
    np.testing.assert_allclose(means[1], means[0], atol=1e-4)


def test_missing_baselines_are_reported(shell: Shell, run: Run, tmp_path: Path) -> None:
    crystals = write_frames(tmp_path / "a.extxyz", rows_of(40, seed=0))
    data = (
        f"--structures {crystals} --label gap_eV --method gaussian_process --source none"
    ).split()
    none = run("transfer", *data, "--baseline-column", "gap_pbe_eV", "--out", tmp_path / "run")
    assert none.exit_code == 1
    assert (
        "no structure has the key 'gap_pbe_eV'. Keys with numbers: gap_eV (40 of 40), cheap_eV"
        in none.stderr
    )
    table = write_table(tmp_path / "gaps.csv", rows_of(40, seed=0), "gap_eV")
    by_table = (
        f"--structures {crystals} --labels {table} --method gaussian_process --source none"
    ).split()
    none = run("transfer", *by_table, "--baseline-column", "gap_pbe_eV", "--out", tmp_path / "run")
    assert none.exit_code == 1 and "no column 'gap_pbe_eV'" in none.stderr
    assert run("transfer", *data, "--out", tmp_path / "plain").exit_code == 0
    some = (
        f"predict --model {tmp_path / 'plain'} --structures {crystals} --out {tmp_path / 'new.csv'}"
    ).split()
    refused = shell(*some, "--baselines", table)
    assert refused.returncode == 2 and "this run was trained without a baseline" in refused.stderr
