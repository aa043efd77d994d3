"""`bandgap compare` in the folder of an earlier comparison does not use fits of other data."""

import json
from pathlib import Path

from tests.unit.cli.conftest import Run, write_waters

WORDS = "compare --source none --label gap_eV --n 20 --seeds 1 --device cpu".split()


def figures(out: Path, *, method: str) -> list[float]:
    lines = [json.loads(line) for line in (out / "fits.jsonl").read_text().splitlines()]
    return [line["figures"]["rmse_eV"] for line in lines if line["method"] == method]


def permuted(path: Path, out: Path) -> Path:
    """Write the structures of an extXYZ file with the gaps of the file in the reverse order."""
    lines = path.read_text().splitlines(keepends=True)
    comments = [k for k, line in enumerate(lines) if "gap_eV=" in line]
    gaps = [lines[k].split("gap_eV=")[1].split()[0] for k in comments]
    for k, gap, other in zip(comments, gaps, reversed(gaps), strict=True):
        lines[k] = lines[k].replace(f"gap_eV={gap}", f"gap_eV={other}")
    out.write_text("".join(lines))
    return out


def test_other_labels_give_other_figures_and_say_that_fits_were_recomputed(
    run: Run, tmp_path: Path
) -> None:
    first = write_waters(tmp_path / "first.extxyz", n=40, shift_eV=0.0, name="t")
    second = permuted(first, tmp_path / "second.extxyz")
    words = (*WORDS, "--method", "kernel_ridge", "--n-test", "15")
    shared = tmp_path / "shared"
    alone = tmp_path / "alone"
    assert run(*words, "--structures", first, "--out", shared).exit_code == 0
    again = run(*words, "--structures", second, "--out", shared)
    assert run(*words, "--structures", second, "--out", alone).exit_code == 0
    old, new = figures(shared, method="kernel_ridge")
    assert new != old
    assert [new] == figures(alone, method="kernel_ridge")
    assert f"{new:.3f}" in again.stdout
    assert f"{old:.3f}" not in again.stdout
    reported = " ".join(again.stderr.split())
    assert (
        "2 stored fits are not used, and recomputed if needed. They were made with other data."
        in reported
    )
    third = run(*words, "--structures", second, "--out", shared)
    assert "recomputed" not in third.stderr
    assert len(figures(shared, method="kernel_ridge")) == 2
