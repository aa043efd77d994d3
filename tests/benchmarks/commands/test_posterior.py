"""`python -m benchmarks posterior`: its table and sentences, from a file of a finished run."""

import json

from benchmarks.posterior import OURS
from tests.benchmarks.test_posterior import finished


def test_a_finished_run_is_printed(run, tmp_path):
    _, result = finished(n=60)
    file = tmp_path / "posterior.json"
    file.write_text(json.dumps(result))
    shown = run("posterior", "--n", 60, "--json", file)
    assert shown.exit_code == 0, shown.output
    assert "NumPyro NUTS, row space" in shown.output and "R-hat" in shown.output
    assert (
        "bandgap beside NumPyro NUTS, all inputs: 1.0 times the effective draws per second"
        in shown.output
    )
    assert "60 crystals, 4 chains of one thread each on 2 cores" in shown.output


def test_medians_of_several_runs_are_printed(run, tmp_path):
    """Runs in which the product is as fast, four times and twice as fast."""
    _, result = finished(n=60)
    (sides,) = result["repeats"]
    result["repeats"] = [
        sides
        | {
            OURS: sides[OURS]
            | {rate: times * sides[OURS][rate] for rate in ("ess_per_s", "ess_per_s_with_warmup")}
        }
        for times in (1, 4, 2)
    ]
    file = tmp_path / "posterior.json"
    file.write_text(json.dumps(result))
    shown = run("posterior", "--n", 60, "--repeats", 3, "--json", file)
    assert shown.exit_code == 0, shown.output
    found = " ".join(shown.output.split())
    medians = "2.0 times the effective draws per second, 2.0 times with warm-up"
    assert f"Median of 3 runs beside NumPyro NUTS, all inputs: {medians}" in found


def test_help_says_what_it_needs(run):
    shown = run("posterior", "--help")
    assert shown.exit_code == 0
    assert "the extra named bench" in " ".join(shown.output.split()) and "--minutes" in shown.output
