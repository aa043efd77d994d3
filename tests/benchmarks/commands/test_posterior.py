"""`python -m benchmarks posterior`: what it prints for the file of a finished run."""

import json

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
