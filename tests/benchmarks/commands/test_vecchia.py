"""`python -m benchmarks vecchia`: tables and the file of figures."""

import json

import pytest

from benchmarks.commands import vecchia


@pytest.mark.slow
def test_command_prints_costs_and_chains_and_writes_them(run, tmp_path):
    file = tmp_path / "vecchia.json"
    options = (
        "--no-accuracy",
        "--largest",
        1600,
        "--chain-sites",
        60,
        "--chain-draws",
        40,
        "--repeats",
        2,
        "--parts",
        tmp_path / "parts.jsonl",
        "--json",
        file,
    )
    result = run("vecchia", "--data", tmp_path, *options)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Slope of the pass on log-log: " in text and "1,600" in text
    assert "60 sites, step 0.1, 100 sites a batch: SGRLD has" in text
    written = json.loads(file.read_text())
    assert [row["n"] for row in written["costs"]["sizes"]] == [100, 200, 400, 800, 1600]
    assert len(written["chains"]["each"]) == 2 and "accuracy" not in written
    assert [row["n"] for row in written["engines"]["CPU, one core"]] == [100, 200, 100, 200]
    assert "on: CPU, one core. If the ratio is below 1, the tensors are faster." in text
    second = run("vecchia", "--data", tmp_path, *options)  # All four parts are stored.
    assert "4 parts are from an earlier run with --parts" in " ".join(second.output.split())
    assert json.loads(file.read_text()) == written


def test_engines_are_printed_in_a_table_for_each_device(capsys):
    row = {
        "n": 4000.0,
        "neighbours": 60.0,
        "loops_pass_s": 0.05,
        "batched_pass_s": 0.2,
        "pass_ratio": 4.0,
    }
    row |= {"loops_step_s": 0.003, "batched_step_s": 0.0015, "step_ratio": 0.5}
    vecchia.print_engines({"CPU, one core": [row], "a card": [row]})
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("4,000 60 50.0 200.0 4.00 3.00 1.50 0.50") == 2
    assert "batched tensors on: a card." in text


def test_table_of_accuracy_has_a_row_for_each_library(capsys):
    side = {
        "rmse_eV": 0.3507,
        "crps_eV": 0.184,
        "coverage": 0.9525,
        "fit_s": 61.0,
        "predict_s": 2.0,
    }
    sides = {"vecchia": side, "SVGP": side | {"passes": 12.0}}
    vecchia.print_accuracy(
        sides, {"n": 14000, "n_test": 2000, "exact_rows": 4000, "inducing": 1000, "repeats": 3}
    )
    text = " ".join(capsys.readouterr().out.split())
    assert "0.3507" in text and "95.2 %" in text and "SVGP" in text
    assert "14,000 molecules of QM9" in text


def test_fits_of_fewer_rows_are_printed_with_their_likelihood(capsys):
    vecchia.print_fewer_rows(
        {"500": {"fit_s": 8.04, "exact": True}, "5000": {"fit_s": 61.0, "exact": False}}
    )
    assert capsys.readouterr().out.splitlines() == [
        "A fit to 500 rows with the default likelihood (exact): 8.0 s.",
        "A fit to 5,000 rows with the default likelihood (Vecchia's): 61.0 s.",
    ]
