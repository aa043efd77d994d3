"""`bandgap predict` describes its files, with the warnings of the run, in JSON next to them."""

import csv
import json
from collections import Counter
from pathlib import Path

from tests.unit.cli.conftest import Run


def test_warnings_of_the_run_are_next_to_every_file_of_predict(
    run: Run, model: Path, waters: Path, tmp_path: Path
) -> None:
    path = model / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["warnings"] = ["R-hat of tau is 2.34: the chains do not agree."]
    path.write_text(json.dumps(manifest))
    table = tmp_path / "new" / "predictions.csv"
    extxyz = tmp_path / "new" / "predicted.extxyz"
    words = ("predict", "--model", model, "--structures", waters, "--out", table)
    result = run(*words, "--extxyz", extxyz, "--level", "0.9")
    assert result.exit_code == 0, result.output
    text = table.with_name("predictions.csv.json").read_text()
    assert text == extxyz.with_name("predicted.extxyz.json").read_text()
    body = json.loads(text)
    assert body["warnings"] == manifest["warnings"]
    assert body["interval"] == {"kind": "prediction", "level": 0.9}
    assert body["method"] == manifest["method"]
    rows = Counter(row["status"] for row in csv.DictReader(table.read_text().splitlines()))
    assert +Counter(body["rows"]) == rows


def test_description_that_is_also_an_input_is_not_overwritten(
    run: Run, model: Path, tmp_path: Path
) -> None:
    structures = tmp_path / "predictions.csv.json"
    structures.write_text("[]")
    words = ("predict", "--model", model, "--structures", structures)
    result = run(*words, "--out", tmp_path / "predictions.csv")
    assert result.exit_code == 1 and "would be overwritten" in result.stderr
    assert structures.read_text() == "[]"


def test_evaluate_names_the_structures_that_the_run_learned_from(
    run: Run, model: Path, waters: Path, tmp_path: Path
) -> None:
    learned_from = json.loads((model / "manifest.json").read_text())["split"]["train"]
    table = tmp_path / "predictions.csv"
    predicted = run("predict", "--model", model, "--structures", waters, "--out", table)
    assert predicted.exit_code == 0, predicted.output
    words = ("evaluate", "--predictions", table, "--structures", waters, "--label", "gap_eV")
    result = run(*words)
    assert result.exit_code == 0, result.output
    sentence = f"{len(learned_from)} of these "
    assert sentence in result.stderr and learned_from[0] in result.stderr
    table.with_name("predictions.csv.json").unlink()
    assert "learned from" in run(*words).stderr  # the table says it too
    table.with_name("predictions.csv.json").write_text("[]")
    damaged = run(*words)
    assert damaged.exit_code == 1 and "predictions.csv.json: not readable" in damaged.stderr
