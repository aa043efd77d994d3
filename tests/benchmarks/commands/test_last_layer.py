"""`python -m benchmarks last-layer`: options, tables and the file of figures."""

import json

import pytest

from benchmarks.commands import last_layer


@pytest.mark.slow
def test_speed_without_accuracy_is_measured_and_written(run, tmp_path):
    """The real design of 512 units, with few sweeps."""
    file = tmp_path / "figures.json"
    result = run(
        "last-layer",
        "--n",
        20,
        "--sweeps",
        20,
        "--repeats",
        2,
        "--no-accuracy",
        "--seed",
        1,
        "--json",
        file,
    )
    assert result.exit_code == 0, result.output
    assert (
        "sweeps/s" in result.output and "plain Gibbs" in result.output and "n x n" in result.output
    )
    assert "20 rows: " in result.output and "factorisations of 512 x 512" in result.output
    written = json.loads(file.read_text())
    assert (
        set(written["sizes"]) == {"20"}
        and written["sizes"]["20"]["methods"] is None
        and written["dead"] is None
    )
    assert written["sweeps"] == 40


def test_invalid_settings_fail_with_one_message(run):
    result = run("last-layer", "--sweeps", 20, "--repeats", 21)
    assert result.exit_code == 1
    assert "21 repeats of 20 sweeps. Accepted: fewer repeats." in result.output


def test_tables_show_expected_errors_and_dead_units(capsys):
    side = {
        "sweeps_per_second": 500.0,
        "of_dpotrf": 1.04,
        "ess_tau_per_1000": 80.0,
        "ess_tau_per_second": 40.0,
    }
    side |= {"ess_fit_per_second": 99.0}
    row = {
        "mse": 0.351,
        "coverage": 0.951,
        "width": 2.31,
        "n_dropped": 3,
        "expected_mse": (0.36, 0.37),
    }
    without_interval = row | {"coverage": None, "width": None, "expected_mse": None}
    size = {
        "n_dropped": 3,
        "speed": {
            "form": "p x p",
            "in_halves": {"bandgap": True, "plain Gibbs": False},
            "dpotrf_per_second": 480.0,
            "sides": {"bandgap": side, "plain Gibbs": side},
        },
        "pcp": {"seconds": 0.5, "in_dpotrf": 240.0},
        "methods": {
            "horseshoe": row,
            "least squares": without_interval,
            "PCP": row | {"expected_mse": (0.47, 0.47)},
        },
    }
    dead = {
        "units": 9,
        "n": 500,
        "runs": {"with the rule": [row, row], "without": [row | {"mse": 12.0}, row]},
    }
    last_layer.print_last_layer(
        {"units": 512, "sweeps": 4000, "repeats": 5, "sizes": {500: size}, "dead": dead},
    )
    out = capsys.readouterr().out
    assert "1.04" in out and out.count("p x p") == 2 and out.count("p x p, halves") == 1
    assert (
        "500 rows: 3 of 512 units dropped; fit by PCP 0.50 s, "
        "as long as 240 factorisations of 512 x 512." in out
    )
    assert "0.36 to 0.37" in out and "95.1 %" in out and "0.47" in out
    assert "without: 3 units dropped, test MSE 12 and 0.351, mean width 2.31 and 2.31" in out
