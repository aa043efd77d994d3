"""`python -m benchmarks posterior`: what it prints for the file of a finished run."""

import json

from benchmarks.posterior import OURS
from tests.benchmarks.test_posterior import finished


def test_finished_run_is_printed(run, tmp_path):
    _, figures = finished(n=60)
    file = tmp_path / "posterior.json"
    file.write_text(json.dumps(figures))
    result = run("posterior", "--n", 60, "--json", file)
    assert result.exit_code == 0, result.output
    assert "NumPyro NUTS, row space" in result.output and "R-hat" in result.output
    text = " ".join(result.output.split())
    assert (
        "bandgap compared with NumPyro NUTS, all inputs: 1.0 times the effective draws per second"
        in text
    )
    assert "60 crystals, 4 chains of one thread each on 2 cores" in text


def test_medians_of_several_runs_are_printed(run, tmp_path):
    """In three runs bandgap is one, four and two times as fast."""
    _, figures = finished(n=60)
    (sides,) = figures["repeats"]
    figures["repeats"] = [
        sides
        | {
            OURS: sides[OURS]
            | {rate: times * sides[OURS][rate] for rate in ("ess_per_s", "ess_per_s_with_warmup")}
        }
        for times in (1, 4, 2)
    ]
    file = tmp_path / "posterior.json"
    file.write_text(json.dumps(figures))
    result = run("posterior", "--n", 60, "--repeats", 3, "--json", file)
    assert result.exit_code == 0, result.output
    medians = "2.0 times the effective draws per second, 2.0 times with warm-up"
    assert f"Median of 3 runs compared with NumPyro NUTS, all inputs: {medians}" in " ".join(
        result.output.split()
    )


def test_help_names_the_extra_that_is_needed(run):
    result = run("posterior", "--help")
    assert result.exit_code == 0
    assert "the extra named bench" in " ".join(result.output.split())
    assert "--minutes" in result.output
