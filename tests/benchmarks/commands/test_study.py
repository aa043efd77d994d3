"""`python -m benchmarks study`: names, list, stored files and report."""

import json


def test_study_is_stored_listed_and_reported(run, tmp_path):
    out = tmp_path / "results"
    result = run("study", "figure-2.1", "--scale", "smoke", "--out", out, "--seed", 1)
    assert result.exit_code == 0, result.output
    assert "figure-2.1, smoke, " in result.output
    assert "differs (3 of 4 statements hold)" in result.output
    facts = json.loads((out / "figure-2.1-smoke.json").read_text())
    assert facts["seed"] == 1 and facts["scale"] == "smoke"

    listed = run("study", "--list", "--out", out).output.splitlines()
    (line,) = [line for line in listed if line.startswith("figure-2.1")]
    assert facts["date"] in line and "smoke   differs" in line
    assert "not run" in next(line for line in listed if line.startswith("table-2.1"))

    pages = tmp_path / "pages"
    assert run("study", "--report", pages, "--out", out).exit_code == 0
    assert "so that the rate is lam^2 times the sum" in (pages / "figure-2.1.md").read_text()
    assert "| `table-2.1` |" in (pages / "index.md").read_text()
